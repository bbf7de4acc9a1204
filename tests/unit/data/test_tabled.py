import hashlib
import random

import numpy as np
import pytest
from pydantic_core import to_json
from unit.data.data_samples import header, small_cubes, write_dataset

from hpcai.config.benchmark import PackSettings
from hpcai.core.errors import DatasetError
from hpcai.data import tabled
from hpcai.data.manifest import FileEntry, Manifest, read_manifest, write_manifest
from hpcai.data.pack import pack_dataset, read_pack
from hpcai.data.stage import node_part
from hpcai.data.table import StoredColumns, Table

CONTENT = {"source", "samples_root", "unused_files", "origin"}


@pytest.fixture
def beside(monkeypatch):
    monkeypatch.setattr(tabled, "INLINE_NUMBERS", 3)


def entry(number, path="train/{:06d}.tfrecord", offsets=(0,)):
    facts = {"bytes": 10 + number, "crc32c": f"{number * 7919 % 2**32:08x}", "content_bytes": 1 << 20}
    more = {"content_crc32c": "ffffffff", "record_offsets": offsets, "records": len(offsets)}
    return FileEntry(path=path.format(number), **facts, **more)


def manifest_of(files):
    splits = {"train": tuple(map(entry, range(files))), "validation": (entry(9, "validation/ä{}", (0, 70, 5000)),)}
    return Manifest.model_validate({**header().model_dump(), "splits": splits})


def test_a_table_gives_back_its_rows():
    rows = [entry(number, offsets=tuple(range(number % 4))) for number in range(6000) if number % 4]
    table = Table.collected(FileEntry, rows)
    assert list(table) == rows
    assert table[-1] == rows[-1]
    assert list(table[5:50:7]) == rows[5:50:7]
    shuffled = np.random.default_rng(1).permutation(len(rows))
    mixed = table.take(shuffled)
    assert list(mixed) == [rows[place] for place in shuffled]
    assert list(mixed.take(mixed.order("path"))) == rows
    assert mixed.lists("record_offsets")[0].tolist() == [one for row in mixed for one in row.record_offsets]
    assert bytes(mixed.lists("path")[0]).decode() == "".join(row.path for row in mixed)
    assert isinstance(table[3:].take(table[3:].order("path")).chosen, range)
    assert table.total("bytes") == sum(row.bytes for row in rows)
    assert Table.joined(FileEntry, [table[:9], mixed]) == Table.of(FileEntry, [*rows[:9], *mixed])
    assert table != table[1:]
    parts = [Table.of(FileEntry, rows[:100]), Table.of(FileEntry, rows[100:])]
    assert Table.stacked(FileEntry, parts) == table


@pytest.mark.parametrize("path", ["train/{}", "train/ä{}\u2028\x7f", 'train/"{}"\\\\', "train/\x01%s%{}"])
@pytest.mark.parametrize("offsets", [(0,), (), (0, 70, 5000)])
def test_rows_are_written_as_pydantic_writes_them(path, offsets):
    facts = entry(1).model_dump() | {"record_offsets": offsets}
    table = Table.of(FileEntry, [FileEntry.model_construct(**facts | {"path": path.format(n)}) for n in range(3)])
    assert b"[" + table.json_rows() + b"]" == to_json(list(table.plain_rows()))


def test_parts_that_follow_each_other_are_written_as_a_copy_of_them(tmp_path, beside):
    whole = Table.collected(FileEntry, map(entry, range(50)))
    for name, splits in {
        "shared": {"train": whole[:30], "validation": whole[30:]},
        "swapped": {"train": whole[30:], "validation": whole[:30]},
        "fewer": {"train": whole[:30], "validation": whole[30:40]},
    }.items():
        apart = {split: Table.of(FileEntry, list(table)) for split, table in splits.items()}
        for kind, tables in {"parts": splits, "copies": apart}.items():
            (tmp_path / name / kind).mkdir(parents=True)
            model = Manifest.model_validate({**header().model_dump(), "splits": tables})
            write_manifest(model, tmp_path / name / kind / "manifest.json")
        found, expected = (
            {path.name: path.read_bytes() for path in (tmp_path / name / kind).iterdir()}
            for kind in ("parts", "copies")
        )
        assert found == expected


