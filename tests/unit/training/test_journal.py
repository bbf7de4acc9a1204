"""Output of a running rank."""

import csv
import math
import time
from pathlib import Path

import numpy as np
import pytest

from hpcai.core.errors import TrainingError
from hpcai.records.run import EpochRecord
from hpcai.training.chrono import Chrono
from hpcai.training.engine import weights_digest
from hpcai.training.journal import Journal, ResourceSampler, Step
from hpcai.training.loop import epoch_record, require_equal


def test_epochs_and_steps_are_readable_as_soon_as_the_epoch_is_done(tmp_path: Path) -> None:
    journal = Journal(tmp_path, active=True)
    steps = [Step(10.0, 0.5, 1.0), Step(10.5, 0.25, 0.5)]
    journal.add_epoch(epoch_record(1, 0.01, steps, 0.8, global_batch=4), steps)
    rows = list(csv.DictReader((tmp_path / "steps.csv").open()))
    assert rows[1] == {"epoch": "1", "step": "2", "start_s": "10.5", "step_time_s": "0.25", "train_loss": "0.5"}
    record = EpochRecord.model_validate_json((tmp_path / "epochs.jsonl").read_text())
    assert (record.steps, record.samples, record.train_loss, record.step_time_max_s) == (2, 8, 0.75, 0.5)
    assert (tmp_path / "heartbeat").exists()


def test_a_diverged_epoch_survives_the_file(tmp_path: Path) -> None:
    journal = Journal(tmp_path, active=True)
    steps = [Step(1.0, 0.5, 1.0), Step(1.5, 0.5, math.nan)]
    journal.add_epoch(epoch_record(1, 0.01, steps, 1.0, global_batch=4), steps)
    assert math.isnan(EpochRecord.model_validate_json((tmp_path / "epochs.jsonl").read_text()).train_loss)


def test_other_ranks_write_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path, active=False)
    journal.beat()
    journal.say("nothing")
    assert list(tmp_path.iterdir()) == []


def test_the_longest_time_without_a_sign_of_life_counts_from_the_start_of_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_s = iter([0.0, 100.0, 101.0, 121.5, 122.0])
    monkeypatch.setattr("hpcai.training.journal.monotonic_s", lambda: next(times_s))
    journal = Journal(tmp_path, active=False)
    assert journal.begin_timing() == 100.0
    for _ in range(3):
        journal.beat(now=False)
    assert journal.longest_gap_s == 20.5


def test_resources_are_sampled_with_the_monotonic_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hpcai.training.journal.SAMPLE_S", 0.02)
    with ResourceSampler(tmp_path / "resources.csv"):
        time.sleep(0.3)
    rows = list(csv.DictReader((tmp_path / "resources.csv").open()))
    assert rows
    assert int(rows[0]["rss_bytes"]) > 1_000_000
    times = [float(row["monotonic_s"]) for row in rows]
    assert times == sorted(times)


def test_phases_do_not_overlap() -> None:
    chrono = Chrono()
    message = "'evaluation' inside phase 'train'"
    with chrono.phase("train"), pytest.raises(RuntimeError, match=message), chrono.phase("evaluation"):
        pass
    assert chrono.seconds["train"] > 0


def test_digest_sees_every_bit_but_no_nan_payload() -> None:
    weights = [np.ones((2, 2), np.float32), np.zeros(3, np.float32)]
    changed = [np.nextafter(weights[0], 2, dtype=np.float32), weights[1]]
    assert weights_digest(weights) != weights_digest(changed)
    payloads = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert weights_digest([payloads[:1]]) == weights_digest([payloads[1:]])


def test_ranks_with_other_weights_are_named() -> None:
    digests = np.zeros((4, 32), np.uint8)
    require_equal(digests)
    digests[2, 31] = 1
    with pytest.raises(TrainingError, match=r"ranks \[2\] differ from rank 0"):
        require_equal(digests)
