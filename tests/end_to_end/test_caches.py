"""Caches and batches of the evaluation change times alone; skipped gradients change the training."""

from pathlib import Path

import pytest
import yaml
from end_to_end.rank_runs import Prepared, prepared
from unit.training.training_plans import plan_of

from hpcai.config.runs import RunPlan

pytestmark = pytest.mark.slow
MINI = Path(__file__).resolve().parents[1] / "config/benchmarks"
CACHES = {"evaluation_batch": 8, "evaluation_cache": "node_local", "training_cache": "memory"}


def plan(benchmark: str = "cosmoflow_mini", recipe: dict | None = None, **point: object) -> RunPlan:
    settings = yaml.safe_load((MINI / f"{benchmark}.yaml").read_text())
    settings["recipe"] |= {"max_epochs": 2, **(recipe or {})}
    settings["target"] = {"value": 0.99 if benchmark.startswith("resnet") else 1e-9}
    return plan_of(settings, 2, point=point)


@pytest.fixture(scope="module")
def cubes(tmp_path_factory) -> Prepared:
    return prepared(plan(), tmp_path_factory.mktemp("cubes"))


def test_caches_change_no_number_and_leave_nothing_behind(cubes):
    plain, cached = cubes.run("plain", plan()), cubes.run("cached", plan(**CACHES))
    assert (plain.exit_status, cached.exit_status) == (0, 0), plain.output + cached.output
    assert cached.losses == plain.losses
    assert [one.quality for one in cached.epochs] == pytest.approx([one.quality for one in plain.epochs], rel=1e-6)
    assert [one.evaluation_samples for one in cached.epochs] == [one.evaluation_samples for one in plain.epochs]
    assert plain.report.cache_s is None
    assert 0 < cached.report.cache_s < cached.report.run_s
    assert cubes.staged("cached") == []


@pytest.mark.parametrize("benchmark", ["resnet50_mini", "extreme_weather_mini", "deepcam_mini", "opencatalyst_mini"])
def test_no_benchmark_minds_where_its_samples_come_from(tmp_path, benchmark):
    data = prepared(plan(benchmark), tmp_path)
    point = {"evaluation_batch": 3, "evaluation_cache": "memory", "training_cache": "memory"}
    plain, cached = data.run("plain", plan(benchmark)), data.run("cached", plan(benchmark, **point))
    assert (plain.exit_status, cached.exit_status) == (0, 0), plain.output + cached.output
    assert cached.losses == plain.losses
    assert [one.quality for one in cached.epochs] == pytest.approx([one.quality for one in plain.epochs], rel=1e-5)


@pytest.mark.parametrize("engine", ["horovod", "jax"])
def test_gradients_above_the_limit_change_nothing(cubes, engine):
    run = cubes.run(f"skipping_{engine}", plan(recipe={"skip_gradient_norm": 1e-12}, engine=engine))
    assert run.exit_status == 0, run.output
    assert [one.skipped_steps for one in run.epochs] == [one.steps for one in run.epochs]
    assert len({one.quality for one in run.epochs}) == 1
