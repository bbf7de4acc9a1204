"""What is under way is found by its claim, waited for, and told with its epochs."""

import json
import os
import threading
import time

import pytest
from unit.campaign.result_folders import finish_run, leave_claim, open_attempt, run_folder

from hpcai.campaign import live
from hpcai.campaign.live import live_runs, progress_of, wait_for_live, wait_until_none
from hpcai.measure.claim import claimed


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(live, "POLL_S", 0.01)


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

    wait_for_live(tmp_path, say)
    thread.join()
    assert len(said) == 1
    assert "waits for 1 under way: runs/cosmoflow_mini/fp32/n1x1/r1 (process" in said[0]
    assert live_runs(tmp_path) == []


def test_nothing_to_wait_for_says_nothing(tmp_path):
    wait_for_live(tmp_path, pytest.fail)


def test_wait_says_what_changes_and_ends_when_its_time_is_up():
    answers = iter([["a", "b", "c", "d"], ["a", "b", "c", "d"], ["b"]])
    said = []
    wait_until_none(lambda: next(answers, []), said.append)
    assert said == ["waits for 4 under way: a; b; c; ...", "waits for 1 under way: b"]
    wait_until_none(lambda: ["for ever"], said.append, longest_s=0.05)
    assert said[2:] == ["waits for 1 under way: for ever"]


def test_progress_of_a_run(tmp_path):
    folder = run_folder(tmp_path)
    open_attempt(folder, "20260101T000000Z-aaaaaa")
    opened = time.time() - 100
    attempt = open_attempt(folder, time.strftime("%Y%m%dT%H%M%SZ-bbbbbb", time.gmtime(opened)))
    found = progress_of(folder)
    assert (found.started, found.epoch) == (False, None)
    assert found.elapsed_s == pytest.approx(100, abs=30)
    (attempt / "output.log").touch()
    epochs = [{"epoch": 1, "quality": 0.5}, {"epoch": 2, "quality": 0.25}]
    (attempt / "epochs.jsonl").write_text("".join(json.dumps(epoch) + "\n" for epoch in epochs) + '{"epoch": 3, "qua')
    (attempt / "heartbeat").touch()
    os.utime(attempt / "heartbeat", (time.time() - 50, time.time() - 50))
    found = progress_of(folder)
    assert (found.started, found.epoch, found.quality, found.target, found.limit_s) == (True, 2, 0.25, 0.3, 3600.0)
    assert found.silent_s == pytest.approx(50, abs=30)


def test_progress_of_a_group_is_that_of_its_slowest_instance(tmp_path):
    group = tmp_path / "weak" / "cosmoflow_mini" / "fp32" / "n1x1"
    for number, epochs in ((1, 3), (2, 1)):
        attempt = open_attempt(group / f"i{number}")
        (attempt / "output.log").touch()
        (attempt / "epochs.jsonl").write_text("".join(f'{{"epoch": {epoch}}}\n' for epoch in range(1, epochs + 1)))
    assert progress_of(group).epoch == 1


def test_what_is_not_readable_yet_is_not_known(tmp_path):
    folder = run_folder(tmp_path)
    attempt = open_attempt(folder, "unusual-name")
    (attempt / "plan.json").write_text('{"limits": 3')
    (attempt / "epochs.jsonl").write_text("[1]\n")
    found = progress_of(folder)
    assert (found.elapsed_s, found.limit_s, found.target, found.epoch, found.silent_s) == (None,) * 5
