"""The record: what it refuses to say, and how it complains."""

import json

import pytest
from pydantic import ValidationError
from unit.record_factory import make_record

from hpcai.errors import RecordError
from hpcai.records import RunRecord, read_record, write_json

OUTCOMES = ("converged", "not_converged", "diverged", "failed", "timed_out")


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_a_record_survives_writing_and_reading(tmp_path, outcome):
    record = make_record(outcome)
    write_json(record, tmp_path / "record.json")
    assert read_record(tmp_path / "record.json").model_dump_json() == record.model_dump_json()
    assert (record.time_to_train_s is not None) == (outcome == "converged")
    assert [verdict.level for verdict in record.verdicts] == ["closed", "open"]


def test_facts_are_those_that_were_observed():
    facts = make_record().facts
    assert (facts.data_source, facts.page_cache, facts.outcome) == ("generated", "not_permitted", "converged")
    assert (facts.parameters, facts.init_s, facts.quality) == (123_456, 3.0, 0.29)
    broken = make_record("failed").facts
    assert (broken.parameters, broken.init_s, broken.epochs) == (None, None, 3)


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


def test_a_missing_file(tmp_path):
    with pytest.raises(RecordError, match="no such file"):
        read_record(tmp_path / "record.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outcome": "not_converged"}, "outcome differs from the training report"),
        ({"training": None}, "without a training report"),
        ({"plan_digest": "0" * 64}, "plan_digest is not the digest"),
        ({"run_id": "other"}, "run_id is not the one of plan"),
        ({"ranks": []}, "not one report per rank"),
        ({"wall_s": 0.5}, "the run takes longer than its launcher"),
        (
            {"verdicts": [{"suite": "hpc_ai500", "level": "free", "valid": True}]},
            "a verdict of another suite than the benchmark's",
        ),
        ({"wall_s": -1.0}, "greater than or equal to 0"),
        ({"speed": 1}, "Extra inputs are not permitted"),
    ],
)
def test_contradictions(changes, message):
    data = {**json.loads(make_record().model_dump_json()), **changes}
    with pytest.raises(ValidationError, match=message):
        RunRecord.model_validate_json(json.dumps(data))


def test_converged_needs_an_epoch_at_the_target():
    data = json.loads(make_record().model_dump_json())
    for epoch in data["training"]["epochs"]:
        epoch["quality"] = 0.9
    with pytest.raises(ValidationError, match="no epoch reached the target"):
        RunRecord.model_validate_json(json.dumps(data))


def test_a_diverged_loss_is_kept_as_it_is(tmp_path):
    record = make_record("diverged")
    epochs = record.training.epochs
    last = epochs[-1].model_copy(update={"train_loss": float("nan")})
    training = record.training.model_copy(update={"epochs": (*epochs[:-1], last)})
    write_json(record.model_copy(update={"training": training}), tmp_path / "record.json")
    assert str(read_record(tmp_path / "record.json").training.epochs[-1].train_loss) == "nan"
