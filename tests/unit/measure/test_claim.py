"""One writer per run folder, however many want to write, and whoever is killed."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress

import psutil
import pytest
from unit.refusals import refused

from hpcai.core.errors import RunRefusedError
from hpcai.measure import claim as module
from hpcai.measure import claim_holder
from hpcai.measure.claim import CLAIM, TAKEN_OVER, Claim, claimed, holder_of, live_holder
from hpcai.slurm.job import SlurmJob

ME = claim_holder.this_process()


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Times that fit a test."""
    monkeypatch.setattr(module, "WAIT_S", 0.02)
    monkeypatch.setattr(module, "REFRESH_S", 0.05)
    monkeypatch.setattr(module, "STALE_S", 0.6)
    monkeypatch.setattr(module, "QUIET_S", 0.3)
    monkeypatch.setattr(module, "ASK_S", 0.05)


def write_claim(folder, **changes):
    (folder / CLAIM).write_text(json.dumps({**ME.to_json(), **changes}))


def ended_process():
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    return {"pid": dead.pid, "process_started": 1.0}


def slurm_job(state, restarts=0):
    return SlurmJob(
        job_id="17",
        state=state,
        reason="",
        restarts=restarts,
        nodes="n1",
        preempted=False,
        time_limit_s=None,
        end_time="",
    )


def test_who_comes_later_waits_and_says_for_whom(tmp_path):
    told, order = [], []

    def second():
        with claimed(tmp_path, told.append):
            order.append("second")

    with claimed(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        while not told:
            time.sleep(0.01)
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert len(told) == 1
    assert f"process {os.getpid()} on {socket.gethostname()}" in told[0]
    assert f"to end it: kill {os.getpid()}" in told[0]
    assert not list(tmp_path.iterdir())


def test_claim_is_freed_after_an_error(tmp_path):
    with pytest.raises(ValueError, match="x"), claimed(tmp_path):
        raise ValueError("x")
    assert holder_of(tmp_path) is None
    with claimed(tmp_path):
        assert holder_of(tmp_path).pid == os.getpid()


def test_claim_of_a_dead_process_is_taken_over_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "STALE_S", 1e9)
    write_claim(tmp_path, **ended_process())
    assert live_holder(tmp_path) is None
    with claimed(tmp_path):
        assert holder_of(tmp_path).pid == os.getpid()


def test_a_process_that_got_the_number_of_a_dead_one_holds_nothing(tmp_path):
    write_claim(tmp_path, process_started=ME.process_started - 1)
    assert live_holder(tmp_path) is None


def test_a_process_that_nobody_asked_how_it_ended_is_dead(tmp_path):
    child = subprocess.Popen(["sleep", "60"])
    write_claim(tmp_path, pid=child.pid, process_started=claim_holder._started_s(child.pid))
    assert live_holder(tmp_path).pid == child.pid
    child.kill()
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert live_holder(tmp_path) is None
    child.wait()


@pytest.mark.parametrize("elsewhere", [{"host": "elsewhere"}, {"pid_space": "another container"}])
def test_a_holder_elsewhere_lives_while_its_claim_changes(tmp_path, elsewhere):
    write_claim(tmp_path, **elsewhere)
    claim, ended, taken = tmp_path / CLAIM, threading.Event(), []

    def holder_elsewhere():
        # A clock that is an hour late: only change counts.
        for beat in range(30):
            os.utime(claim, (time.time() - 3600 + beat, time.time() - 3600 + beat))
            time.sleep(0.05)
        ended.set()

    thread = threading.Thread(target=holder_elsewhere)
    thread.start()
    with claimed(tmp_path):
        taken.append(ended.is_set())
    thread.join()
    assert taken == [True]


@pytest.mark.parametrize("content", ["{", "", "[]", "null", '{"pid": "x", "process_started": "y"}'])
def test_a_damaged_claim_is_taken_over_when_it_does_not_change(tmp_path, content):
    (tmp_path / CLAIM).write_text(content)
    assert holder_of(tmp_path).host == "an unknown node"
    started = time.monotonic()
    with claimed(tmp_path):
        assert time.monotonic() - started >= module.STALE_S
        assert holder_of(tmp_path).pid == os.getpid()


