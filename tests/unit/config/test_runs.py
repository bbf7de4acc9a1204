"""Which runs stand for the batches of a benchmark."""

from unit.training.training_plans import make_plan

from hpcai.config.runs import runs_at_each_batch


def test_each_batch_in_single_precision_has_its_first_run():
    plans = {
        "a": make_plan(point={"global_batch": 8, "precision": "bf16"}),
        "b": make_plan(point={"global_batch": 8}),
        "c": make_plan(point={"global_batch": 4}),
        "d": make_plan(point={"global_batch": 8}),
    }
    assert runs_at_each_batch(plans) == ["b", "c"]
    assert runs_at_each_batch({"a": plans["a"]}) == ["a"]
