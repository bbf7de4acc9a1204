"""Policies for large batches on two ranks: the ranks take equal steps, which the end of a run checks bit by bit."""

import pytest
from end_to_end.rank_runs import benchmark_file, prepared
from unit.training.training_plans import plan_of

from hpcai.config.runs import RunPlan


def plan(policy: str) -> RunPlan:
    return plan_of(benchmark_file(f"resnet50_tiny_{policy}"), 2, point={"global_batch": 32})


@pytest.mark.slow
def test_two_ranks_end_with_equal_weights(tmp_path):
    data = prepared(plan("lars"), tmp_path)
    for policy in ("lars", "lamb"):
        run = data.run(policy, plan(policy))
        assert run.exit_status == 0, run.output
        assert run.rank(0).weights_sha256 == run.rank(1).weights_sha256
        assert run.epochs[-1].quality > 0.9
