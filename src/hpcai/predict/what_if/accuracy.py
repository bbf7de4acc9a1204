"""How well measured points are predicted from other measured points, and the intervals that follow."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpcai.predict.kernels.regressor import KernelRegressor
from hpcai.predict.what_if.intervals import ErrorInterval, interval_from
from hpcai.predict.what_if.measured import MeasuredStudy, Point
from hpcai.predict.what_if.own_steps import regressor_model
from hpcai.predict.what_if.step_model import StepModel

PREDICTION_ACCURACY_COLUMNS = (
    "benchmark", "variant", "scale", "ranks", "basis", "question", "cost_model", "predicted_step_s", "measured_step_s",
    "relative_error_ratio", "used_for_interval", "reason", "method", "source",
)  # fmt: skip
MORE, FEWER, PRECISION, COMPRESSION = "more ranks", "fewer ranks", "precision", "compression"
KINDS = {
    MORE: "the step at more ranks from that at fewer",
    FEWER: "the step at fewer ranks from that at more",
    PRECISION: "the step in another precision",
    COMPRESSION: "the step with another compression",
}
"""What was predicted from what; errors of one kind make the interval of that kind."""


def compare_points(study: MeasuredStudy, regressors: Mapping[str, KernelRegressor]) -> list[dict[str, Any]]:
    """Predict each measured point from each other one that differs in one thing, by each model of computing.

    Returns
    -------
    list of dict
        Rows of `PREDICTION_ACCURACY_COLUMNS`. Only the roofline's errors make intervals, because only its predictions
        have any.
    """
    rows = []
    for question, base, target in _pairs(study):
        models = [study.model(base.benchmark)]
        if regressors and base.setting.precision == target.setting.precision == "fp32":
            models.append(regressor_model(study.layers[base.benchmark], regressors))
        rows += [_compare(study, model, question, (base, target)) for model in models]
    return rows


def find_intervals(accuracy: Sequence[Mapping[str, Any]]) -> dict[str, ErrorInterval]:
    """Return the interval of each kind of prediction from the rows of `compare_points`."""
    used = [row for row in accuracy if row["used_for_interval"]]
    return {
        kind: interval_from(
            [row["measured_step_s"] for row in used if row["question"] == kind],
            [row["predicted_step_s"] for row in used if row["question"] == kind],
            words,
        )
        for kind, words in KINDS.items()
    }


def _pairs(study: MeasuredStudy) -> Iterator[tuple[str, Point, Point]]:
    """Yield what differs, the point to start from, and the point to predict."""
    for base in study.points:
        for target in study.points:
            question = _difference(base, target)
            if question:
                yield question, base, target


def _difference(base: Point, target: Point) -> str:
    """Return the one thing in which two points of a benchmark differ; blank if it is none or several.

    Variants are predicted from those that are plainer: single precision, and no compression.
    """
    if base.benchmark != target.benchmark or base is target:
        return ""
    one, other = base.setting, target.setting
    if base.variant == target.variant:
        return "" if one.ranks == other.ranks else MORE if other.ranks > one.ranks else FEWER
    same = ("ranks", "nodes", "global_batch", "accumulation", "fusion_bytes")
    if any(getattr(one, name) != getattr(other, name) for name in same):
        return ""
    if base.row.get("batchnorm_group") != target.row.get("batchnorm_group"):
        return ""
    changed = [name for name in (PRECISION, COMPRESSION) if getattr(one, name) != getattr(other, name)]
    plain = one.precision == "fp32" if changed == [PRECISION] else one.compression == "none"
    return changed[0] if len(changed) == 1 and plain else ""


def _compare(study: MeasuredStudy, model: StepModel, question: str, pair: tuple[Point, Point]) -> dict[str, Any]:
    base, target = pair
    before, after = (study.exchange(point.setting.nodes) for point in pair)
    factor, reason = model.calibrate(base.setting, before, base.step_s)
    predicted_s = math.nan
    if not reason:
        step = model.estimate(target.setting, after, factor)
        predicted_s, reason = step.step_s, step.reason
    known = math.isfinite(predicted_s)
    variant = "" if base.variant == target.variant else f" of variant {base.variant}"
    return {
        "benchmark": target.benchmark,
        "variant": target.variant,
        "scale": target.scale,
        "ranks": target.setting.ranks,
        "basis": f"{base.scale}{variant}: {KINDS[question]}",
        "question": question,
        "cost_model": model.words,
        "predicted_step_s": predicted_s,
        "measured_step_s": target.step_s,
        "relative_error_ratio": predicted_s / target.step_s - 1 if known else math.nan,
        "used_for_interval": known and model.words.startswith("roofline"),
        "reason": reason,
        "method": "modelled",
        "source": study.sources(target.benchmark, after),
    }
