"""OpenCatalyst for real: two ranks learn the forces on generated slabs, and MLPerf's checker passes their closed log.

It is the tiny benchmark of config/ as it is: its frames are gentle, so that the official error is reached in seconds.
"""

import numpy as np
import pytest
from end_to_end.rank_runs import Run, benchmark_file, check_log, prepared
from unit.training.training_plans import plan_of

PLAN = plan_of(benchmark_file("opencatalyst_tiny"), ranks=2)
BENCHMARK = PLAN.benchmark
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return prepared(PLAN, tmp_path_factory.mktemp("opencatalyst")).run("run", PLAN)


def test_two_ranks_reach_the_target(run: Run) -> None:
    assert run.report.outcome == "converged", run.output
    assert run.rank(0).weights_sha256 == run.rank(1).weights_sha256
    qualities = [epoch.quality for epoch in run.report.epochs]
    assert np.isfinite(qualities).all()
    assert qualities[-1] <= BENCHMARK.target.value == 0.036 < qualities[0]
    assert {epoch.evaluation_samples for epoch in run.report.epochs} == {BENCHMARK.data.validation_samples}


@pytest.mark.parametrize("rule_set", ["1.0.0", "2.0.0", "3.0.0"])
def test_the_closed_log_passes_mlperfs_checker(run: Run, rule_set: str) -> None:
    checked = check_log(run.raw / "mllog.txt", rule_set)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "SUCCESS" in checked.stdout + checked.stderr


def test_the_log_names_the_benchmark_and_its_hyperparameters(run: Run) -> None:
    values = {line["key"]: line["value"] for line in run.log}
    recipe = BENCHMARK.recipe
    assert (values["submission_benchmark"], values["submission_division"]) == ("oc20", "closed")
    assert (values["train_samples"], values["eval_samples"]) == (256, 64)
    assert values["opt_name"] == "AdamW"
    assert values["opt_learning_rate_warmup_steps"] == recipe.warmup_steps
    assert values["opt_learning_rate_decay_boundary_steps"] == list(recipe.decay_steps)
    assert values["eval_error"] == run.report.epochs[-1].quality
