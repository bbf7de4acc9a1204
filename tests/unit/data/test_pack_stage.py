import errno
import io
import os
import random
import shutil
import tarfile
import time
import zlib
from collections import namedtuple

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from unit.data.data_samples import cut, flip_bit, small_cubes, write_dataset
from unit.data.record_files import read_records
from unit.refusals import refused

from hpcai.config.benchmark import SPLITS, PackSettings
from hpcai.core.errors import DatasetError, StagingError
from hpcai.data import stage, unpacker
from hpcai.data.member_codec import SUFFIXES, CodecError, MemberDecoder, encode_member
from hpcai.data.pack import OTHER_DATASET, pack_dataset, read_pack, require_same, require_shards
from hpcai.data.packed import PackedMember
from hpcai.data.stage import NO_INODES, NO_ROOM, node_part, preflight, stage_shards
from hpcai.data.stage_folder import FOREIGN_FILES, clean_stage
from hpcai.data.table import Table
from hpcai.data.tfrecord import write_records
from hpcai.data.unpacker import CANNOT_WRITE, SHARD_CUT, SPACE_RAN_OUT

CODECS = list(SUFFIXES)


@pytest.fixture
def dataset(tmp_path):
    return write_dataset(tmp_path / "data", 12, 4)


def pack(dataset, tmp_path, codec="shuffle_zstd", shards=3):
    settings = PackSettings(codec=codec, shards=shards)
    return pack_dataset(dataset, small_cubes(dataset.edition), tmp_path / "data", settings, tmp_path / "packed")


def node_files(packed, split, node, nodes, partition):
    return [piece.member.name for piece in node_part(packed, split, node, nodes, partition).pieces]


def stage_node(packed, tmp_path, local_size=1, node=(0, 1), partition="whole", threads=2):
    target = tmp_path / f"node{node[0]}"
    preflight(packed, target, *node, partition)
    results = [
        stage_shards(packed, tmp_path / "packed", target, rank, local_size, *node, partition, threads)
        for rank in range(local_size)
    ]
    return target, results


@pytest.mark.parametrize("codec", CODECS)
@given(st.binary(min_size=1, max_size=3000))
def test_codecs_give_back_the_content(codec, content):
    packed = encode_member(content, codec, 1)
    decoder = MemberDecoder(codec, 4000)
    assert bytes(decoder.decode(memoryview(packed), len(content))) == content
    with pytest.raises(CodecError):
        decoder.decode(memoryview(packed), len(content) + 1)
    with pytest.raises(CodecError):
        decoder.decode(memoryview(packed)[:-1], len(content))


