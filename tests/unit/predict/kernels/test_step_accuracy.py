"""Measured steps judge the sums of kernels, never with an overhead that was fitted to themselves."""

import math

import pandas as pd
import pytest
from unit.predict.kernels.made_regressors import make_constant_regressor

from hpcai.metrics.quietness import Quiet
from hpcai.predict.kernels.cases import KERNELS
from hpcai.predict.kernels.layer_kernels import STAGES
from hpcai.predict.kernels.step_accuracy import (
    FITTED_ON,
    NO_OTHER_STEP,
    MeasuredStep,
    collect_steps,
    judge_steps,
    summarise_stages,
)
from hpcai.predict.kernels.step_estimate import estimate_step
from hpcai.predict.training.layers import Layer, LayerList

REGRESSORS = {kernel: make_constant_regressor(kernel, 1e-3) for kernel in KERNELS}


def network(name, features):
    dense = Layer("dense", "dense", (features,), (10,), parameters=10 * features, needs_input_gradient=False)
    return LayerList(name=name, title=name, layers=(dense,), source="made")


def step(name, features, batch, measured_s, **more):
    return MeasuredStep(network(name, features), batch, measured_s, source="made", **more)


def wholes(table):
    return table[table["stage"] == "step"].set_index(["name", "batch"])


@pytest.fixture(scope="module")
def table():
    """Kernels sum up to 3 ms; steps take 1 µs per parameter more, one of them twice that."""
    steps = [
        step("small", 100, 8, 4e-3, stage_s={"forward": 2e-3}),
        step("large", 1000, 8, 13e-3),
        step("odd", 1000, 16, 23e-3),
    ]
    return judge_steps(steps, REGRESSORS)


def test_sums_are_judged_with_sign_and_goal(table):
    raw = wholes(table[table["overhead"] == "none"])
    assert raw["estimated_s"].to_list() == pytest.approx([3e-3] * 3)
    assert raw.loc[("small", 8), "relative_error_ratio"] == pytest.approx(-0.25)
    assert list(raw["within_goal"]) == [True, False, False]
    assert set(raw["goal_ratio"]) == {0.30}


def test_the_overhead_of_each_step_comes_from_the_others(table):
    fitted = wholes(table[table["overhead"] != "none"])
    assert fitted.loc[("small", 8), "overhead"] == FITTED_ON(steps="large batch 8; odd batch 16")
    assert fitted.loc[("odd", 16), "overhead"] == FITTED_ON(steps="small batch 8; large batch 8")
    assert fitted.loc[("odd", 16), "overhead_per_parameter_s"] == pytest.approx(1e-6)
    assert fitted.loc[("odd", 16), "estimated_s"] == pytest.approx(13e-3)
    assert fitted.loc[("large", 8), "overhead_per_parameter_s"] > 1.2e-6
    assert set(fitted["goal_ratio"]) == {0.15}


def test_stages_have_rows_and_an_error_where_they_were_measured(table):
    own = table[(table["name"] == "small") & (table["overhead"] == "none")].set_index("stage")
    assert list(own.index) == [*STAGES, "backward", "step"]
    assert own.loc["forward", "relative_error_ratio"] == pytest.approx(-0.5)
    assert math.isnan(own.loc["update", "relative_error_ratio"])
    assert own.loc["update", "reason"] == "not measured by itself"
    assert pd.isna(own.loc["forward", "within_goal"])


def test_errors_by_stage_are_weighted_by_time(table):
    summary = summarise_stages(table).set_index(["stage", "overhead"])
    raw = summary.loc[("step", "none")]
    assert raw["n"] == 3
    assert raw["weighted_error_ratio"] == pytest.approx((1 + 10 + 20) / 40)
    assert raw["total_error_ratio"] == pytest.approx(-31 / 40)
    assert raw["largest_error_ratio"] == pytest.approx(20 / 23)
    assert not raw["within_goal"]
    assert ("step", "fitted on others") in summary.index
    assert summary.loc[("forward", "none"), "n"] == 1


def test_a_single_step_has_no_overhead_and_a_reason():
    table = judge_steps([step("small", 100, 8, 4e-3)], REGRESSORS)
    row = table.iloc[-1]
    assert math.isnan(row["estimated_s"])
    assert pd.isna(row["within_goal"])
    assert row["reason"] == NO_OTHER_STEP()


def test_a_step_without_a_measurement_is_estimated_and_not_judged():
    table = judge_steps([step("small", 100, 8, math.nan), step("large", 1000, 8, 13e-3)], REGRESSORS)
    fitted = wholes(table[table["overhead"] != "none"])
    assert fitted.loc[("small", 8), "estimated_s"] == pytest.approx(4e-3)
    assert math.isnan(fitted.loc[("small", 8), "relative_error_ratio"])
    assert pd.isna(fitted.loc[("small", 8), "within_goal"])
    assert math.isnan(fitted.loc[("large", 8), "estimated_s"])
    assert estimate_step(network("small", 100), 8, REGRESSORS).step_s == pytest.approx(3e-3)


def test_what_is_hardly_covered_has_no_estimate_and_fits_no_overhead():
    """A convolution without a regressor is nearly all of the work of one network."""
    convolution = Layer("conv", "convolution", (32, 32, 64), (32, 32, 64), kernel=(3, 3), parameters=36864)
    mixed = LayerList(name="mixed", title="mixed", layers=(convolution, *network("", 100).layers), source="made")
    regressors = {kernel: one for kernel, one in REGRESSORS.items() if not kernel.startswith("conv")}
    steps = [MeasuredStep(mixed, 8, 1.0, "made", {"forward": 0.5}), step("a", 100, 8, 4e-3), step("b", 1000, 8, 13e-3)]
    table = judge_steps(steps, regressors)
    lost = table[table["name"] == "mixed"].set_index(["stage", "overhead"])
    for key in (("step", "none"), ("step", "fitted on others"), ("forward", "none"), ("backward", "none")):
        assert math.isnan(lost.loc[key, "estimated_s"]), key
        assert "expected at least 90%" in lost.loc[key, "reason"], key
    assert 0 < lost.loc[("step", "none"), "covered_ratio"] < 0.01
    # Its update is covered, and has an estimate.
    assert lost.loc[("update", "none"), "estimated_s"] > 0
    assert set(table.loc[table["name"] == "a", "overhead"]) == {"none", "fitted on b batch 8"}
    assert summarise_stages(table).set_index(["stage", "overhead"]).loc[("step", "none"), "n"] == 2


def test_parts_that_contain_one_another_become_stages():
    parts = [("forward", 1.0), ("gradients", 3.0), ("step", 3.5)]
    rows = [{"network": "small", "batch": 8, "part": part, "cpu_time_s": time} for part, time in parts]
    rows += [{"network": "large", "batch": 8, "part": part, "cpu_time_s": None} for part, _ in parts]
    networks = {"small": network("small_net", 100), "large": network("large_net", 1000)}
    quiet = Quiet("disturbed", 0.2, 0.0)
    small, large = collect_steps(networks, pd.DataFrame(rows), quiet, "made")
    assert small.quiet == quiet
    assert set(judge_steps([small], {})["quiet"]) == {"disturbed"}
    assert small.measured_s == 3.5
    assert small.stage_s == {"forward": 1.0, "backward": 2.0, "update": 0.5}
    assert large.network.name == "large_net"
    assert math.isnan(large.measured_s)
