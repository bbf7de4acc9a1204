"""The time that each stage of a start took, and the remaining time."""

import json

import pytest
from unit.campaign.journals import HALF, START_S, end, plan, start, start_run, write

from hpcai.campaign.journal import Journal
from hpcai.campaign.stage_times import expect, say_stage_times, seconds_per_job, stage_times, write_stage_times


@pytest.fixture
def journal(tmp_path):
    journal = Journal(write(tmp_path / "journal.jsonl", *HALF))
    journal.read_on()
    return journal


def test_seconds_jobs_and_time_without_a_job(journal, tmp_path):
    write(journal.path, end(3, 60, "job_error"), start(4, "report", 50), end(4, 65))
    journal.read_on()
    times = stage_times([journal], START_S, START_S + 70)
    assert [(one.stage, one.seconds, one.jobs, one.failed) for one in times.stages] == [
        ("data", 10.0, 1, 0),
        ("measure", 40.0, 2, 1),
        ("report", 15.0, 1, 0),
    ]
    # Jobs ran from 2 to 12 and from 20 to 65.
    assert (times.total_s, times.without_job_s, times.until_first_job_s) == (70.0, 15.0, 2.0)
    write_stage_times(times, tmp_path / "times.json")
    assert json.loads((tmp_path / "times.json").read_text())["stages"][1]["failed"] == 1
    assert len(say_stage_times(times)) == 6


def test_several_calls_are_one_start(journal, tmp_path):
    second = Journal(write(tmp_path / "second.jsonl", plan(), start(1, "report", 100), end(1, 110)))
    second.read_on()
    journal.end_running(START_S + 60)
    times = stage_times([journal, second], START_S, START_S + 120)
    assert {one.stage: one.seconds for one in times.stages} == {"data": 10.0, "measure": 40.0, "report": 10.0}


def test_without_jobs_there_are_no_stages(tmp_path):
    times = stage_times([Journal(tmp_path / "none.jsonl")], 0.0, 5.0)
    assert (times.stages, times.without_job_s, times.until_first_job_s) == ((), 5.0, None)


def test_the_rest_takes_what_finished_jobs_took(journal):
    # The second run is 5 s old, the third takes 20 s; the time of the report is unknown.
    expected = expect(journal, {}, START_S + 45)
    assert (expected.remaining_s, expected.unknown_jobs) == (pytest.approx(35.0), 1)


def test_earlier_starts_tell_of_what_has_not_been_done_yet(journal):
    expected = expect(journal, {"report": 7.0, "train": 1000.0}, START_S + 45)
    assert (expected.remaining_s, expected.unknown_jobs) == (pytest.approx(42.0), 0)


def test_jobs_side_by_side_share_the_rest(tmp_path):
    two = [start_run(number, 0, f"deepcam_mini/fp32/n1x1/r{number}") for number in (1, 2)]
    journal = Journal(write(tmp_path / "journal.jsonl", plan(), *two, end(1, 10), end(2, 10)))
    journal.read_on()
    assert expect(journal, {"report": 10.0, "prepare_data": 10.0}, START_S + 10).remaining_s == pytest.approx(15.0)


def test_mean_time_of_finished_jobs(journal):
    assert seconds_per_job([journal, journal]) == {"prepare_data": 10.0, "train": 20.0}