@pytest.mark.parametrize("partition", ["whole", "split"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("edition", ["gzip", "plain"])
def test_round_trip(tmp_path, codec, partition, edition):
    dataset = write_dataset(tmp_path / "data", 12, 4, edition=edition)
    packed = pack(dataset, tmp_path, codec)
    assert read_pack(tmp_path / "packed" / "packed.json") == packed
    seen = []
    for local_size in (1, 2, 3):
        for node in range(2):
            target, results = stage_node(packed, tmp_path, local_size, (node, 2), partition)
            names = [name for split in SPLITS for name in node_files(packed, split, node, 2, partition)]
            present = sorted(str(path.relative_to(target)) for path in target.rglob("*.tfrecord"))
            assert present == sorted(names)
            assert sum(result.files for result in results) == len(names)
            assert sum(result.bytes_written for result in results) == sum(
                (target / name).stat().st_size for name in names
            )
            for name in names:
                samples = list(read_records(tmp_path / "data" / name, compressed=edition == "gzip"))
                assert list(read_records(target / name, compressed=False)) == samples
            seen += names
            clean_stage(target)
            assert not target.exists()
    assert len(seen) == 3 * 16 * (2 if partition == "whole" else 1)


def test_packing_is_deterministic_and_says_what_it_did(tmp_path, dataset):
    first = pack(dataset, tmp_path)
    shards = {path.name: path.read_bytes() for path in (tmp_path / "packed").glob("*.tar")}
    second = pack(dataset, tmp_path)
    assert {path.name: path.read_bytes() for path in (tmp_path / "packed").glob("*.tar")} == shards
    assert first.shards == second.shards
    assert first.manifest_digest == dataset.digest
    assert first.packed_bytes == sum(map(len, shards.values()))
    assert first.compression_ratio == first.content_bytes / first.packed_bytes
    assert len(shards) == 6


def test_repacking_replaces_older_shards(tmp_path, dataset):
    pack(dataset, tmp_path, shards=12)
    packed = pack(dataset, tmp_path, "gzip", shards=2)
    files = {path.name for path in (tmp_path / "packed").iterdir()}
    assert files == {"packed.json", *(shard.file for shard in packed.shards)}


@pytest.mark.parametrize("codec", CODECS)
def test_anyone_can_open_a_shard(tmp_path, dataset, codec):
    packed = pack(dataset, tmp_path, codec, shards=1)
    shard = packed.shards[0]
    with tarfile.open(tmp_path / "packed" / shard.file) as tar:
        for member, info in zip(shard.members, tar, strict=True):
            assert info.name == member.name + SUFFIXES[codec]
            assert info.offset_data == member.offset
            data = tar.extractfile(info).read()
            if codec == "gzip":
                data = zlib.decompress(data, 31)
            elif codec == "shuffle_lz4":
                data = pa.CompressedInputStream(pa.BufferReader(data), "lz4").read()
            elif codec != "none":
                data = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)).read()
            if codec.startswith("shuffle"):
                half = -(-len(data) // 2)
                even, odd = np.frombuffer(data[:half], np.uint8), np.frombuffer(data[half:], np.uint8)
                words = np.empty(len(data), np.uint8)
                words[0::2], words[1::2] = even, odd
                data = words.tobytes()
            assert len(data) == member.content_bytes


def test_packing_verifies_what_it_reads(tmp_path, dataset):
    flip_bit(tmp_path / "data" / dataset.splits["train"][3].path, 300)
    with pytest.raises(DatasetError, match=r"_003.tfrecord: record 0"):
        pack(dataset, tmp_path)
    assert {path.suffix for path in (tmp_path / "packed").iterdir()} == {".partial", ".journal"}


def test_shards_of_other_data_are_refused(tmp_path, dataset):
    packed = pack(dataset, tmp_path)
    require_same(packed, dataset, tmp_path / "packed.json")
    other = dataset.model_copy(update={"statistics": {"mean": (1.0,)}})
    with refused(
        DatasetError,
        OTHER_DATASET,
        place=str(tmp_path / "packed.json"),
        found=dataset.digest[:16],
        expected=other.digest[:16],
    ):
        require_same(packed, other, tmp_path / "packed.json")


@pytest.mark.parametrize("harm", ["missing", "cut", "longer", "folder"])
def test_shards_that_are_not_as_packed_are_found_before_they_are_read(tmp_path, dataset, harm):
    packed = pack(dataset, tmp_path)
    place = tmp_path / "packed/packed.json"
    require_shards(packed, place)
    shard = place.parent / packed.shards[-1].file
    content = shard.read_bytes()
    shard.unlink()
    if harm == "folder":
        shard.mkdir()
    elif harm != "missing":
        shard.write_bytes(content[:-1] if harm == "cut" else content + b"x")
    with pytest.raises(DatasetError, match=shard.name):
        require_shards(packed, place)


def test_staging_shows_that_it_goes_on(tmp_path, dataset, monkeypatch):
    def slow_decoder(*limits):
        time.sleep(0.05)  # otherwise everything may be done before the first look
        return MemberDecoder(*limits)

    monkeypatch.setattr(unpacker, "_PROGRESS_S", 0.001)
    monkeypatch.setattr(unpacker, "MemberDecoder", slow_decoder)
    packed, calls = pack(dataset, tmp_path), []
    preflight(packed, tmp_path / "node", 0, 1, "whole")
    stage_shards(packed, tmp_path / "packed", tmp_path / "node", 0, 1, 0, 1, "whole", 1, lambda: calls.append(1))
    assert calls


def test_a_failed_repacking_keeps_the_old_pack(tmp_path, dataset):
    packed = pack(dataset, tmp_path)
    flip_bit(tmp_path / "data" / dataset.splits["train"][3].path, 300)
    with pytest.raises(DatasetError):
        pack(dataset, tmp_path, "none")
    assert read_pack(tmp_path / "packed" / "packed.json") == packed
    stage_node(packed, tmp_path)


def test_parts_of_nodes_are_equal_and_disjoint(tmp_path, dataset):
    packed = pack(dataset, tmp_path)
    parts = [node_files(packed, "train", node, 4, "split") for node in range(4)]
    assert {len(part) for part in parts} == {3}
    assert sorted(name for part in parts for name in part) == node_files(packed, "train", 1, 4, "whole")
    assert [len(node_files(packed, "train", node, 5, "split")) for node in range(5)] == [3, 3, 2, 2, 2]


def pack_of_files(dataset, tmp_path, records):
    """A packed dataset whose training files have some numbers of records."""
    packed = pack(dataset, tmp_path, shards=3)
    like = packed.shards[0].members[0]
    rows = [
        like.model_copy(update={"name": f"train/{file:05d}", "record_offsets": range(count)})
        for file, count in enumerate(records)
    ]
    shards = [
        packed.shards[number].model_copy(update={"members": Table.of(PackedMember, rows[number::3])})
        for number in range(3)
    ]
    return packed.model_copy(update={"shards": (*shards, *packed.shards[3:])})


def samples_of(part):
    """The samples of a node, as file and number in it."""
    held = [(piece.member.name, number) for piece in part.pieces for number in range(len(piece.member.record_offsets))]
    return held[part.first : part.first + part.samples]


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 7, 40, 200, 500])
def test_nodes_have_equally_many_samples_whatever_the_files_hold(tmp_path, dataset, nodes):
    records = [1 + 7 * file % 12 for file in range(64)]
    packed = pack_of_files(dataset, tmp_path, records)
    parts = [node_part(packed, "train", node, nodes, "split") for node in range(nodes)]
    seen = [sample for part in parts for sample in samples_of(part)]
    assert len(seen) == len(set(seen)) == sum(records)
    each, more = divmod(sum(records), nodes)
    assert [part.samples for part in parts] == [each + 1] * more + [each] * (nodes - more)
    # No node stages a file of which it has no sample.
    for part in parts:
        assert {piece.member.name for piece in part.pieces} == {name for name, _ in samples_of(part)}
    files = sum(len(part.pieces) for part in parts)
    assert files <= len(records) + nodes
    whole = [node_part(packed, "train", node, nodes, "whole") for node in (0, nodes - 1)]
    assert all((part.first, part.samples) == (0, sum(records)) for part in whole)


