"""Order, sharding, padding and errors of the input pipeline."""

from pathlib import Path

import numpy as np
import pytest
from unit.refusals import refused
from unit.training.training_plans import make_plan
from unit.training.training_samples import write_numbered, write_sample

from hpcai.core.errors import DatasetError
from hpcai.data.tfrecord import FRAME_BYTES, write_records
from hpcai.training.input import (
    BAD_SAMPLE,
    NO_FILE,
    NO_WHOLE_BATCHES,
    OTHER_LENGTH,
    Reading,
    Samples,
    Schedule,
    Shard,
    checked,
    epoch_order,
    evaluation_batches,
    train_batches,
)
from hpcai.workloads.cosmoflow.data.sample import encode_sample
from hpcai.workloads.cosmoflow.training import CosmoFlow

COUNT = 12
ALONE = Shard(0, 1)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    return write_numbered(tmp_path_factory.mktemp("cubes"), COUNT)


def reading(local_batch: int) -> Reading:
    workload = CosmoFlow(make_plan())
    return Reading(workload.parse, workload.collate, local_batch, threads=2)


def one_each(paths: tuple[Path, ...], shard: Shard = ALONE, *, gzip: bool = False) -> Samples:
    """Files with one sample each."""
    lengths = np.array([path.stat().st_size if path.exists() else 1 for path in paths])
    return Samples(paths, np.arange(len(paths)), np.zeros(len(paths), np.int64), shard, gzip, lengths)


