import json
import random

import pytest
from unit.data.data_samples import (
    SHAPE,
    cut,
    flip_bit,
    found_in,
    header,
    sample_bytes,
    small_cubes,
    write_dataset,
    write_split,
)
from unit.refusals import refused, told

from hpcai.core.errors import DatasetError
from hpcai.data.manifest import (
    NOT_AS_EXPECTED,
    SURPLUS,
    Manifest,
    make_manifest,
    read_manifest,
    verify_dataset,
    write_manifest,
)
from hpcai.data.tfrecord import GZIP_CUT, write_records

NAME = "train/univ_ics_test_a0001_00{}.tfrecord"


@pytest.fixture
def manifest(tmp_path):
    return write_dataset(tmp_path)


def test_a_sound_dataset_passes(tmp_path, manifest):
    calls = []
    verify_dataset(manifest, small_cubes(), tmp_path, calls.append)
    assert sum(calls) == 8
    entry = manifest.splits["train"][0]
    assert entry.path == NAME.format(0)
    assert entry.bytes == (tmp_path / entry.path).stat().st_size
    (member,) = small_cubes().members(tmp_path / entry.path, entry.facts)
    assert (len(member.content), member.record_offsets) == (entry.content_bytes, (0,))


def test_every_changed_digit_of_a_manifest_is_noticed(tmp_path, manifest):
    path, draw = tmp_path / "manifest.json", random.Random(18)
    write_manifest(manifest, path)
    assert read_manifest(path) == manifest
    whole = path.read_text()
    for place in draw.sample([place for place, letter in enumerate(whole) if letter.isdigit()], 100):
        other = draw.choice([digit for digit in "0123456789" if digit != whole[place]])
        path.write_text(whole[:place] + other + whole[place + 1 :])
        with pytest.raises(DatasetError, match="prepare the dataset again"):
            read_manifest(path)


def test_all_damage_is_listed_at_once(tmp_path, manifest):
    files = [tmp_path / NAME.format(number) for number in range(6)]
    flip_bit(files[0], 200)
    cut(files[1], 4)
    files[2].write_bytes(b"")
    files[3].unlink()
    write_records(files[4], [sample_bytes(4, (4, 4, 4, 4))], compress=True)
    write_records(files[5], [sample_bytes(77)], compress=True)
    write_records(tmp_path / "train" / "more.tfrecord", [sample_bytes(1)], compress=True)
    with pytest.raises(DatasetError) as caught:
        verify_dataset(manifest, small_cubes(), tmp_path)
    lines = str(caught.value).splitlines()
    assert caught.value.code == NOT_AS_EXPECTED.code
    assert caught.value.facts["files"] == 7
    for file, line, expected in zip(
        [*files, tmp_path / "train" / "more.tfrecord"],
        lines[1:],
        [
            "record 0: ",
            "record 1: " + GZIP_CUT(remedy=""),
            "record 0: found an empty file",
            "missing, expected",
            "record 0: feature x: found 512 bytes, expected 4096",
            "as crc32c, expected",
            SURPLUS(),
        ],
        strict=True,
    ):
        assert line.strip().startswith(str(file))
        assert expected in line


@pytest.mark.parametrize("edition", ["gzip", "plain"])
def test_every_byte_counts(tmp_path, edition):
    manifest = write_dataset(tmp_path, 1, 1, edition=edition)
    module, entry = small_cubes(edition), manifest.splits["train"][0]
    file = tmp_path / NAME.format(0)
    whole = file.read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 60)):
        flip_bit(file, position)
        with pytest.raises(DatasetError, match=r"_000.tfrecord"):
            verify_dataset(manifest, module, tmp_path)
        with pytest.raises(DatasetError, match=r"_000.tfrecord"):
            list(module.members(file, entry.facts))
        file.write_bytes(whole)
    verify_dataset(manifest, module, tmp_path)


def test_making_a_manifest_finds_damage(tmp_path):
    write_split(tmp_path / "train", 3)
    cut(tmp_path / NAME.format(1), 1)
    write_records(tmp_path / NAME.format(2), [sample_bytes(1), sample_bytes(2, (4, 4, 4, 4))], compress=True)
    files = sorted(f"train/{path.name}" for path in (tmp_path / "train").iterdir())
    with refused(DatasetError, NOT_AS_EXPECTED, files=2) as caught:
        make_manifest(header(), small_cubes(), tmp_path, {"train": files, "validation": []})
    _, cut_file, other_shape = str(caught.value).splitlines()
    assert "_001" in cut_file
    told(cut_file, GZIP_CUT)
    assert "_002.tfrecord: record 1: feature x" in other_shape


def test_files_left_aside_are_counted(tmp_path):
    write_dataset(tmp_path)
    facts = header().model_copy(update={"unused_files": {"train": 2}})
    files = {split: names[:4] for split, names in found_in(tmp_path).items()}
    manifest = make_manifest(facts, small_cubes(), tmp_path, files)
    verify_dataset(manifest, small_cubes(), tmp_path)
    (tmp_path / NAME.format(5)).unlink()
    with refused(DatasetError, NOT_AS_EXPECTED, files=1):
        verify_dataset(manifest, small_cubes(), tmp_path)


def test_file_round_trip_and_root(tmp_path, manifest):
    path = tmp_path / "manifest.json"
    write_manifest(manifest, path)
    assert read_manifest(path) == manifest
    assert manifest.root(path) == tmp_path
    moved = manifest.model_copy(update={"samples_root": "/elsewhere", "origin": {"when": 1}})
    assert str(moved.root(path)) == "/elsewhere"
    assert moved.digest == manifest.digest
    other = manifest.model_copy(update={"edition": "plain"})
    assert other.digest != manifest.digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "", "the whole file: found .* expected a valid Manifest"),
        (lambda text: text[:-20], "the whole file"),
        (lambda text: text.replace('"schema_version": 2', '"schema_version": 1'), "schema_version: found 1"),
        (lambda text: text.replace("train/univ_ics_test_a0001_000", "../../etc/x"), r"splits.train.0.path: .*'\.\.'"),
        (lambda text: text.replace("train/univ_ics_test_a0001_000", "/etc/x"), "splits.train.0.path"),
    ],
)
def test_damaged_manifest(tmp_path, manifest, change, message):
    path = tmp_path / "manifest.json"
    # As written by an earlier version: without a digest that would detect any change first.
    path.write_text(change(manifest.model_dump_json(indent=1) + "\n"))
    with pytest.raises(DatasetError, match=f"manifest.json: {message}"):
        read_manifest(path)


def test_missing_manifest(tmp_path):
    with pytest.raises(DatasetError, match=r"manifest\.json: cannot be read"):
        read_manifest(tmp_path / "manifest.json")


def test_json_is_plain(tmp_path, manifest):
    write_manifest(manifest, tmp_path / "manifest.json")
    plain = json.loads((tmp_path / "manifest.json").read_text())
    assert plain.pop("content_sha256")
    assert Manifest.model_validate(plain) == manifest
    assert manifest.sample_shape == SHAPE