@pytest.mark.parametrize("nodes", [96, 128, 384, 1000])
def test_official_images_are_dealt_equally_however_they_are_packed(tmp_path, dataset, nodes):
    """Before, an epoch on 384 nodes drew a third of the images of some of them twice."""
    ends = np.linspace(0, 1_281_167, 1025).astype(int)
    packed = pack_of_files(dataset, tmp_path, np.diff(ends).tolist())
    dealt = stage._Dealt(packed, "train", nodes, "split")
    counts = {dealt.part(node).samples for node in range(nodes)}
    assert counts <= {1_281_167 // nodes, 1_281_167 // nodes + 1}


@given(st.lists(st.integers(1, 50), max_size=12), st.integers(1, 5))
def test_ranks_share_everything_once(sizes, local_size):
    Member = namedtuple("Member", "content_bytes name")
    pieces = [unpacker.Piece("s", Member(size, str(number))) for number, size in enumerate(sizes)]
    shares = [stage._rank_share(pieces, rank, local_size) for rank in range(local_size)]
    assert [piece for share in shares for piece in share] == pieces
    for share in shares:
        total = sum(piece.member.content_bytes for piece in share)
        assert total <= sum(sizes) / local_size + max(sizes, default=0)


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_shard(tmp_path, dataset, codec):
    packed = pack(dataset, tmp_path, codec)
    shard = packed.shards[1]
    flip_bit(tmp_path / "packed" / shard.file, shard.members[2].offset + shard.members[2].packed_bytes // 2)
    with pytest.raises(StagingError, match=f"{shard.file}: member {shard.members[2].name} at byte"):
        stage_node(packed, tmp_path)


def test_cut_and_missing_shard(tmp_path, dataset):
    packed = pack(dataset, tmp_path)
    cut(tmp_path / "packed" / packed.shards[0].file, 2048)
    with refused(StagingError, SHARD_CUT):
        stage_node(packed, tmp_path)
    (tmp_path / "packed" / packed.shards[0].file).unlink()
    with pytest.raises(StagingError, match=r"train-00000-of-00003\.tar: cannot be read"):
        stage_node(packed, tmp_path)


def test_preflight_needs_space(tmp_path, dataset, monkeypatch):
    packed = pack(dataset, tmp_path)
    real = os.statvfs(tmp_path)
    values = {name: getattr(real, name) for name in ("f_bavail", "f_frsize", "f_files", "f_favail")}
    Space = namedtuple("Space", values)
    monkeypatch.setattr(stage.os, "statvfs", lambda _: Space(**{**values, "f_bavail": 10, "f_frsize": 4096}))
    with refused(StagingError, NO_ROOM, place=str(tmp_path / "node0"), free_bytes=40_960):
        preflight(packed, tmp_path / "node0", 0, 1, "whole")
    monkeypatch.setattr(stage.os, "statvfs", lambda _: Space(**{**values, "f_files": 100, "f_favail": 3}))
    with refused(StagingError, NO_INODES, free=3, needed=18):
        preflight(packed, tmp_path / "node0", 0, 1, "whole")


def test_preflight_needs_a_writable_folder(tmp_path, dataset):
    packed = pack(dataset, tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StagingError, match="cannot be written"):
        preflight(packed, tmp_path / "file" / "x", 0, 1, "whole")


def test_space_runs_out_midway(tmp_path, dataset, monkeypatch):
    packed = pack(dataset, tmp_path)
    calls, real = [], os.write

    def write(descriptor, data):
        calls.append(1)
        if len(calls) > 5:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[:1000])

    monkeypatch.setattr(unpacker.os, "write", write)
    with refused(StagingError, SPACE_RAN_OUT):
        stage_node(packed, tmp_path)
    monkeypatch.undo()
    clean_stage(tmp_path / "node0")
    clean_stage(tmp_path / "node0")
    assert not (tmp_path / "node0").exists()


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_storage_that_fails_is_an_error_that_names_the_node(tmp_path, dataset, monkeypatch, number):
    def read(*_):
        raise OSError(number, os.strerror(number))

    packed = pack(dataset, tmp_path)
    monkeypatch.setattr(stage.socket, "gethostname", lambda: "n7")
    monkeypatch.setattr(unpacker.os, "preadv", read)
    with pytest.raises(StagingError, match=f"node n7: .*{os.strerror(number)}"):
        stage_node(packed, tmp_path)


def test_a_folder_that_vanishes_while_staging_is_an_error_that_names_the_node(tmp_path, dataset, monkeypatch):
    def vanish(*_):
        shutil.rmtree(tmp_path / "node0", ignore_errors=True)  # only the first of several workers finds it
        return real(*_)

    packed, real = pack(dataset, tmp_path), unpacker.MemberDecoder
    monkeypatch.setattr(stage.socket, "gethostname", lambda: "n7")
    monkeypatch.setattr(unpacker, "MemberDecoder", vanish)
    with refused(StagingError, CANNOT_WRITE, reason="No such file or directory"):
        stage_node(packed, tmp_path, threads=1)


def test_leftovers_of_a_failed_staging_go_first(tmp_path, dataset):
    packed = pack(dataset, tmp_path)
    target, _ = stage_node(packed, tmp_path)
    write_records(target / "train" / "old.tfrecord", [b"x"], compress=False)
    stage_node(packed, tmp_path)
    assert not (target / "train" / "old.tfrecord").exists()


def test_foreign_folders_are_left_alone(tmp_path, dataset):
    packed = pack(dataset, tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.tex").touch()
    link = tmp_path / "link"
    link.symlink_to(home)
    for target in (home, link):
        with pytest.raises(StagingError, match="left unchanged"):
            clean_stage(target)
        with pytest.raises(StagingError):
            preflight(packed, target, 0, 1, "whole")
    with refused(StagingError, FOREIGN_FILES, place=str(home)):
        stage_shards(packed, tmp_path / "packed", home, 0, 1, 0, 1, "whole", 1)
    assert (home / "thesis.tex").exists()


def test_links_in_a_staging_folder_are_not_followed(tmp_path, dataset):
    packed = pack(dataset, tmp_path)
    precious = tmp_path / "precious"
    precious.write_text("precious")
    target = tmp_path / "node0"
    preflight(packed, target, 0, 1, "whole")
    (target / packed.shards[0].members[0].name).symlink_to(precious)
    (target / "folder").symlink_to(tmp_path / "data")
    with pytest.raises(StagingError, match="cannot be written"):
        stage_shards(packed, tmp_path / "packed", target, 0, 1, 0, 1, "whole", 1)
    clean_stage(target)
    assert precious.read_text() == "precious"
    assert (tmp_path / "data" / "train").exists()


def test_a_changed_digit_of_packed_json_is_noticed(tmp_path, dataset):
    packed, path, draw = pack(dataset, tmp_path), tmp_path / "packed" / "packed.json", random.Random(18)
    whole = path.read_text()
    for place in draw.sample([place for place, letter in enumerate(whole) if letter.isdigit()], 50):
        path.write_text(whole[:place] + str((int(whole[place]) + 1) % 10) + whole[place + 1 :])
        with pytest.raises(DatasetError):
            read_pack(path)
    # Packed by an earlier version: without a digest, but still readable.
    path.write_text(packed.model_dump_json())
    assert read_pack(path) == packed
