"""Which runs stand for the batches of a benchmark, and what the digest of a plan is of."""

import hashlib
import json

import pytest
from unit.record_factory import make_machine
from unit.record_factory import make_plan as make_any_plan
from unit.training.training_plans import make_plan

from hpcai.config.runs import NOT_MEASURED_WITH, runs_at_each_batch


def test_each_batch_in_single_precision_has_its_first_run():
    plans = {
        "a": make_plan(point={"global_batch": 8, "precision": "bf16"}),
        "b": make_plan(point={"global_batch": 8}),
        "c": make_plan(point={"global_batch": 4}),
        "d": make_plan(point={"global_batch": 8}),
    }
    assert runs_at_each_batch(plans) == ["b", "c"]
    assert runs_at_each_batch({"a": plans["a"]}) == ["a"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"repetition": 7},
        {"kind": "weak", "instances": 3},
        {"kind": "profiled", "profile": "counters", "max_steps": 5},
        {"requires_acceptance_s": 60.0},
        {"settings_of_point": {"engine": "jax", "global_batch": 8}},
    ],
)
def test_a_digest_is_that_of_the_whole_plan_as_one_text(settings):
    plan = make_any_plan(**settings)
    fields = plan.model_dump(mode="json", exclude={*NOT_MEASURED_WITH})
    for part in (fields["benchmark"], fields["machine"]):
        part.pop("title")
    fields["machine"].pop("power")
    fields["machine"]["profilers"] = "auto" if plan.profile else None
    assert plan.digest == hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def test_a_plan_can_have_what_another_machine_file_declares():
    plan = make_any_plan()
    link = {"bandwidth_bytes_per_s": "25 GB/s", "source": "data sheet, 2026-01-02"}
    other = make_machine(nodes=7, links={"network": link}, memory_bytes="16 GiB", title="Another")
    declaring = plan.with_declared(other).machine
    assert (declaring.nodes, declaring.links) == (other.nodes, other.links)
    # What a run uses stays, and a plan to which nothing is new is the same object, whose text is known.
    assert (declaring.memory_bytes, declaring.title) == (plan.machine.memory_bytes, plan.machine.title)
    assert plan.with_declared(make_machine(memory_bytes="16 GiB")) is plan
    assert plan.with_declared(None).digest == plan.with_declared(other).with_declared(None).digest != plan.digest
