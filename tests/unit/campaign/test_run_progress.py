"""The progress of a running run, from the files of its newest attempt."""

import json
import os
import time

import pytest
from unit.campaign.result_folders import open_attempt, run_folder

from hpcai.campaign.run_progress import progress_of


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
