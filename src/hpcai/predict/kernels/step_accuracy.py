"""Accuracy of training steps estimated as sums of kernels, with and without one overhead coefficient."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.metrics.quietness import NOT_WATCHED, Quiet
from hpcai.metrics.scaling.model_limits import why_not_covered
from hpcai.predict.errors_of_estimates import relative_errors, total_error_ratio, weighted_error_ratio
from hpcai.predict.kernels.layer_kernels import Stage
from hpcai.predict.kernels.regressor import KernelRegressor
from hpcai.predict.kernels.step_estimate import StepEstimate, add_overhead, estimate_step, fit_overhead
from hpcai.predict.training.layers import LayerList

GOAL_RATIO = 0.30
"""Goal for the absolute relative error of a step as the sum of its kernels."""
OVERHEAD_GOAL_RATIO = 0.15
"""The same with an overhead coefficient fitted on another network or batch."""
NO_OVERHEAD = "none"
BACKWARD: tuple[Stage, ...] = ("input gradient", "weight gradient", "element-wise backward")
"""Stages that cannot be separated in a running step; their sum is the row "backward"."""
NO_OTHER_STEP = Message(
    "step_accuracy.no_other_step",
    "no other step was measured that the overhead could be fitted on",
)
FITTED_ON = Message("step_accuracy.fitted_on", "fitted on {steps}")
STEP_COLUMNS = columns_of("step_accuracy")
STAGE_COLUMNS = columns_of("step_stages")


@dataclass(frozen=True)
class MeasuredStep:
    """A training step that was actually run.

    Attributes
    ----------
    network, batch
        Its layers, and samples per process.
    measured_s
        Time of one step without communication and input [s].
    stage_s
        Times of the stages that were measured [s]: names of `layer_kernels.STAGES`, and "backward".
    origin
        "reference network" or "own run"; `variant`, `engine`, `scale` and `ranks` are those of an own run.
    source
        Source of the measurement.
    quiet
        Whether the machine was quiet during it.
    """

    network: LayerList
    batch: int
    measured_s: float
    source: str
    stage_s: Mapping[str, float] = field(default_factory=dict)
    origin: str = "reference network"
    variant: str = ""
    engine: str = ""
    scale: str = ""
    ranks: int = 1
    quiet: Quiet = NOT_WATCHED


def judge_steps(steps: Sequence[MeasuredStep], regressors: Mapping[str, KernelRegressor]) -> pd.DataFrame:
    """Return table ``step_accuracy`` for steps estimated as sums of kernels.

    Each step has rows for its stages and for the whole without overhead, and one row for the whole with an overhead per
    parameter fitted to all other steps, never to itself. If the regressors cover too little of a stage or of the step,
    the estimate is replaced by a reason.

    Parameters
    ----------
    steps
        Measured steps. A single one has no others to fit on, so its second row has a reason instead of an estimate.
    regressors
        By kernel.
    """
    estimates = [estimate_step(step.network, step.batch, regressors) for step in steps]
    rows: list[dict[str, Any]] = []
    for position, (step, estimate) in enumerate(zip(steps, estimates, strict=True)):
        rows += _raw_rows(step, estimate)
        known = [number for number, one in enumerate(steps) if one.measured_s > 0 and not estimates[number].reason]
        others = [number for number in known if number != position]
        rows.append(_overhead_row(step, estimate, [(estimates[one], steps[one].measured_s) for one in others]))
    return pd.DataFrame(rows, columns=list(STEP_COLUMNS)).astype({"within_goal": "boolean"})


def collect_steps(
    networks: Mapping[str, LayerList], times: pd.DataFrame, quiet: Quiet, source: str
) -> list[MeasuredStep]:
    """Return the measured steps of the reference networks.

    Parameters
    ----------
    networks
        Their layers, by name in the table.
    times
        One row per ``network``, ``batch`` and ``part`` with ``cpu_time_s``; the parts "forward", "gradients" (forward
        and backward) and "step" include one another, so backward and update are differences of medians.
    quiet
        Whether the machine was quiet during the measurement.
    source
        Source of the times.
    """
    parts = times.pivot_table("cpu_time_s", ["network", "batch"], "part", sort=False, dropna=False)
    parts = parts.reindex(columns=["forward", "gradients", "step"]).astype(float)
    rows = parts.reset_index().to_dict("records")
    return [replace(_measured_step(networks[row["network"]], row, source), quiet=quiet) for row in rows]


def summarise_stages(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return one row per stage and kind of overhead: errors over all measured steps.

    Parameters
    ----------
    accuracy
        Table ``step_accuracy``.

    Returns
    -------
    pandas.DataFrame
        ``stage``, ``overhead`` ("none" or "fitted on others"), ``n``, ``weighted_error_ratio`` (the sum of absolute
        errors over the sum of measured times), ``total_error_ratio`` (signed error of the sums),
        ``largest_error_ratio`` (of one step, absolute), ``goal_ratio``, ``within_goal`` (all steps meet it).
    """
    known = accuracy[accuracy["relative_error_ratio"].notna()]
    kinds = known["overhead"].where(known["overhead"] == NO_OVERHEAD, "fitted on others")
    rows = [
        {
            "stage": stage,
            "overhead": kind,
            "n": len(part),
            "weighted_error_ratio": weighted_error_ratio(part["estimated_s"], part["measured_s"]),
            "total_error_ratio": total_error_ratio(part["estimated_s"], part["measured_s"]),
            "largest_error_ratio": part["relative_error_ratio"].abs().max(),
            "goal_ratio": part["goal_ratio"].iloc[0],
            "within_goal": part["within_goal"].all() if part["within_goal"].notna().all() else pd.NA,
            "method": "modelled",
            "source": "table step_accuracy",
        }
        for (stage, kind), part in known.groupby(["stage", kinds], sort=False)
    ]
    return pd.DataFrame(rows, columns=list(STAGE_COLUMNS)).astype({"within_goal": "boolean"})


