"""Files of records: what is written is read again, and each change is noticed."""

import json
import os
import random

import pytest
from unit.record_factory import make_record

from hpcai.core.errors import RecordError
from hpcai.records.files import (
    MOST_PLACES,
    RAW,
    RECORD,
    read_part,
    read_record,
    read_record_text,
    sound_copy,
    write_json,
    write_record,
    write_sealed,
)
from hpcai.records.run import Artefact, Capture
from hpcai.records.weak import Extent, Instance, WeakGroup

OUTCOMES = ("converged", "not_converged", "diverged", "failed", "timed_out")


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_record_survives_writing_and_reading(tmp_path, outcome):
    record = make_record(outcome)
    write_json(record, tmp_path / "record.json")
    assert read_record(tmp_path / "record.json").model_dump_json() == record.model_dump_json()
    assert (record.time_to_train_s is not None) == (outcome == "converged")
    assert [verdict.level for verdict in record.verdicts] == ["closed", "open"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "whole file"),
        ("{", "whole file"),
        ("[]", "whole file"),
        ('{"run_id": 3}', r"run_id: found .3."),
    ],
)
def test_damaged_files(tmp_path, text, message):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=message) as caught:
        read_record(path)
    assert str(path) in str(caught.value)
    assert f"hpcai restore {tmp_path}" in str(caught.value)


def test_a_file_of_another_kind_is_told_in_few_lines_and_is_not_to_be_removed_blindly(tmp_path):
    path = tmp_path / "summary.json"
    path.write_text(json.dumps({f"key_{number}": number for number in range(40)}))
    with pytest.raises(RecordError) as caught:
        read_part(Capture, path)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2 + MOST_PLACES
    needed = sum(field.is_required() for field in Capture.model_fields.values())
    assert lines[-1].split()[:2] == ["and", str(needed + 40 - MOST_PLACES)]


def test_a_missing_file(tmp_path):
    with pytest.raises(RecordError, match="no such file"):
        read_record(tmp_path / "record.json")


def test_a_diverged_loss_is_kept_as_it_is(tmp_path):
    record = make_record("diverged")
    epochs = record.training.epochs
    last = epochs[-1].model_copy(update={"train_loss": float("nan")})
    training = record.training.model_copy(update={"epochs": (*epochs[:-1], last)})
    write_json(record.model_copy(update={"training": training}), tmp_path / "record.json")
    assert str(read_record(tmp_path / "record.json").training.epochs[-1].train_loss) == "nan"


def test_every_changed_digit_of_a_record_is_noticed(tmp_path):
    path, draw = tmp_path / "record.json", random.Random(18)
    write_record(make_record(), path)
    whole = path.read_text()
    digits = [place for place, letter in enumerate(whole) if letter.isdigit()]
    for place in draw.sample(digits, 200):
        other = draw.choice([digit for digit in "0123456789" if digit != whole[place]])
        path.write_text(whole[:place] + other + whole[place + 1 :])
        with pytest.raises(RecordError):
            read_record(path)


def test_every_flipped_bit_of_the_seal_is_noticed(tmp_path):
    path = tmp_path / "record.json"
    write_record(make_record(), path)
    whole = path.read_bytes()
    for place in range(8 * (len(whole) - 90), 8 * len(whole)):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(RecordError):
            read_record(path)


def test_a_record_with_and_without_its_digest(tmp_path):
    record = make_record()
    write_record(record, tmp_path / "new.json")
    write_json(record, tmp_path / "old.json")
    texts = [read_record_text(tmp_path / name) for name in ("new.json", "old.json")]
    assert [one.is_sealed for one in texts] == [True, False]
    assert texts[0].text == texts[1].text
    assert read_record(tmp_path / "new.json") == read_record(tmp_path / "old.json") == record


def test_a_changed_copy_names_the_one_that_is_right(tmp_path):
    original, published = tmp_path / RAW / RECORD, tmp_path / RECORD
    original.parent.mkdir()
    for damaged, right in ((original, published), (published, original)):
        write_record(make_record(), original)
        write_record(make_record(), published)
        damaged.write_text(damaged.read_text().replace('"0.28.1"', '"0.28.2"'))
        with pytest.raises(RecordError) as caught:
            read_record(damaged)
        assert f"{right} is intact: `hpcai restore {tmp_path}`" in str(caught.value)
        assert sound_copy(tmp_path) == right


@pytest.mark.parametrize("kind", ["capture", "group"])
def test_every_changed_digit_of_a_capture_or_group_is_noticed(tmp_path, kind):
    path, draw = tmp_path / f"{kind}.json", random.Random(18)
    part = make_capture() if kind == "capture" else make_group()
    write_sealed(part, path)
    assert read_part(type(part), path) == part
    whole = path.read_text()
    digits = [place for place, letter in enumerate(whole) if letter.isdigit()]
    for place in draw.sample(digits, min(100, len(digits))):
        other = draw.choice([digit for digit in "0123456789" if digit != whole[place]])
        path.write_text(whole[:place] + other + whole[place + 1 :])
        with pytest.raises(RecordError, match=str(path)):
            read_part(type(part), path)


def make_capture():
    raw = (Artefact(path="raw/timeline.json", bytes=12, sha256="0" * 64),)
    return Capture(profile="timeline", run_id="a/b/n1x2/r1", tool="t", status="measured", reason="", raw=raw)


def make_group():
    extent = Extent(nodes=1, ranks=1, accelerators=0)
    instance = Instance(
        number=1, run_id="a/b/n1x1/i1", attempt="a", seed=7, outcome="converged", reason="", pruned=None, shares=(),
        run_start_monotonic_s=1.25, run_stop_monotonic_s=3.5,
    )  # fmt: skip
    return WeakGroup(
        group="a/b/n1x1", benchmark="a", variant="b", scale="n1x1", attempt="a", started_utc="2026-01-01T00:00:00Z",
        instances=1, counted=1, instance_extent=extent, whole_extent=extent, time_to_train_all_monotonic_s=2.25,
        results=(instance,),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["folder", "fifo", "device"])
def test_what_is_no_file_is_no_record(tmp_path, kind):
    path = tmp_path / "record.json"
    {"folder": path.mkdir, "fifo": lambda: os.mkfifo(path), "device": lambda: path.symlink_to("/dev/zero")}[kind]()
    for read in (read_record, lambda one: read_part(Capture, one)):
        with pytest.raises(RecordError, match="cannot be read"):
            read(path)
    assert sound_copy(tmp_path) is None
