"""Signals end a measurement in order and only once, and the reason names their sender."""

import os
import signal
import threading
import time

import pytest
from unit.refusals import refused

from hpcai.core.errors import RunInterruptedError
from hpcai.measure import interruption as module
from hpcai.measure.interruption import (
    FROM_OUTSIDE,
    INTERRUPTED,
    Interruption,
    Signals,
    ended_by_signals,
    is_ending,
    words_of,
)
from hpcai.slurm.job import SlurmJob


def slurm_job(state, reason="", restarts=0, preempted=False, time_limit_s=600):
    return SlurmJob(
        job_id="17",
        state=state,
        reason=reason,
        restarts=restarts,
        nodes="n[1-2]",
        preempted=preempted,
        time_limit_s=time_limit_s,
        end_time="",
    )


@pytest.fixture
def slurm(monkeypatch):
    """A job that first runs and then has the state given by a test."""

    def say(job, down=()):
        monkeypatch.setenv("SLURM_JOB_ID", "17")
        monkeypatch.setattr(module, "own_job", lambda: slurm_job("RUNNING"))
        monkeypatch.setattr(module, "state_of", lambda *_: job)
        monkeypatch.setattr(module, "down_nodes", lambda *_: list(down))

    say(slurm_job("RUNNING"))
    return say


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_work_with_its_status(number):
    before, done = signal.getsignal(number), []

    def work():
        with ended_by_signals("the run") as signals:
            signals.call_first(done.append)
            try:
                os.kill(os.getpid(), number)
                time.sleep(60)
            finally:
                # What is cleaned up is not interrupted again.
                os.kill(os.getpid(), number)
                done.append("cleaned")

    reason = FROM_OUTSIDE(signal_name=number.name)
    with refused(RunInterruptedError, INTERRUPTED, place="the run", reason=reason) as error:
        work()
    assert error.value.status == 128 + number
    assert done == [reason, "cleaned"]
    assert signal.getsignal(number) == before


def test_what_is_nearly_done_is_finished():
    with ended_by_signals("the run") as signals:
        signals.hold_back()
        os.kill(os.getpid(), signal.SIGTERM)
        done = True
    assert done


def test_what_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals("the run"):
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_threads_leave_handlers_alone():
    found = []

    def work():
        with ended_by_signals("the run"):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGTERM)]


@pytest.mark.parametrize(
    ("job", "down", "words"),
    [
        (None, (), "ended from outside by SIGTERM"),
        (slurm_job("RUNNING"), (), "ended from outside by SIGTERM"),
        (slurm_job("COMPLETING", "TimeLimit"), (), "ended at Slurm's time limit of 10 min"),
        (slurm_job("TIMEOUT", "TimeLimit", time_limit_s=None), (), "ended at Slurm's time limit"),
        (slurm_job("COMPLETING"), (), "cancelled in Slurm (scancel)"),
        (slurm_job("CANCELLED"), (), "cancelled in Slurm (scancel)"),
        (slurm_job("COMPLETING", "NodeDown"), ("n2",), "ended by Slurm, because node n2 failed"),
        (slurm_job("COMPLETING", "NodeDown"), (), "ended by Slurm, because a node of the job failed"),
        (slurm_job("COMPLETING", restarts=1), (), "put back into Slurm's queue (requeued)"),
        (slurm_job("COMPLETING", restarts=1), ("n1", "n2"), "ended by Slurm, because nodes n1 and n2 failed"),
        (slurm_job("COMPLETING", preempted=True), (), "preempted: the job had to make room for another"),
        (slurm_job("OUT_OF_MEMORY", "OutOfMemory"), (), "ended by Slurm (OUT_OF_MEMORY OutOfMemory)"),
        (slurm_job("DEADLINE"), (), "ended by Slurm (DEADLINE)"),
    ],
)
def test_who_ended_it(slurm, job, down, words):
    slurm(job, down)
    assert words_of(job, signal.SIGTERM) == words


@pytest.mark.parametrize(
    ("state", "ends"),
    [("RUNNING", False), ("SUSPENDED", False), ("COMPLETING", True), ("PENDING", True), ("NODE_FAIL", True)],
)
def test_a_launcher_that_was_ended_with_its_job_is_no_result(slurm, state, ends):
    slurm(slurm_job(state))
    assert is_ending(slurm_job(state)) == ends
    if ends:
        with pytest.raises(Interruption):
            Signals().interrupt_if_job_ends()
    else:
        Signals().interrupt_if_job_ends()


def test_a_controller_that_does_not_answer_is_asked_again(slurm, monkeypatch):
    answers = [None, None, slurm_job("COMPLETING", "NodeDown")]
    slurm(None, ["n2"])
    monkeypatch.setattr(module, "ASK_AGAIN_S", 0.01)
    monkeypatch.setattr(module.shutil, "which", lambda _: "/usr/bin/scontrol")
    monkeypatch.setattr(module, "state_of", lambda *_: answers.pop(0))
    with pytest.raises(Interruption, match="because node n2 failed"):
        Signals().interrupt_if_job_ends()
    assert answers == []


def test_a_controller_that_never_answers_is_not_asked_for_ever(slurm, monkeypatch):
    slurm(None)
    monkeypatch.setattr(module, "ASK_AGAIN_S", 0.01)
    monkeypatch.setattr(module.shutil, "which", lambda _: "/usr/bin/scontrol")
    Signals().interrupt_if_job_ends(0.05)


def test_what_is_given_up_says_why_also_when_signals_are_held_back():
    signals, noted = Signals(), []
    signals.call_first(noted.append)
    signals.hold_back()
    with pytest.raises(Interruption, match="node n2 is gone"):
        signals.give_up("node n2 is gone")
    assert noted == ["node n2 is gone"]


def test_who_goes_on_without_lost_nodes_is_ended_by_the_next_signal(slurm, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    signals = Signals()
    signals.hold_back()
    with pytest.raises(Interruption) as lost:
        signals.give_up("node n2 is gone", ["n2"])
    assert lost.value.lost_nodes == ("n2",)
    signals.go_on()
    with pytest.raises(Interruption) as ended:
        signals.interrupt(signal.SIGTERM)
    assert ended.value.lost_nodes == ()


def test_outside_of_slurm_nobody_is_asked(monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(module, "state_of", lambda *_: pytest.fail("asked"))
    Signals().interrupt_if_job_ends()
