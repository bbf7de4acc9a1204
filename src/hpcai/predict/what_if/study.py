"""Predictions for a measured study: other scales, links, precisions and compressions, and their accuracy."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from hpcai.config.machine import Machine
from hpcai.config.prediction import Prediction
from hpcai.metrics.quietness import quiet_of_scale
from hpcai.predict.kernels.regressor import KernelRegressor
from hpcai.predict.kernels.step_accuracy import GOAL_RATIO, NO_OVERHEAD, STEP_COLUMNS
from hpcai.predict.kernels.step_estimate import estimate_step
from hpcai.predict.steps.report import StepTimes
from hpcai.predict.training.layers import LayerList
from hpcai.predict.training.roofline_cost import CostModel
from hpcai.predict.what_if.accuracy import PREDICTION_ACCURACY_COLUMNS, compare_points
from hpcai.predict.what_if.answers import PREDICTION_COLUMNS, answer_questions
from hpcai.predict.what_if.measured import MeasuredStudy, Point, StudyTables
from hpcai.predict.what_if.published_epochs import PublishedEpochs
from hpcai.predict.what_if.step_model import StepModel, regressor_model

ROOFLINES: tuple[CostModel, ...] = ("gemm", "full")
NOT_APART = "not measured by itself"
ONE_PRECISION = "kernels were measured in fp32 only"


def judge_own_steps(study: MeasuredStudy) -> pd.DataFrame:
    """Return rows of table ``step_accuracy``: each measured point by the roofline and, if available, by regressors.

    The modelled step is computing followed by the allreduce, without a factor. The measured one is the median step of
    the runs, which includes input, loss and everything else outside layers. Only regressors have a goal: the source
    states none for the roofline.
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
    """Yield the rows of communication and of the whole step for one model."""
    exchange = study.exchange(point.setting.nodes, point.engine)
    step = model.estimate(point.setting, exchange)
    shared = {
        "origin": "own run",
        "name": point.benchmark,
        "variant": point.variant,
        "engine": point.engine,
        "scale": point.scale,
        "ranks": point.setting.ranks,
        "batch": point.setting.global_batch * point.setting.spatial_parts // point.setting.ranks,
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


WHOLE = ("nodes", "ranks", "global_batch_samples", "baseline_ranks", "interval_n")
NUMBERS = ("epochs",)
NUMBER_ENDS = ("_s", "_ratio")


@dataclass(frozen=True)
class StudyModels:
    """Inputs of predictions besides the study's own tables.

    Attributes
    ----------
    layers
        Layers by benchmark.
    machine
        The measured machine.
    regressors
        By kernel; only compared with steps.
    epoch_curves
        By benchmark, from `fit_published_epochs`; used if the global batch changes.
    overlap
        Whether gradients are exchanged while others are computed; of a single group of gradients none is.
    steps
        Steps that were timed on the machine, whole and in blocks.
    """

    layers: Mapping[str, LayerList]
    machine: Machine
    regressors: Mapping[str, KernelRegressor] = field(default_factory=dict)
    epoch_curves: Mapping[str, PublishedEpochs] = field(default_factory=dict)
    overlap: bool = False
    steps: Sequence[StepTimes] = ()


def predict_study(tables: StudyTables, models: StudyModels, asked: Prediction) -> dict[str, pd.DataFrame]:
    """Predict what a study did not measure.

    Parameters
    ----------
    tables
        Frames of the study.
    models
        Layers, machine, and optionally regressors and curves of epochs.
    asked
        Ranks, links, precisions and compressions to predict.

    Returns
    -------
    dict of str to pandas.DataFrame
        ``predictions``: one row per question and answer, all modelled; ``prediction_accuracy``: measured points
        predicted from other measured points, the basis of the intervals; ``own_steps``: measured steps
        against uncalibrated models.

    Notes
    -----
    Benchmarks without a list of layers, and scales without a step time, have no rows.
    """
    study = MeasuredStudy.of(
        tables,
        models.layers,
        models.machine,
        overlap=models.overlap,
        regressors=models.regressors,
        steps=models.steps,
    )
    accuracy, errors = compare_points(study, asked.cost_model)
    answers = answer_questions(study, asked, errors, models.epoch_curves)
    return {
        "predictions": _frame(answers, PREDICTION_COLUMNS),
        "prediction_accuracy": _frame(accuracy, PREDICTION_ACCURACY_COLUMNS),
        "own_steps": judge_own_steps(study),
    }


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a table with fixed column types, even for missing values."""
    frame = pd.DataFrame(list(rows), columns=list(columns))
    for name in columns:
        if name in WHOLE:
            frame[name] = frame[name].fillna(0).astype("int64")
        elif name in NUMBERS or name.endswith(NUMBER_ENDS):
            frame[name] = frame[name].astype("float64")
        elif name == "used_for_interval":
            frame[name] = frame[name].astype("bool")
        else:
            frame[name] = frame[name].astype("object").where(frame[name].notna(), "").map(str)
    return frame