def _measured_step(network: LayerList, row: Mapping[Any, Any], source: str) -> MeasuredStep:
    stage_s = {
        "forward": row["forward"],
        "backward": row["gradients"] - row["forward"],
        "update": row["step"] - row["gradients"],
    }
    return MeasuredStep(network, row["batch"], row["step"], source, stage_s)


def _raw_rows(step: MeasuredStep, estimate: StepEstimate) -> list[dict[str, Any]]:
    """Return the rows of the stages and of the step without overhead."""
    left_out = f"not in the sum: {', '.join(estimate.not_covered)}" if estimate.not_covered else ""
    rows = []
    for name, parts in [*((stage, (stage,)) for stage in estimate.stage_s), ("backward", BACKWARD)]:
        measured = step.stage_s.get(name, math.nan)
        estimated_s, why = _sum_stages(estimate, parts)
        row = _row(step, name, estimated_s, measured, math.nan)
        covered = estimate.stage_covered_ratio.get(name, math.nan)
        reason = "; ".join(filter(None, (_reason(measured), why)))
        rows.append({**row, "overhead": NO_OVERHEAD, "covered_ratio": covered, "reason": reason})
    whole = _row(step, "step", math.nan if estimate.reason else estimate.step_s, step.measured_s, GOAL_RATIO)
    reason = "; ".join(filter(None, (_reason(step.measured_s), estimate.reason, left_out, *estimate.approximations)))
    return [*rows, {**whole, "overhead": NO_OVERHEAD, **_of_whole(estimate), "reason": reason}]


def _sum_stages(estimate: StepEstimate, stages: Sequence[str]) -> tuple[float, str]:
    """Return the total time of some stages, or NaN and the reason; a stage without work takes no time."""
    covered = [estimate.stage_covered_ratio[stage] for stage in stages]
    why = why_not_covered(min((one for one in covered if not math.isnan(one)), default=1.0))
    return math.nan if why else sum(estimate.stage_s[stage] for stage in stages), why


def _overhead_row(
    step: MeasuredStep, estimate: StepEstimate, others: Sequence[tuple[StepEstimate, float]]
) -> dict[str, Any]:
    """Return the row of the step with an overhead fitted on others; without an estimate, with the reason."""
    reason = estimate.reason
    if not others:
        reason = reason or NO_OTHER_STEP()
    if reason:
        row = _row(step, "step", math.nan, step.measured_s, OVERHEAD_GOAL_RATIO)
        return {**row, "overhead": "fitted on others", **_of_whole(estimate), "reason": reason}
    overhead = fit_overhead([other for other, _ in others], [measured for _, measured in others])
    row = _row(step, "step", add_overhead(estimate, overhead), step.measured_s, OVERHEAD_GOAL_RATIO)
    return {
        **row,
        "overhead": FITTED_ON(steps=overhead.fitted_on),
        "overhead_per_parameter_s": overhead.per_parameter_s,
        **_of_whole(estimate),
        "reason": _reason(step.measured_s),
    }


def _row(step: MeasuredStep, stage: str, estimated_s: float, measured_s: float, goal_ratio: float) -> dict[str, Any]:
    known = measured_s > 0 and not math.isnan(estimated_s)
    error = float(relative_errors(estimated_s, measured_s)[0]) if known else math.nan
    judged = known and not math.isnan(goal_ratio)
    return {
        "origin": step.origin,
        "name": step.network.name,
        "variant": step.variant,
        "engine": step.engine,
        "scale": step.scale,
        "ranks": step.ranks,
        "batch": step.batch,
        "cost_model": "regressors",
        "stage": stage,
        "estimated_s": estimated_s,
        "measured_s": measured_s,
        "relative_error_ratio": error,
        "goal_ratio": goal_ratio,
        "within_goal": abs(error) <= goal_ratio if judged else pd.NA,
        **asdict(step.quiet),
        "method": "modelled",
        "source": step.source,
    }


def _of_whole(estimate: StepEstimate) -> dict[str, float]:
    return {"covered_ratio": estimate.covered_ratio, "extrapolated_ratio": estimate.extrapolated_ratio}


def _reason(measured_s: float) -> str:
    return "" if measured_s > 0 else "not measured by itself"
