"""Running work is found by its claim, waited for, and reported with its epochs."""

import os
import threading

import pytest
from unit.campaign.result_folders import finish_run, leave_claim, run_folder
from unit.campaign.test_surroundings import fake_squeue
from unit.refusals import told

from hpcai.campaign import live
from hpcai.campaign.live import END_IT, WAITS, AtWork, LiveRun, live_runs, wait_until_idle, wait_until_none
from hpcai.measure.claim import claimed
from hpcai.measure.claim_holder import Holder
from hpcai.slurm.queue import QueuedJob


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(live, "POLL_S", 0.01)


@pytest.fixture
def with_squeue(tmp_path, monkeypatch):
    """A folder for a fake squeue."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def test_only_what_somebody_is_at_work_on(tmp_path):
    finish_run(tmp_path)
    leave_claim(run_folder(tmp_path, repetition=2))
    group = tmp_path / "weak" / "cosmoflow_mini" / "fp32" / "n1x1"
    with claimed(run_folder(tmp_path, repetition=3)), claimed(group):
        names = [run.name for run in live_runs(tmp_path)]
    assert names == ["runs/cosmoflow_mini/fp32/n1x1/r3", "weak/cosmoflow_mini/fp32/n1x1"]
    assert live_runs(tmp_path / "nowhere") == []


def test_wait_ends_when_the_holder_ends(tmp_path):
    taken, let_go = threading.Event(), threading.Event()

    def hold():
        with claimed(run_folder(tmp_path)):
            taken.set()
            let_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert taken.wait(30)
    said = []

    def say(words):
        said.append(words)
        let_go.set()

    wait_until_idle(tmp_path, tmp_path, say)
    thread.join()
    assert len(said) == 1
    facts = told(said[0], END_IT)
    waits = told(facts["words"], WAITS)
    assert waits["count"] == "1"
    assert waits["what"].startswith("runs/cosmoflow_mini/fp32/n1x1/r1 (process ")
    assert facts["remedies"].startswith(f"`kill {os.getpid()}  # on ")
    assert live_runs(tmp_path) == []


def test_nothing_to_wait_for_says_nothing(tmp_path):
    wait_until_idle(tmp_path, tmp_path, pytest.fail)


def queue(folder, *jobs):
    """Let Slurm's queue hold these jobs, given by number, state and start."""
    lines = "".join(f"{job}|{state}|None|{start}|{folder}|rule_pack_wildcards_x\n" for job, state, start in jobs)
    fake_squeue(folder, f"cat <<'END'\n{lines}END")


def test_jobs_of_an_earlier_start_are_waited_for_before_they_claim_anything(tmp_path, with_squeue):
    queue(tmp_path, ("91", "PENDING", "start-1"), ("92", "RUNNING", "start-1"))
    said = []

    def say(words):
        said.append(words)
        queue(tmp_path)

    wait_until_idle(tmp_path / "results", tmp_path, say)
    jobs = "Slurm job 91 (PENDING: pack x); Slurm job 92 (RUNNING: pack x)"
    assert said == [END_IT(words=WAITS(count=2, what=jobs), remedies="`scancel --name=start-1`")]


def test_slurm_that_does_not_answer_for_once_ends_no_wait(tmp_path, with_squeue, monkeypatch):
    answers = iter([(QueuedJob("91", "PENDING", "None", "start-1", "pack x"),), None, ()])
    looks = []
    monkeypatch.setattr(live, "queued_jobs", lambda folder: looks.append(folder) or next(answers))
    wait_until_idle(tmp_path / "results", tmp_path, lambda words: None)
    assert looks == [tmp_path] * 3


def test_the_job_that_the_controller_runs_in_is_not_waited_for(tmp_path, with_squeue, monkeypatch):
    queue(tmp_path, ("91", "RUNNING", "outer"))
    monkeypatch.setenv("SLURM_JOB_ID", "91")
    wait_until_idle(tmp_path / "results", tmp_path, pytest.fail)
    queue(tmp_path, ("90_7", "RUNNING", "outer"))
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "90")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "7")
    wait_until_idle(tmp_path / "results", tmp_path, pytest.fail)


def test_a_job_that_claims_its_run_is_named_once(tmp_path, with_squeue, monkeypatch):
    queue(tmp_path, ("91", "RUNNING", "start-1"))
    run = LiveRun("runs/x/r1", Holder("n1", 5, 1.0, "91", 0, ""))
    monkeypatch.setattr(live, "live_runs", lambda results: [run])
    said = []
    wait_until_idle(tmp_path / "results", tmp_path, said.append, longest_s=0.01)
    assert said == [
        END_IT(words=WAITS(count=1, what="runs/x/r1 (process 5 on n1 (Slurm job 91))"), remedies="`scancel 91`")
    ]


def test_wait_says_it_at_once_and_once_a_minute_and_ends_when_its_time_is_up(monkeypatch):
    def look():
        return [AtWork(name) for name in next(answers, ())]

    said = []
    answers = iter(["abcd", "abc", "b"])
    wait_until_none(look, said.append)
    assert said == [WAITS(count=4, what="a; b; c; ...")]
    monkeypatch.setattr(live, "SAY_AGAIN_S", 0.0)
    answers = iter(["abcd", "b"])
    wait_until_none(look, said.append)
    assert said[1:] == [WAITS(count=4, what="a; b; c; ..."), WAITS(count=1, what="b")]
    wait_until_none(lambda: [AtWork("for ever")], said.append, longest_s=0.0)
    assert said[3:] == [WAITS(count=1, what="for ever")]
