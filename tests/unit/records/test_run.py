"""The record: facts of a run, and refused contradictions."""

import json

import pytest
from pydantic import ValidationError
from unit.record_factory import make_record

from hpcai.records.run import RunRecord
from hpcai.rules.verdict import Finding, Verdict


def test_facts_are_those_that_were_observed():
    facts = make_record().facts
    assert (facts.data_source, facts.page_cache, facts.outcome) == ("generated", "not_permitted", "converged")
    assert (facts.parameters, facts.init_s, facts.quality) == (123_456, 3.0, 0.29)
    broken = make_record("failed").facts
    assert (broken.parameters, broken.init_s, broken.epochs) == (None, None, 3)


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


@pytest.mark.parametrize(("kind", "kept"), [({"kind": "weak", "instances": 5}, False), ({"kind": "profiled"}, True)])
def test_earlier_versions_took_instances_of_groups_for_profiled_runs(kind, kept):
    found = Finding(rule="timed", sentence="profiled, not timed", section="11")
    other = Finding(rule="caches_cleared", sentence="page cache not cleared", section="6.1")
    verdicts = [
        Verdict(suite="mlperf_hpc", level=level, valid=False, deviations=deviations).model_dump()
        for level, deviations in (("closed", (found, other)), ("open", (found,)))
    ]
    data = {**json.loads(make_record(**kind).model_dump_json()), "verdicts": verdicts}
    closed, opened = RunRecord.model_validate_json(json.dumps(data)).verdicts
    assert (closed.deviations, closed.valid) == ((found, other) if kept else (other,), False)
    assert (opened.deviations, opened.valid) == ((found,) if kept else (), not kept)
