"""Predictions of a measured study: other scales, links, precisions and compressions, and how good they are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from hpcai.config.machine import Machine
from hpcai.config.prediction import Prediction
from hpcai.predict.kernels.regressor import KernelRegressor
from hpcai.predict.training.layers import LayerList
from hpcai.predict.what_if.accuracy import PREDICTION_ACCURACY_COLUMNS, compare_points
from hpcai.predict.what_if.answers import PREDICTION_COLUMNS, answer_questions
from hpcai.predict.what_if.measured import MeasuredStudy, StudyTables
from hpcai.predict.what_if.own_steps import judge_own_steps
from hpcai.predict.what_if.published_epochs import PublishedEpochs

WHOLE = ("nodes", "ranks", "global_batch_samples", "baseline_ranks", "interval_n")
NUMBERS = ("epochs",)
NUMBER_ENDS = ("_s", "_ratio")


@dataclass(frozen=True)
class StudyModels:
    """What predictions stand on besides the study's own tables.

    Attributes
    ----------
    layers
        By benchmark.
    machine
        The measured one.
    regressors
        By kernel; only steps are compared with them.
    epoch_curves
        By benchmark, from `fit_published_epochs`; used where the global batch changes.
    overlap
        Whether gradients are exchanged while others are computed; of a single group of gradients none is.
    """

    layers: Mapping[str, LayerList]
    machine: Machine
    regressors: Mapping[str, KernelRegressor] = field(default_factory=dict)
    epoch_curves: Mapping[str, PublishedEpochs] = field(default_factory=dict)
    overlap: bool = False


def predict_study(tables: StudyTables, models: StudyModels, asked: Prediction) -> dict[str, pd.DataFrame]:
    """Predict what a study did not measure.

    Parameters
    ----------
    tables
        Frames of the study.
    models
        Layers, machine, and optionally regressors and curves of epochs.
    asked
        Ranks, links, precisions and compressions to predict for.

    Returns
    -------
    dict of str to pandas.DataFrame
        ``predictions``: one row per question and answer, all of them modelled; ``prediction_accuracy``: measured
        points predicted from other measured points, which the intervals stand on; ``own_steps``: measured steps
        against models that are not scaled to any measurement.

    Notes
    -----
    Benchmarks without a list of layers, and scales without a step time, have no rows.
    """
    study = MeasuredStudy.of(
        tables, models.layers, models.machine, overlap=models.overlap, regressors=models.regressors
    )
    accuracy, errors = compare_points(study)
    answers = answer_questions(study, asked, errors, models.epoch_curves)
    return {
        "predictions": _frame(answers, PREDICTION_COLUMNS),
        "prediction_accuracy": _frame(accuracy, PREDICTION_ACCURACY_COLUMNS),
        "own_steps": judge_own_steps(study),
    }


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a table whose columns have the same types whatever the rows lack."""
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