@pytest.mark.parametrize("files", [2, 5000])
def test_a_large_manifest_has_the_digest_of_its_rows_in_a_file_beside_it(tmp_path, beside, files):
    manifest, path = manifest_of(files), tmp_path / "manifest.json"
    text = manifest.model_dump_json(exclude=CONTENT)
    assert manifest.digest == hashlib.sha256(text.encode()).hexdigest()
    write_manifest(manifest, path)
    assert path.stat().st_size < 4000
    assert len(list(tmp_path.iterdir())) == 2
    found = read_manifest(path)
    assert found.digest == manifest.digest
    assert found == manifest
    assert found.model_copy(update={"edition": "plain"}).digest != found.digest
    assert found.model_copy(update={"splits": {"train": found.splits["train"]}}).digest != found.digest
    write_manifest(found.model_copy(update={"edition": "plain"}), path)
    assert read_manifest(path).splits == manifest.splits


def test_only_what_is_used_is_read(tmp_path, beside, monkeypatch):
    path, read = tmp_path / "manifest.json", []
    write_manifest(manifest_of(50), path)
    real = StoredColumns._read
    monkeypatch.setattr(StoredColumns, "_read", lambda self, name: (read.append(name), real(self, name))[1])
    found = read_manifest(path)
    assert (found.samples("train"), found.samples("validation"), bool(found.digest)) == (50, 3, True)
    assert read == ["records"]


def test_a_changed_table_is_noticed(tmp_path, beside):
    write_manifest(manifest_of(30), tmp_path / "manifest.json")
    (table,) = tmp_path.glob("*.npz")
    whole, draw = table.read_bytes(), random.Random(24)
    honest = read_manifest(tmp_path / "manifest.json")
    for _ in range(60):
        place, content = draw.randrange(len(whole)), bytearray(whole)
        content[place] ^= 1 << draw.randrange(8)
        table.write_bytes(content)
        try:  # what the archive does not use, such as a time, may change
            assert read_manifest(tmp_path / "manifest.json") == honest
        except DatasetError as error:
            assert str(table) in str(error)  # noqa: PT017
    for content in (b"", whole[:-30], b"PK" + bytes(100)):
        table.write_bytes(content)
        with pytest.raises(DatasetError, match=table.name):
            list(read_manifest(tmp_path / "manifest.json").entries)
    table.unlink()
    with pytest.raises(DatasetError, match=f"{table.name}: cannot be read"):
        read_manifest(tmp_path / "manifest.json").samples("train")


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a//b", "a/./b", "a\nb", "a\u200bb", "x" * 501])
def test_a_path_that_leads_elsewhere_is_refused(tmp_path, beside, path):
    manifest = manifest_of(30)
    rows = [
        row.model_copy(update={"path": path}) if row.path.endswith("7.tfrecord") else row for row in manifest.entries
    ]
    odd = manifest.model_copy(update={"splits": {"train": Table.of(FileEntry, rows)}})
    write_manifest(odd, tmp_path / "manifest.json")
    with pytest.raises(DatasetError, match="column path"):
        list(read_manifest(tmp_path / "manifest.json").entries)


def test_a_large_pack_is_staged_as_a_small_one(tmp_path, monkeypatch):
    dataset = write_dataset(tmp_path / "data", 12, 4)
    small = pack_dataset(dataset, small_cubes(), tmp_path / "data", PackSettings(shards=3), tmp_path / "small")
    monkeypatch.setattr(tabled, "INLINE_NUMBERS", 3)
    pack_dataset(dataset, small_cubes(), tmp_path / "data", PackSettings(shards=3), tmp_path / "large")
    large = read_pack(tmp_path / "large/packed.json")
    assert large.shards == small.shards
    assert large.digest == small.model_copy(update={"pack_s": large.pack_s}).digest
    for partition in ("whole", "split"):
        for node in range(2):
            parts = [list(node_part(pack, "train", node, 2, partition).pieces) for pack in (small, large)]
            assert parts[0] == parts[1]
