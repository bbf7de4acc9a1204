"""What a rank caches: every record once, in memory that it has, and nothing of it in plans without caches."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.training.training_plans import MACHINE, make_plan
from unit.training.training_samples import write_numbered

from hpcai.core.errors import DatasetError, StagingError
from hpcai.training.caches import NO_MEMORY, NO_SPACE, Caches
from hpcai.training.input import Reading, Samples, Schedule, Shard, evaluation_batches, train_batches
from hpcai.workloads.cosmoflow.training import CosmoFlow

COUNT = 8


def samples(folder: Path) -> Samples:
    paths = write_numbered(folder, COUNT)
    lengths = np.array([path.stat().st_size for path in paths])
    return Samples(paths, np.arange(COUNT), np.zeros(COUNT, np.int64), Shard(0, 1), gzip=False, file_bytes=lengths)


def made(folder: Path, **changes: dict) -> tuple[Caches, Reading, Samples, CosmoFlow]:
    plan = make_plan(**changes)
    workload, found = CosmoFlow(plan), samples(folder)
    reading = Reading(workload.parse, workload.collate, plan.evaluation_batch, 1)
    return Caches(plan, found, COUNT, (folder / "stage", 0)), reading, found, workload


def filled(folder: Path, **changes: dict) -> tuple[Caches, Reading, Samples]:
    caches, reading, found, workload = made(folder, **changes)
    batches = evaluation_batches(found, reading, caches.evaluation)
    caches.fill(batches, workload.evaluation_spec(), 1, lambda: None)
    return caches, reading, found


def test_records_come_from_memory_once_it_is_filled(tmp_path: Path) -> None:
    caches, reading, found = filled(tmp_path, point={"training_cache": "memory"})
    schedule = Schedule(seed=1, epochs=2, rank_samples=COUNT)
    expected = [batch[1].numpy() for batch in train_batches(found, reading, schedule)]
    for path in found.paths:
        path.unlink()
    cached = [batch[1].numpy() for batch in train_batches(found, caches.reading(reading), schedule)]
    np.testing.assert_array_equal(cached, expected)


@pytest.mark.parametrize("place", ["memory", "node_local"])
def test_evaluations_need_no_file_after_the_first(tmp_path: Path, place: str) -> None:
    caches, reading, found, workload = made(tmp_path, point={"evaluation_cache": place})
    batches = evaluation_batches(found, reading, caches.evaluation)
    caches.fill(batches, workload.evaluation_spec(), 1, lambda: None)
    for path in found.paths:
        path.unlink()
    targets = np.concatenate([batch[1].numpy()[batch[2].numpy() > 0] for batch in batches])
    assert targets[:, 0].tolist() == list(range(COUNT))
    assert any((tmp_path / "stage").glob("validation_rank0*")) == (place == "node_local")


@pytest.mark.parametrize("column", ["evaluation_cache", "training_cache"])
def test_what_does_not_fit_the_memory_is_refused(tmp_path: Path, column: str) -> None:
    machine = {**MACHINE, "memory_bytes": "100 kB"}
    with refused(DatasetError, NO_MEMORY, column=column):
        filled(tmp_path, point={column: "memory"}, plan={"machine": machine})


def test_what_does_not_fit_the_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = type("Space", (), {"f_bavail": 1, "f_frsize": 4096})
    monkeypatch.setattr("hpcai.training.caches.os.statvfs", lambda _: space)
    with refused(StagingError, NO_SPACE, free=4096):
        filled(tmp_path, point={"evaluation_cache": "node_local"})


def test_without_caches_nothing_is_wanted(tmp_path: Path) -> None:
    caches, reading, *_ = made(tmp_path)
    assert not caches.wanted
    assert caches.reading(reading) == reading


def test_the_evaluation_has_a_batch_of_its_own() -> None:
    workload = CosmoFlow(make_plan(point={"evaluation_batch": 7}))
    assert [one.shape[0] for one in workload.evaluation_spec()] == [7, 7]
    assert [one.shape[0] for one in workload.batch_spec()] == [4, 4]
    assert all(isinstance(one, tf.TensorSpec) for one in workload.evaluation_spec())
