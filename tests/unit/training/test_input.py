"""Order, sharding, padding and errors of the input pipeline."""

from pathlib import Path

import numpy as np
import pytest
from unit.training.training_plans import make_plan
from unit.training.training_samples import write_numbered, write_sample

from hpcai.errors import DatasetError
from hpcai.training.cosmoflow import CosmoFlow
from hpcai.training.input import Files, Reading, Shard, checked, epoch_order, evaluation_batches, train_batches

COUNT = 12


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return write_numbered(tmp_path_factory.mktemp("cubes"), COUNT)


def reading(local_batch: int) -> Reading:
    return Reading(CosmoFlow(make_plan()).parse, local_batch, threads=2)


def train_numbers(
    paths: tuple[Path, ...], ranks: int, *, gzip: bool = False, seed: int = 5, epochs: int = 2
) -> np.ndarray:
    """Return the samples' numbers as (rank, batch, sample in batch) for a global batch of 4."""
    shards = [Files(paths, Shard(rank, ranks), gzip) for rank in range(ranks)]
    sets = [train_batches(files, reading(4 // ranks), seed, epochs) for files in shards]
    return np.array([[targets.numpy()[:, 0] for _, targets in batches] for batches in sets], int)


def test_the_ranks_together_see_the_batches_of_one_rank(paths: tuple[Path, ...]) -> None:
    one, two, four = (train_numbers(paths, ranks) for ranks in (1, 2, 4))
    for numbers in (two, four):
        union = np.sort(np.concatenate(list(numbers), axis=1), axis=1)
        np.testing.assert_array_equal(union, np.sort(one[0], axis=1))


def test_each_epoch_has_each_sample_once_in_an_order_of_its_own(paths: tuple[Path, ...]) -> None:
    first, second = train_numbers(paths, 1)[0].reshape(2, COUNT)
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert list(first) != list(second)
    np.testing.assert_array_equal(first, epoch_order(5, 1, COUNT).numpy())
    np.testing.assert_array_equal(second, epoch_order(5, 2, COUNT).numpy())


def test_order_is_repeatable_and_depends_on_the_seed(paths: tuple[Path, ...]) -> None:
    np.testing.assert_array_equal(train_numbers(paths, 2), train_numbers(paths, 2))
    assert (train_numbers(paths, 2, seed=6) != train_numbers(paths, 2)).any()


def test_gzip_files_give_the_same_samples(tmp_path: Path, paths: tuple[Path, ...]) -> None:
    packed = write_numbered(tmp_path, COUNT, gzip=True)
    np.testing.assert_array_equal(train_numbers(packed, 1, gzip=True), train_numbers(paths, 1))


def test_counts_travel_as_int16(paths: tuple[Path, ...]) -> None:
    counts, targets = next(iter(train_batches(Files(paths, Shard(0, 1), False), reading(4), 5, 1)))
    assert counts.dtype == np.int16
    assert counts.shape == (4, 16, 16, 16, 4)
    np.testing.assert_array_equal(counts.numpy()[:, 0, 0, 0, 0], targets.numpy()[:, 0])


@pytest.mark.parametrize(("ranks", "local_batch"), [(1, 4), (1, 5), (2, 4), (3, 4), (5, 3)])
def test_evaluation_has_each_sample_once_for_any_number_of_ranks(
    paths: tuple[Path, ...], ranks: int, local_batch: int
) -> None:
    seen: list[float] = []
    for rank in range(ranks):
        for counts, targets, weights in evaluation_batches(
            Files(paths, Shard(rank, ranks), False), reading(local_batch)
        ):
            assert counts.shape[0] == targets.shape[0] == weights.shape[0] == local_batch
            seen += list(targets.numpy()[weights.numpy() > 0, 0])
    assert sorted(seen) == list(range(COUNT))


def test_a_rank_without_evaluation_files_has_no_batches(paths: tuple[Path, ...]) -> None:
    assert list(evaluation_batches(Files(paths[:2], Shard(2, 3), False), reading(4))) == []


def test_files_that_make_no_whole_batches_are_an_error(paths: tuple[Path, ...]) -> None:
    with pytest.raises(DatasetError, match="found 12, expected a multiple of 1 ranks x 5 samples"):
        train_batches(Files(paths, Shard(0, 1), False), reading(5), 1, 1)


def test_a_missing_file_is_named(paths: tuple[Path, ...], tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"gone\.tfrecord: no such file"):
        Files((*paths, tmp_path / "gone.tfrecord"), Shard(0, 1), False).require()


def damaged(folder: Path, damage: str) -> Path:
    path = folder / "univ_ics_test_a0001_000.tfrecord"
    edge, copies = (15 if damage == "shape" else 16), (2 if damage == "two records" else 1)
    write_sample(path, np.ones((edge, 16, 16, 4)), [0, 0, 0, 0], copies=copies)
    data = bytearray(path.read_bytes())
    if damage == "bit":
        data[5000] ^= 1
    changed = {"empty": b"", "tail": bytes(data[:-10]), "bit": bytes(data)}.get(damage, bytes(data))
    path.write_bytes(changed)
    return path


@pytest.mark.parametrize("damage", ["empty", "tail", "bit", "two records", "shape"])
def test_a_damaged_sample_ends_the_reading(tmp_path: Path, damage: str) -> None:
    files = Files((damaged(tmp_path, damage),), Shard(0, 1), False)
    with pytest.raises(DatasetError, match="training: a sample cannot be read"):
        list(checked(iter(train_batches(files, reading(1), 1, 1)), "training"))
