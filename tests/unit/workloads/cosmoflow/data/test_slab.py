"""Parts of samples, read without the rest of them."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.training.training_plans import make_plan
from unit.training.training_samples import write_sample
from unit.workloads.cosmoflow.parts import parts_of

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Said
from hpcai.data.tfrecord import write_records
from hpcai.training import collective
from hpcai.training.collectives.base import Ranks
from hpcai.training.input import BAD_SAMPLE, Reading, Samples, Shard, checked, evaluation_batches
from hpcai.workloads.cosmoflow.data.sample import encode_sample
from hpcai.workloads.cosmoflow.data.slab import NO_SLAB, read_slab
from hpcai.workloads.cosmoflow.settings import PartGrid
from hpcai.workloads.cosmoflow.training import CosmoFlow

SHAPE = (16, 16, 16, 4)
TARGETS = np.array([0.1, -0.2, 0.3, 1], np.float32)
COUNTS = np.random.default_rng(1).integers(-300, 300, SHAPE).astype(np.int16)


def swapped(sample: bytes) -> bytes:
    """Return the bytes of a sample with the targets before the cube, an order other writers may use."""
    example = tf.train.Example.FromString(sample)
    entries = [
        tf.train.Example(
            features=tf.train.Features(feature={name: example.features.feature[name]})
        ).features.SerializeToString()
        for name in ("y", "x")
    ]
    content = b"".join(entries)
    length, size = bytearray(), len(content)
    while size > 0x7F:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    return b"\x0a" + bytes([*length, size]) + content


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three records: one for each order of the features, and one that is not a sample."""
    file = tmp_path_factory.mktemp("cubes") / "some.tfrecord"
    sample = encode_sample(COUNTS, TARGETS)
    write_records(file, [sample, swapped(sample), b"x" * 200], compress=False)
    return file


@pytest.mark.parametrize("record", [0, 1])
@pytest.mark.parametrize("grid", [(1, 1), (2, 1), (4, 1), (2, 2), (4, 4)])
def test_the_parts_together_are_the_sample(path: Path, grid: tuple[int, int], record: int) -> None:
    offset, cut = record * (len(encode_sample(COUNTS, TARGETS)) + 16), PartGrid(*grid)
    found = [read_slab(path, offset, SHAPE, part, cut) for part in range(cut.parts)]
    for (own, _), expected in zip(found, parts_of(COUNTS[np.newaxis], grid), strict=True):
        np.testing.assert_array_equal(own, expected[0])
    for _, targets in found:
        np.testing.assert_array_equal(targets, TARGETS)


def refusal(path: Path, offset_bytes: int, shape: tuple[int, ...] = SHAPE, part: int = 0) -> Said:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  what is looked at is its code
        read_slab(path, offset_bytes, shape, part, PartGrid(2, 1))
    said = caught.value.args[0]
    assert isinstance(said, Said)
    assert said.code == NO_SLAB.code
    return said


def test_what_is_no_sample_is_refused(path: Path, tmp_path: Path) -> None:
    whole, size = path.read_bytes(), len(encode_sample(COUNTS, TARGETS)) + 16
    refusal(path, 2 * size)
    refusal(path, 1)
    refusal(path, len(whole))
    refusal(path, 0, (16, 16, 32, 4))
    refusal(tmp_path / "none", 0)
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: size // 2])
    refusal(cut, 0, part=1)
    without = tmp_path / "without"
    write_records(without, [encode_sample(COUNTS, TARGETS)[:-30] + b"\x0a\x05" + b"z" * 28], compress=False)
    refusal(without, 0)


def test_every_flipped_bit_of_the_head_is_refused_or_gives_the_sample(path: Path, tmp_path: Path) -> None:
    """The head gives the position of the cube. Damage in the head must never shift it."""
    head, file = path.read_bytes(), tmp_path / "flipped"
    for bit in range(8 * 40):
        data = bytearray(head[: len(head) // 3])
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
        with suppress(ValueError):
            counts, _ = read_slab(file, 0, SHAPE, 0, PartGrid(2, 1))
            assert int((counts != COUNTS[:8]).sum()) <= 1


def one_file(file: Path, *, gzip: bool = False, staged: bool = True) -> Samples:
    """A file with one sample."""
    lengths = np.array([file.stat().st_size if file.exists() else 1])
    return Samples((file,), np.zeros(1, np.int64), np.zeros(1, np.int64), Shard(0, 1), gzip, lengths, staged)


@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize(("gzip", "staged"), [(False, True), (False, False), (True, False)])
def test_a_rank_reads_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gzip: bool, staged: bool, parts: int
) -> None:
    file = tmp_path / "cube"
    write_sample(file, COUNTS, TARGETS.tolist(), gzip=gzip)
    workload = CosmoFlow(make_plan(parts, model={"conv_layers": 3}, point={"spatial_parts": parts}))
    reading = Reading(workload.parse, workload.collate, 1, 1, workload.read_part)
    samples = one_file(file, gzip=gzip, staged=staged)
    own = parts_of(COUNTS[np.newaxis], (2, parts // 2))
    for rank in range(parts):
        monkeypatch.setattr(collective, "_joined", [(None, Ranks(rank, parts, rank, parts, 0, 1))])
        ((counts, targets, _),) = evaluation_batches(samples, reading)
        np.testing.assert_array_equal(counts, own[rank])
        np.testing.assert_array_equal(targets[0], TARGETS)


def test_a_part_of_a_file_in_place_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing has verified that file: a flipped bit in a part is found by the checksum of the whole record."""
    file = tmp_path / "cube"
    write_sample(file, COUNTS, TARGETS.tolist())
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    workload = CosmoFlow(make_plan(2, point={"spatial_parts": 2}))
    reading = Reading(workload.parse, workload.collate, 1, 1, workload.read_part)
    for rank in range(2):
        monkeypatch.setattr(collective, "_joined", [(None, Ranks(rank, 2, rank, 2, 0, 1))])
        with refused(DatasetError, BAD_SAMPLE):
            list(checked(iter(evaluation_batches(one_file(file, staged=False), reading)), "evaluation"))


def test_a_missing_file_is_told_without_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collective, "_joined", [(None, Ranks(0, 2, 0, 2, 0, 1))])
    workload = CosmoFlow(make_plan(2, point={"spatial_parts": 2}))
    reading = Reading(workload.parse, workload.collate, 1, 1, workload.read_part)
    samples = one_file(tmp_path / "none")
    with refused(DatasetError, BAD_SAMPLE) as caught:
        list(checked(iter(evaluation_batches(samples, reading)), "evaluation"))
    assert "Traceback" not in str(caught.value)
    assert NO_SLAB.find_in(str(caught.value))
