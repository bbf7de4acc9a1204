import errno
import multiprocessing
import os
import signal
import time

import pytest
from unit.data.data_samples import SmallCubes, flip_bit, found_in, header, sample_bytes, small_cubes, write_dataset

from hpcai.config.benchmark import PackSettings
from hpcai.core.errors import DatasetError
from hpcai.data import shards
from hpcai.data.manifest import make_manifest
from hpcai.data.module import Member
from hpcai.data.pack import pack_dataset, read_pack
from hpcai.data.shards import JOURNAL, OTHER_CONTENT
from hpcai.data.tfrecord import unpack_content, write_records


class Years(SmallCubes):
    """Files of several members each, as those of HDF5."""

    def member_count(self, facts):
        return facts.records

    def members(self, file, facts, numbers=None):
        content = unpack_content(file.read_bytes(), self.compressed).data
        ends = [*facts.record_offsets[1:], len(content)]
        for number in numbers or range(facts.records):
            part = content[facts.record_offsets[number] : ends[number]]
            yield Member(f"{file.stem}_{number:04d}.tfrecord", part, (0,))


@pytest.fixture
def years(tmp_path):
    root, module = tmp_path / "data", Years(small_cubes().settings)
    for split, files in (("train", 2), ("validation", 1)):
        (root / split).mkdir(parents=True)
        for file in range(files):
            payloads = [sample_bytes(20 * file + number) for number in range(9)]
            write_records(root / split / f"{file}.tfrecord", payloads, compress=True)
    return make_manifest(header(), module, root, found_in(root)), module, root


def pack(dataset, module, root, output, count=3):
    return pack_dataset(dataset, module, root, PackSettings(shards=count), output)


def content_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.tar")}


def test_files_fewer_than_shards_are_cut(tmp_path, years):
    dataset, module, root = years
    whole = pack(dataset, module, root, tmp_path / "one", 1)
    cut = pack(dataset, module, root, tmp_path / "cut", 5)
    assert [len(shard.members) for shard in cut.shards] == [3, 4, 3, 4, 4, 1, 2, 2, 2, 2]
    for split in ("train", "validation"):
        found, expected = ([(row.name, row.content_crc32c) for row in one.members(split)] for one in (cut, whole))
        assert found == expected
    assert len(pack(dataset, module, root, tmp_path / "most", 50).shards) == 27
    flip_bit(root / "train/1.tfrecord", 300)
    with pytest.raises(DatasetError, match=r"1\.tfrecord"):
        pack(dataset, module, root, tmp_path / "damaged", 5)
    assert list((tmp_path / "damaged").iterdir()) == []


def test_processes_write_the_same_bytes(tmp_path, years, monkeypatch):
    dataset, module, root = years
    pack(dataset, module, root, tmp_path / "threads", 5)
    monkeypatch.setattr(shards, "PROCESSES_FROM_BYTES", 0)
    monkeypatch.setattr(shards.os, "sched_getaffinity", lambda _: range(3))
    pack(dataset, module, root, tmp_path / "processes", 5)
    assert content_of(tmp_path / "processes") == content_of(tmp_path / "threads")
    flip_bit(root / "train/1.tfrecord", 300)
    with pytest.raises(DatasetError, match=r"1\.tfrecord"):
        pack(dataset, module, root, tmp_path / "damaged", 5)


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("kind", ["cubes", "years"])
def test_a_killed_packing_continues(tmp_path, years, monkeypatch, kind, processes):
    dataset, module, root = years
    if kind == "cubes":
        root, module = tmp_path / "cubes", small_cubes()
        dataset = write_dataset(root, 24, 8)
    pack(dataset, module, root, tmp_path / "whole")
    if processes:
        monkeypatch.setattr(shards, "PROCESSES_FROM_BYTES", 0)
        monkeypatch.setattr(shards.os, "sched_getaffinity", lambda _: range(2))
    encode, encoded = shards.encode_member, []
    slow = lambda *given: (time.sleep(0.05), encode(*given))[1]  # noqa: E731
    output = tmp_path / "killed"
    with monkeypatch.context() as patch:
        patch.setattr(shards, "encode_member", slow)
        child = multiprocessing.get_context("fork").Process(target=pack, args=(dataset, module, root, output))
        child.start()
        rows = 0
        while rows < 4 and child.is_alive():
            time.sleep(0.01)
            rows = sum(max(0, path.read_bytes().count(b"\n") - 1) for path in output.glob("*" + JOURNAL))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    assert rows >= 4
    assert not (output / "packed.json").exists()
    last = min(output.glob("*" + JOURNAL))
    with last.open("ab") as torn:
        torn.write(b'{"end":99')
    monkeypatch.setattr(shards, "encode_member", lambda *given: (encoded.append(1), encode(*given))[1])
    packed = pack(dataset, module, root, output)
    total = sum(len(shard.members) for shard in packed.shards)
    assert processes or len(encoded) <= total - 4
    assert content_of(output) == content_of(tmp_path / "whole")
    assert read_pack(output / "packed.json") == packed
    assert {path.suffix for path in output.iterdir()} == {".tar", ".json"}


