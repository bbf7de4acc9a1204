"""Measured steps of the study's own runs against models that are not scaled to any measurement."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from hpcai.metrics.quietness import quiet_of_scale
from hpcai.predict.kernels.step_accuracy import GOAL_RATIO, NO_OVERHEAD, STEP_COLUMNS
from hpcai.predict.kernels.step_estimate import estimate_step
from hpcai.predict.training.roofline_cost import CostModel
from hpcai.predict.what_if.measured import MeasuredStudy, Point
from hpcai.predict.what_if.step_model import StepModel, regressor_model

ROOFLINES: tuple[CostModel, ...] = ("gemm", "full")
NOT_APART = "not measured by itself"
ONE_PRECISION = "kernels were measured in fp32 only"


def judge_own_steps(study: MeasuredStudy) -> pd.DataFrame:
    """Return rows of table ``step_accuracy``: each measured point by the roofline and, if there are any, by regressors.

    The modelled step is computing and the allreduce, one after the other, without a factor; the measured one is the
    median step of the runs, which has input, loss and all that no layer is. There is a goal for regressors only: the
    source states none for the roofline.
    """
    rows = [row for point in study.points for row in _rows(study, point)]
    return pd.DataFrame(rows, columns=list(STEP_COLUMNS)).astype({"within_goal": "boolean"})


def _rows(study: MeasuredStudy, point: Point) -> Iterator[dict[str, Any]]:
    for cost_model in ROOFLINES:
        model = study.model(point.benchmark, cost_model)
        yield from _of_model(study, point, model, {"cost_model": cost_model})
    regressors = study.regressors
    if not regressors:
        return
    network = study.layers[point.benchmark]
    extra: dict[str, Any] = {"cost_model": "regressors", "goal_ratio": GOAL_RATIO}
    if point.setting.precision == "fp32":
        estimate = estimate_step(network, max(int(point.setting.micro_batch), 1), regressors)
        extra |= {"covered_ratio": estimate.covered_ratio, "extrapolated_ratio": estimate.extrapolated_ratio}
        left_out = f"not in the sum: {', '.join(estimate.not_covered)}" if estimate.not_covered else ""
        extra |= {"reason": "; ".join(filter(None, (left_out, *estimate.approximations)))}
    else:
        extra |= {"reason": ONE_PRECISION}
    yield from _of_model(study, point, regressor_model(network, regressors), extra)


def _of_model(
    study: MeasuredStudy, point: Point, model: StepModel, extra: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of communication and of the whole step by one model."""
    exchange = study.exchange(point.setting.nodes)
    step = model.estimate(point.setting, exchange)
    shared = {
        "origin": "own run",
        "name": point.benchmark,
        "variant": point.variant,
        "scale": point.scale,
        "ranks": point.setting.ranks,
        "batch": point.setting.global_batch // point.setting.ranks,
        "overhead": NO_OVERHEAD,
        **asdict(quiet_of_scale(point.row)),
        "method": "modelled",
        "source": study.sources(point.benchmark, exchange, model),
    }
    part = {**shared, "cost_model": extra["cost_model"], "within_goal": pd.NA}
    yield {**part, "stage": "communication", "estimated_s": step.communication_s, "reason": step.reason or NOT_APART}
    error = step.step_s / point.step_s - 1
    judged = "goal_ratio" in extra and math.isfinite(error)
    yield {
        **shared,
        "stage": "step",
        "estimated_s": step.step_s,
        "measured_s": point.step_s,
        "relative_error_ratio": error,
        "within_goal": abs(error) <= extra["goal_ratio"] if judged else pd.NA,
        **extra,
        "reason": "; ".join(filter(None, (step.reason, extra.get("reason", "")))),
    }