def train_numbers(
    paths: tuple[Path, ...], ranks: int, *, gzip: bool = False, seed: int = 5, epochs: int = 2
) -> np.ndarray:
    """Return the sample numbers as (rank, batch, sample in batch) for a global batch of 4."""
    shards = [one_each(paths, Shard(rank, ranks), gzip=gzip) for rank in range(ranks)]
    schedule = Schedule(seed, epochs, COUNT // ranks)
    sets = [train_batches(samples, reading(4 // ranks), schedule) for samples in shards]
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
    counts, targets = next(iter(train_batches(one_each(paths), reading(4), Schedule(5, 1, COUNT))))
    assert counts.dtype == np.int16
    assert counts.shape == (4, 16, 16, 16, 4)
    np.testing.assert_array_equal(counts.numpy()[:, 0, 0, 0, 0], targets.numpy()[:, 0])


@pytest.mark.parametrize(("ranks", "local_batch"), [(1, 4), (1, 5), (2, 4), (3, 4), (5, 3)])
def test_evaluation_has_each_sample_once_for_any_number_of_ranks(
    paths: tuple[Path, ...], ranks: int, local_batch: int
) -> None:
    seen: list[float] = []
    for rank in range(ranks):
        for counts, targets, weights in evaluation_batches(one_each(paths, Shard(rank, ranks)), reading(local_batch)):
            assert counts.shape[0] == targets.shape[0] == weights.shape[0] == local_batch
            seen += list(targets.numpy()[weights.numpy() > 0, 0])
    assert sorted(seen) == list(range(COUNT))


def test_a_rank_without_evaluation_files_has_no_batches(paths: tuple[Path, ...]) -> None:
    assert list(evaluation_batches(one_each(paths[:2], Shard(2, 3)), reading(4))) == []
    assert list(evaluation_batches(one_each(()), reading(4))) == []  # a node, of more nodes than samples


def test_files_that_make_no_whole_batches_are_an_error(paths: tuple[Path, ...]) -> None:
    with refused(DatasetError, NO_WHOLE_BATCHES, found=12, rank_samples=12, batch=5):
        train_batches(one_each(paths), reading(5), Schedule(1, 1, COUNT))
    with pytest.raises(DatasetError, match="found 0"):
        train_batches(one_each(()), reading(5), Schedule(1, 1, 5))


@pytest.mark.parametrize("rank_samples", [8, 16])
def test_what_fills_no_batch_is_left_out_and_what_is_lacking_is_repeated(
    paths: tuple[Path, ...], rank_samples: int
) -> None:
    batches = train_batches(one_each(paths), reading(4), Schedule(5, 2, rank_samples))
    numbers = np.array([targets.numpy()[:, 0] for _, targets in batches], int).reshape(2, rank_samples)
    for epoch, own in enumerate(numbers, 1):
        order = epoch_order(5, epoch, COUNT).numpy()
        np.testing.assert_array_equal(own, np.tile(order, 2)[:rank_samples])


def test_records_are_read_where_they_begin(tmp_path: Path) -> None:
    path = tmp_path / "many.tfrecord"
    records = [encode_sample(np.full((16, 16, 16, 4), n, np.int16), np.full(4, n, np.float32)) for n in range(6)]
    write_records(path, records, compress=False)
    offsets = np.cumsum([0, *(len(record) + FRAME_BYTES for record in records[:-1])])
    samples = Samples((path,), np.zeros(6, np.int64), offsets, Shard(1, 2), False, np.array([path.stat().st_size]))
    (_, targets, weights), *rest = evaluation_batches(samples, reading(4))
    assert targets.numpy()[:, 0].tolist() == [1, 3, 5, 0]
    assert weights.numpy().tolist() == [1, 1, 1, 0]
    assert not rest


def test_augmentation_seeds_differ_by_epoch_and_sample_but_not_by_the_number_of_ranks(
    paths: tuple[Path, ...],
) -> None:
    def seeds(ranks: int) -> dict[tuple[int, int], tuple[int, ...]]:
        workload = CosmoFlow(make_plan())
        found = {}
        for rank in range(ranks):
            numbered = Reading(
                lambda record, seed: (workload.parse(record, seed)[1][0], seed), workload.collate, 2, threads=2
            )
            batches = train_batches(one_each(paths, Shard(rank, ranks)), numbered, Schedule(5, 2, COUNT // ranks))
            drawn = [pair for numbers, drawn in batches for pair in zip(numbers.numpy(), drawn.numpy(), strict=True)]
            for place, (number, seed) in enumerate(drawn):
                found[place * ranks // COUNT, int(number)] = tuple(seed)
        return found

    one = seeds(1)
    assert one == seeds(2)
    assert len(set(one.values())) == 2 * COUNT


def test_a_missing_file_is_named(paths: tuple[Path, ...], tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"gone\.tfrecord: no such file"):
        one_each((*paths, tmp_path / "gone.tfrecord")).require()
    one_each(paths).require()


@pytest.mark.parametrize("harm", ["cut", "longer", "missing", "folder"])
def test_a_file_that_was_replaced_in_place_is_found_before_training(tmp_path: Path, harm: str) -> None:
    """Each file is looked at by one of the ranks that share it."""
    own = write_numbered(tmp_path, 4)
    shards = [one_each(own, Shard(rank, 2)) for rank in range(2)]
    content = own[2].read_bytes()
    own[2].unlink()
    if harm == "folder":
        own[2].mkdir()
    elif harm != "missing":
        own[2].write_bytes(content[:-1] if harm == "cut" else content + b"x")
    message, facts = (OTHER_LENGTH if harm in {"cut", "longer"} else NO_FILE), {"others": 0, "files": 2}
    with refused(DatasetError, message, place=str(own[2]), expected_bytes=len(content), **facts):
        shards[0].require()
    shards[1].require()


def damaged(folder: Path, damage: str) -> Path:
    path = folder / "univ_ics_test_a0001_000.tfrecord"
    edge = 15 if damage == "shape" else 16
    write_sample(path, np.ones((edge, 16, 16, 4)), [0, 0, 0, 0])
    data = bytearray(path.read_bytes())
    if damage == "bit":
        data[5000] ^= 1
    changed = {"empty": b"", "tail": bytes(data[:-10]), "bit": bytes(data)}.get(damage, bytes(data))
    path.write_bytes(changed)
    return path


@pytest.mark.parametrize("damage", ["empty", "tail", "bit", "shape"])
def test_a_damaged_sample_ends_the_reading(tmp_path: Path, damage: str) -> None:
    samples = one_each((damaged(tmp_path, damage),))
    with refused(DatasetError, BAD_SAMPLE, place="training"):
        list(checked(iter(train_batches(samples, reading(1), Schedule(1, 1, 1))), "training"))