@pytest.mark.parametrize("harm", ["bytes", "other settings", "cut"])
def test_what_does_not_fit_starts_again(tmp_path, years, monkeypatch, harm):
    dataset, module, root = years
    whole, output = pack(dataset, module, root, tmp_path / "whole"), tmp_path / "broken"
    encode, count = shards.encode_member, []

    def failing(*given):
        count.append(1)
        if len(count) > 5:
            raise RuntimeError("power off")
        return encode(*given)

    with monkeypatch.context() as patch:
        patch.setattr(shards, "encode_member", failing)
        with pytest.raises(RuntimeError):
            pack(dataset, module, root, output)
    partial = max(output.glob("*.partial"), key=lambda path: path.stat().st_size)
    if harm == "bytes":
        flip_bit(partial, 700)
    elif harm == "cut":
        partial.write_bytes(partial.read_bytes()[:-600])
    else:
        journal = partial.with_name(partial.name + JOURNAL)
        journal.write_bytes(journal.read_bytes().replace(b"shuffle_zstd", b"gzip"))
    assert pack(dataset, module, root, output).shards == whole.shards
    assert content_of(output) == content_of(tmp_path / "whole")


def journalled(output):
    """Number of members that the journals of incomplete shards hold."""
    return sum(path.read_bytes().count(b"\n") - 1 for path in output.glob("*" + JOURNAL))


def test_a_sample_that_cannot_be_read_now_costs_nothing_else(tmp_path, monkeypatch):
    root, module, output = tmp_path / "cubes", small_cubes(), tmp_path / "packed"
    dataset = write_dataset(root, 24, 8)
    whole = pack(dataset, module, root, tmp_path / "whole")
    last = root / max(entry.path for entry in dataset.splits["train"])
    last.rename(tmp_path / "away")
    with pytest.raises(DatasetError, match=last.name):
        pack(dataset, module, root, output)
    kept = journalled(output)
    assert kept >= 23  # two whole shards, and the third up to its last member
    (tmp_path / "away").rename(last)
    encode, encoded = shards.encode_member, []
    monkeypatch.setattr(shards, "encode_member", lambda *given: (encoded.append(1), encode(*given))[1])
    assert pack(dataset, module, root, output).shards == whole.shards
    assert len(encoded) == 32 - kept
    assert content_of(output) == content_of(tmp_path / "whole")


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), DatasetError(OTHER_CONTENT(found=2, what="members", expected=1))]
)
def test_room_is_made_on_a_full_disk_and_what_is_wrong_is_not_continued(tmp_path, years, monkeypatch, error):
    dataset, module, root = years
    encode, count = shards.encode_member, []

    def failing(*given):
        count.append(1)
        if len(count) > 5:
            raise error
        return encode(*given)

    monkeypatch.setattr(shards, "encode_member", failing)
    with pytest.raises(type(error)):
        pack(dataset, module, root, tmp_path / "packed")
    assert list((tmp_path / "packed").iterdir()) == []