def test_slurm_tells_whether_a_holder_elsewhere_lives(tmp_path, monkeypatch):
    write_claim(tmp_path, host="elsewhere", slurm_job="17", slurm_restart=1)
    old = time.time() - 1e6
    os.utime(tmp_path / CLAIM, (old, old))
    expected = {
        ("RUNNING", 1): True, ("SUSPENDED", 1): True, ("COMPLETING", 1): False, ("NODE_FAIL", 1): False,
        ("CANCELLED", 1): False, ("RUNNING", 2): False, ("PENDING", 2): False,
    }  # fmt: skip
    found = {}
    for state, restarts in expected:
        job = slurm_job(state, restarts)
        monkeypatch.setattr(claim_holder, "state_of", lambda _, job=job: job)
        found[state, restarts] = live_holder(tmp_path) is not None
    assert found == expected


def test_what_slurm_does_not_know_is_no_proof_of_an_end(tmp_path, monkeypatch):
    write_claim(tmp_path, host="elsewhere", slurm_job="17", slurm_cluster="one")
    monkeypatch.setattr(claim_holder, "state_of", lambda _: None)
    assert live_holder(tmp_path).slurm_job == "17"
    monkeypatch.setattr(claim_holder, "state_of", lambda _: slurm_job("FAILED"))
    assert live_holder(tmp_path) is None
    # The job of this number of another cluster is another job.
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "two")
    assert live_holder(tmp_path).slurm_job == "17"


def test_another_node_of_the_same_job_is_watched(monkeypatch):
    monkeypatch.setattr(claim_holder, "state_of", lambda _: slurm_job("RUNNING"))
    other = claim_holder.Holder("elsewhere", 5, 1.0, "17", 0, "")
    assert claim_holder.life_in_slurm(other) == "alive"
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert claim_holder.life_in_slurm(other) == "unknown"


def test_a_holder_that_slurm_lost_but_that_works_on_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(claim_holder, "state_of", lambda _: slurm_job("NODE_FAIL"))
    write_claim(tmp_path, host="elsewhere", slurm_job="17")
    ended = threading.Event()

    def lost():
        for _ in range(20):
            os.utime(tmp_path / CLAIM)
            time.sleep(0.05)
        ended.set()

    thread = threading.Thread(target=lost)
    thread.start()
    with claimed(tmp_path):
        assert ended.is_set()
    thread.join()


def test_a_claim_is_refreshed_whatever_its_holder_does(tmp_path):
    with claimed(tmp_path):
        before = (tmp_path / CLAIM).stat().st_mtime_ns
        deadline = time.monotonic() + 10
        while (tmp_path / CLAIM).stat().st_mtime_ns == before:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_claim_that_was_taken_over_is_noticed_and_left_alone(tmp_path):
    with claimed(tmp_path) as claim:
        claim.confirm()
        write_claim(tmp_path, host="elsewhere")
        with refused(RunRefusedError, TAKEN_OVER):
            claim.confirm()
        with refused(RunRefusedError, TAKEN_OVER):
            claim.require()
    assert holder_of(tmp_path).host == "elsewhere"


def test_the_refresher_notices_as_well(tmp_path):
    with claimed(tmp_path) as claim:
        write_claim(tmp_path, host="elsewhere")
        deadline = time.monotonic() + 10
        while not claim._lost and time.monotonic() < deadline:
            time.sleep(0.01)
        with pytest.raises(RunRefusedError):
            claim.require()


def test_a_claim_that_was_removed_is_taken_again(tmp_path):
    with claimed(tmp_path) as claim:
        (tmp_path / CLAIM).unlink()
        claim.confirm()
        assert (tmp_path / CLAIM).read_bytes() == claim.content


@pytest.mark.parametrize("came_first", ["the refresher", "another process"])
def test_a_removed_claim_is_lost_to_other_processes_only(tmp_path, monkeypatch, came_first):
    claim = Claim(tmp_path / CLAIM, ME)

    def second(content, path):
        path.write_bytes(content if came_first == "the refresher" else b"{}")
        return False

    monkeypatch.setattr(module, "_put", second)
    with refused(RunRefusedError, TAKEN_OVER) if came_first == "another process" else nullcontext():
        claim.confirm()


def test_a_folder_that_cannot_be_read_ends_no_run(tmp_path, monkeypatch):
    claim = Claim(tmp_path / CLAIM, ME)

    def stale():
        raise OSError(116, "Stale file handle")

    monkeypatch.setattr(claim, "_is_held", stale)
    with claim.refreshed():
        time.sleep(0.2)
        claim.require()


