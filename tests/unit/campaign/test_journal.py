"""The journal of a start's jobs is read as it grows, with the stage and state of every job."""

import pytest
from unit.campaign.journals import HALF, RUN, end, plan, start, start_run, write

from hpcai.campaign.journal import Journal, read_journals


@pytest.fixture
def journal(tmp_path):
    journal = Journal(write(tmp_path / "journal.jsonl", *HALF))
    journal.read_on()
    return journal


def test_stages_and_jobs(journal):
    assert journal.stages == ["data", "measure", "report"]
    assert [journal.planned_of(stage) for stage in journal.stages] == [1, 3, 1]
    assert [(job.name, job.state) for job in journal.jobs.values()] == [
        ("prepare_data deepcam_mini", "done"),
        (f"runs/{RUN}", "done"),
        ("runs/deepcam_mini/fp32/n1x1/r2", "running"),
    ]
    assert [job.is_timed for job in journal.jobs.values()] == [False, True, True]
    assert [job.seconds(1050.0) for job in journal.jobs.values()] == [10.0, 20.0, 10.0]


def test_what_is_added_is_read_once_and_only_whole_lines(journal):
    write(journal.path, end(3, 70))
    with journal.path.open("a") as file:
        file.write('{"event": "job_in')
    journal.read_on()
    assert len(journal.in_state("done")) == 3
    with journal.path.open("a") as file:
        file.write('fo", "time_s": 1, "number": 4, "rule": "report", "output": [], "log": [], "wildcards": {}}\n')
    journal.read_on()
    assert [job.rule for job in journal.in_state("running")] == ["report"]


def test_nothing_is_opened_while_nothing_is_added(journal, monkeypatch):
    monkeypatch.setattr(type(journal.path), "open", lambda *_: pytest.fail("opened"))
    journal.read_on()


def test_a_job_that_is_tried_again_counts_by_its_last_try(journal):
    write(journal.path, end(3, 50, "job_error"))
    journal.read_on()
    assert [job.state for job in journal.jobs.values()] == ["done", "done", "failed"]
    write(journal.path, start_run(3, 60, RUN), end(3, 70))
    journal.read_on()
    assert [job.state for job in journal.jobs.values()] == ["done", "done", "done"]


def test_what_ends_badly_after_an_end_was_asked_for_was_interrupted(journal):
    journal.ending = True
    write(journal.path, start(4, "report", 50), end(4, 55, "job_error"))
    journal.read_on()
    journal.end_running(1060.0)
    assert [(job.rule, job.seconds(0.0)) for job in journal.in_state("interrupted")] == [
        ("train", 20.0),
        ("report", 5.0),
    ]


def test_a_journal_that_is_not_there_yet_is_empty(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.read_on()
    assert (journal.stages, journal.jobs) == ([], {})


def test_a_damaged_journal_of_an_earlier_start_is_left_out(tmp_path):
    good, bad = write(tmp_path / "good.jsonl", plan()), tmp_path / "bad.jsonl"
    bad.write_text('{"event": "run_info"}\n')
    assert [journal.path for journal in read_journals([bad, good, tmp_path / "none.jsonl"])] == [
        good,
        tmp_path / "none.jsonl",
    ]
