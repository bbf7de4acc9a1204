"""Files of the official layout are examined and passed on, and damage is found."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.workloads.image_classification.data.image_files import generated, module, record

from hpcai.config.benchmark import PackSettings
from hpcai.core.errors import DatasetError
from hpcai.data import shards
from hpcai.data.manifest import ManifestHeader, make_manifest
from hpcai.data.member_codec import Codec
from hpcai.data.module import CHANGED_FILE
from hpcai.data.pack import pack_dataset
from hpcai.data.packed import PackManifest
from hpcai.data.tfrecord import Content, encode_records, split_records, write_records
from hpcai.workloads.image_classification.data import module as image_module
from hpcai.workloads.image_classification.data.module import ImageClassificationDataModule
from hpcai.workloads.image_classification.data.record import encode_record

NAME = "train-00001-of-00004"


def test_generated_files_pass_and_their_records_begin_where_the_facts_say(tmp_path: Path) -> None:
    data = generated(tmp_path / "data")
    found = data.find(tmp_path / "data")
    assert found is not None
    assert {split: len(files) for split, files in found.items()} == {"train": 4, "validation": 2}
    file = tmp_path / "data" / NAME
    facts = data.examine(file)
    assert facts.records == 4
    (member,) = data.members(file, facts)
    assert (member.name, member.content) == (NAME, file.read_bytes())
    payloads = [payload.numpy() for payload in tf.data.TFRecordDataset(str(file))]
    starts = [len(encode_records(payloads[:number])) for number in range(4)]
    assert list(member.record_offsets) == starts


def test_large_files_are_packed_in_small_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "MEMBER_IMAGES", 3)
    data = generated(tmp_path / "data", train_samples=28)
    files = [tmp_path / "data" / f"train-{number:05d}-of-00004" for number in range(4)]
    found = []
    for file in files:
        facts = data.examine(file)
        assert (facts.records, data.member_count(facts)) == (7, 3)
        members = list(data.members(file, facts))
        assert [len(member.record_offsets) for member in members] == [2, 2, 3]
        assert b"".join(member.content for member in members) == file.read_bytes()
        for member in members:
            payloads = list(split_records(Content(member.content), member.name))
            starts = [len(encode_records([bytes(one) for one in payloads[:number]])) for number in range(len(payloads))]
            assert list(member.record_offsets) == starts
        assert list(data.members(file, facts, range(1, 3))) == members[1:]
        found.append([member.name for member in members])
    assert data.split_members("train") == sum(map(len, found))
    # By name the first members of all files come first: nodes take files in turn, as before.
    in_turn = [names[number] for number in range(3) for names in found]
    assert sorted(name for names in found for name in names) == in_turn
    official = module(train_samples=1_281_167, train_shards=1024, source="download", archives=["x"])
    assert official.split_members("train") == sum(-(-images // 3) for images in [1251] * 881 + [1252] * 143)


def test_a_large_file_that_was_changed_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "MEMBER_IMAGES", 3)
    data = generated(tmp_path / "data")
    facts = data.examine(tmp_path / "data" / NAME)
    flip(tmp_path / "data" / NAME)
    with refused(DatasetError, CHANGED_FILE, place=str(tmp_path / "data" / NAME)):
        list(data.members(tmp_path / "data" / NAME, facts))


def test_a_packing_that_an_earlier_version_began_starts_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its journals count whole files as members."""
    data, root = generated(tmp_path / "data"), tmp_path / "data"
    found, encode, encoded = data.find(root), shards.encode_member, list[int]()
    assert found is not None
    facts = {"dataset": "images", "workload": "image_classification", "source": "generated", "edition": "official"}
    manifest = make_manifest(ManifestHeader.model_validate({**facts, "sample_shape": ()}), data, root, found)

    def pack(output: str) -> PackManifest:
        return pack_dataset(manifest, data, root, PackSettings(codec="none", shards=2), tmp_path / output)

    def failing(content: bytes, codec: Codec, level: int) -> bytes:
        encoded.append(1)
        if len(encoded) > 3:
            raise RuntimeError("power off")
        return encode(content, codec, level)

    with monkeypatch.context() as patch:
        patch.setattr(ImageClassificationDataModule, "member_samples", None)
        patch.setattr(shards, "encode_member", failing)
        with pytest.raises(RuntimeError):
            pack("begun")
    assert list((tmp_path / "begun").glob("*" + shards.JOURNAL))
    monkeypatch.setattr(image_module, "MEMBER_IMAGES", 3)
    assert pack("begun").shards == pack("fresh").shards


def test_images_have_no_common_shape() -> None:
    assert module().sample_shape == ()
    assert module().edition == "official"


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def count_from_zero(file: Path) -> None:
    write_records(file, [encode_record(record()), encode_record(record(label=0))], compress=False)


def compress(file: Path) -> None:
    write_records(file, [encode_record(record())], compress=True)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip, r"record \d: found .* as checksum"),
        (cut, r"record 3: found \d+ bytes of it, expected \d+: the tail of the file is cut"),
        (empty, r"record 0: found an empty file"),
        (count_from_zero, r"record 1: feature image/class/label: found 0, expected 1 to 8"),
        (compress, r"record 0: found gzip, expected plain records"),
    ],
)
def test_damage_is_found_and_named(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    data = generated(tmp_path / "data")
    file = tmp_path / "data" / NAME
    facts = data.examine(file)
    damage(file)
    with pytest.raises(DatasetError, match=f"{NAME}.*{message}"):
        data.examine(file)
    with pytest.raises(DatasetError, match=NAME):
        list(data.members(file, facts))


def test_another_good_file_in_its_place(tmp_path: Path) -> None:
    data = generated(tmp_path / "data")
    file = tmp_path / "data" / NAME
    facts = data.examine(file)
    file.write_bytes((tmp_path / "data/train-00002-of-00004").read_bytes())
    with refused(DatasetError, CHANGED_FILE):
        list(data.members(file, facts))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be read"):
        module().examine(tmp_path / NAME)