def test_a_gate_that_was_left_shut_is_broken_open(tmp_path):
    (tmp_path / f".{CLAIM}.gate").mkdir()
    write_claim(tmp_path, **ended_process())
    with claimed(tmp_path):
        assert holder_of(tmp_path).pid == os.getpid()
    assert not list(tmp_path.iterdir())


def contend(folder, log, barrier, rounds, hurried):
    """Take the claim again and again; write down when it is held, and leave it behind now and then."""
    for name, value in (("WAIT_S", 0.001), ("STALE_S", 5.0), ("REFRESH_S", 0.5)):
        setattr(module, name, value)
    barrier.wait()
    for number in range(rounds):
        with claimed(folder) as claim:
            with log.open("a") as stream:
                stream.write(f"+{os.getpid()}\n")
            time.sleep(0.001)
            claim.confirm()
            with log.open("a") as stream:
                stream.write(f"-{os.getpid()}\n")
            if number == rounds - 1 and hurried:
                os._exit(0)  # without letting go, as if it had been killed


def test_of_many_contenders_one_at_a_time_holds_a_claim(tmp_path):
    """Stale claims, dying holders and newcomers all at once: never two holders."""
    folder, log, count, rounds = tmp_path / "run", tmp_path / "log", 8, 6
    folder.mkdir()
    write_claim(folder, **ended_process())
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(count)
    workers = [
        context.Process(target=contend, args=(folder, log, barrier, rounds, number % 2)) for number in range(count)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * count
    lines = log.read_text().split()
    assert len(lines) == 2 * count * rounds
    for taken, freed in zip(lines[::2], lines[1::2], strict=True):
        assert (taken[0], freed[0], taken[1:]) == ("+", "-", freed[1:])
    # The last one may have left its claim behind: it is none of a live process.
    assert live_holder(folder) is None


def test_a_holder_that_is_killed_lets_the_next_one_on(tmp_path):
    code = (
        "import sys, time, pathlib\nfrom hpcai.measure.claim import claimed\n"
        "with claimed(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"
    )
    killed = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert killed.stdout.readline() == "held\n"
    assert live_holder(tmp_path).pid == killed.pid
    with suppress(ProcessLookupError):
        killed.send_signal(signal.SIGKILL)
    with claimed(tmp_path):
        assert holder_of(tmp_path).pid == os.getpid()
    killed.wait()
    killed.stdout.close()


@pytest.mark.parametrize("state", ["COMPLETING", "FAILED", "RUNNING"])
def test_a_job_that_is_ending_for_ever_is_not_waited_for_for_ever(monkeypatch, state):
    monkeypatch.setattr(claim_holder, "state_of", lambda _: slurm_job(state))
    expected = {"COMPLETING": "unknown", "FAILED": "ended", "RUNNING": "alive"}
    assert claim_holder.life_in_slurm(claim_holder.Holder("elsewhere", 5, 1.0, "17", 0, "")) == expected[state]


def test_a_file_server_that_was_away_is_no_silence_of_a_holder(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SLOW_S", 0.3)
    write_claim(tmp_path, host="elsewhere")
    real, looks, returned = module._look, [], []

    def look(path):
        looks.append(path)
        if len(looks) == 2:  # the first has found the claim
            time.sleep(module.STALE_S + 0.1)
            returned.append(time.monotonic())
        return real(path)

    monkeypatch.setattr(module, "_look", look)
    with claimed(tmp_path):
        # From then on the holder has all of its time once more.
        assert time.monotonic() - returned[0] >= module.STALE_S


def test_the_refresher_has_ended_before_a_claim_is_let_go(tmp_path, monkeypatch):
    claim, looks, let_go = Claim(tmp_path / CLAIM, ME), threading.Event(), []
    real = claim._is_held

    def slow():
        looks.set()
        time.sleep(0.3)
        let_go.append("looked")
        return real()

    monkeypatch.setattr(claim, "_is_held", slow)
    monkeypatch.setattr(claim, "_let_go", lambda: let_go.append("let go"))
    with claim.refreshed():
        assert looks.wait(10)
    assert let_go[-2:] == ["looked", "let go"]
