"""Files of the official layout are examined and passed on, and damage is found."""

from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.workloads.image_classification.data.image_files import generated, module, record

from hpcai.core.errors import DatasetError
from hpcai.data.module import CHANGED_FILE
from hpcai.data.tfrecord import encode_records, write_records
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
