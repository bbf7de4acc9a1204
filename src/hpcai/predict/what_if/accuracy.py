"""Accuracy of predicting measured points from other measured points, and the resulting intervals."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpcai.catalogue.tables import columns_of
from hpcai.config.prediction import StepCostModel
from hpcai.predict.what_if.intervals import ErrorInterval, interval_from
from hpcai.predict.what_if.measured import MeasuredStudy, Point
from hpcai.predict.what_if.step_model import TIMED_MODELS, StepModel

PREDICTION_ACCURACY_COLUMNS = columns_of("prediction_accuracy")
MORE, FEWER, PRECISION, COMPRESSION = "more ranks", "fewer ranks", "precision", "compression"
KINDS = {
    MORE: "the step at more ranks from that at fewer",
    FEWER: "the step at fewer ranks from that at more",
    PRECISION: "the step in another precision",
    COMPRESSION: "the step with another compression",
}
"""Kinds of predictions; the errors of one kind determine the interval of that kind."""


@dataclass(frozen=True)
class ModelErrors:
    """Errors of the models of a step, by kind of prediction.

    Attributes
    ----------
    best
        Name of the model that was less far off in the median, on the points that all models predict; blank where
        nothing can tell, which stands for the first.
    intervals
        By kind and model, from the rows that count.
    asked
        Model that predicts wherever it can: how its name begins; ``blocks`` stands for both `TIMED_MODELS`.
    """

    best: Mapping[str, str]
    intervals: Mapping[tuple[str, str], ErrorInterval]
    asked: StepCostModel = "blocks"

    def choose(self, kind: str, models: Mapping[str, StepModel]) -> tuple[StepModel, ErrorInterval]:
        """Return the model for a kind of prediction, the one asked for or the best, and its predictions' interval."""
        model = models[_pick(list(models), self.asked, self.best[kind])]
        return model, self.intervals.get((kind, model.words)) or interval_from([], [], KINDS[kind])


def compare_points(study: MeasuredStudy, asked: StepCostModel = "blocks") -> tuple[list[dict[str, Any]], ModelErrors]:
    """Predict each measured point from each other one that differs in one thing, by each model of a step.

    Parameters
    ----------
    study
        Measured points and models.
    asked
        Model of a step that predicts wherever it can.

    Returns
    -------
    list of dict
        Rows of `PREDICTION_ACCURACY_COLUMNS`. Only errors of the model that would be chosen for the point count.
    ModelErrors
        Conclusions for predictions of unmeasured points.
    """
    groups = []
    for question, base, target in _pairs(study):
        models = study.models(base, target.setting).values()
        groups.append([_compare(study, model, question, (base, target)) for model in models])
    best = _least_far_off(groups)
    errors: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for rows in groups:
        able = {row["cost_model"]: row for row in rows if math.isfinite(row["predicted_step_s"])}
        if able:
            chosen = able[_pick(list(able), asked, best[rows[0]["question"]])]
            chosen["used_for_interval"] = True
            kind = chosen["question"], chosen["cost_model"]
            errors[kind].append((chosen["measured_step_s"], chosen["predicted_step_s"]))
    intervals = {
        kind: interval_from([one for one, _ in pairs], [other for _, other in pairs], KINDS[kind[0]])
        for kind, pairs in errors.items()
    }
    return [row for rows in groups for row in rows], ModelErrors(best, intervals, asked)


def _least_far_off(groups: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, str]:
    """Return the name of the best model of each kind; blank if no point was predicted by several."""
    errors: dict[str, dict[str, list[float]]] = {kind: defaultdict(list) for kind in KINDS}
    for rows in groups:
        off = {row["cost_model"]: abs(row["relative_error_ratio"]) for row in rows}
        if len(off) > 1 and all(math.isfinite(error) for error in off.values()):
            for model, error in off.items():
                errors[rows[0]["question"]][model].append(error)
    return {
        kind: min(models, key=lambda model: statistics.median(models[model]), default="")
        for kind, models in errors.items()
    }


def _pick(names: Sequence[str], asked: str, best: str) -> str:
    """Return the name of the model that is asked for, otherwise the best, otherwise the first."""
    begins = tuple(TIMED_MODELS.values()) if asked == "blocks" else (asked,)
    return next((name for name in names if name.startswith(begins)), best if best in names else names[0])


def _pairs(study: MeasuredStudy) -> Iterator[tuple[str, Point, Point]]:
    """Yield the difference, the starting point, and the point to predict."""
    for base in study.points:
        for target in study.points:
            question = _difference(base, target)
            if question:
                yield question, base, target


def _difference(base: Point, target: Point) -> str:
    """Return the single respect in which two points of a benchmark differ; blank if there is none or several.

    Variants are predicted from simpler ones: single precision, and no compression.
    """
    if base.benchmark != target.benchmark or base is target:
        return ""
    one, other = base.setting, target.setting
    if base.variant == target.variant:
        if base.engine != target.engine:
            return ""
        return "" if one.ranks == other.ranks else MORE if other.ranks > one.ranks else FEWER
    same = ("ranks", "nodes", "global_batch", "accumulation", "fusion_bytes", "gradient_groups")
    if any(getattr(one, name) != getattr(other, name) for name in same):
        return ""
    if any(base.row.get(name) != target.row.get(name) for name in ("engine", "batchnorm_group", "spatial_parts")):
        return ""
    changed = [name for name in (PRECISION, COMPRESSION) if getattr(one, name) != getattr(other, name)]
    plain = one.precision == "fp32" if changed == [PRECISION] else one.compression == "none"
    return changed[0] if len(changed) == 1 and plain else ""


def _compare(study: MeasuredStudy, model: StepModel, question: str, pair: tuple[Point, Point]) -> dict[str, Any]:
    base, target = pair
    after = study.exchange(target.setting.nodes, target.engine)
    factor, reason = study.calibrate(model, base)
    predicted_s = math.nan
    if not reason:
        step = model.estimate(target.setting, after, factor)
        predicted_s, reason = step.step_s, step.reason
    known = math.isfinite(predicted_s)
    variant = "" if base.variant == target.variant else f" of variant {base.variant}"
    return {
        "benchmark": target.benchmark,
        "variant": target.variant,
        "engine": target.engine,
        "scale": target.scale,
        "ranks": target.setting.ranks,
        "basis": f"{base.scale}{variant}: {KINDS[question]}",
        "question": question,
        "cost_model": model.words,
        "predicted_step_s": predicted_s,
        "measured_step_s": target.step_s,
        "relative_error_ratio": predicted_s / target.step_s - 1 if known else math.nan,
        "used_for_interval": False,
        "reason": reason,
        "method": "modelled",
        "source": study.sources(target.benchmark, after, model),
    }
