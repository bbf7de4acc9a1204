"""Leave-one-out test of the joined curves: predict each published submission from all others."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.mlperf_hpc.analysis.curve_model import LEVEL_RATIO
from hpcai.mlperf_hpc.analysis.prediction import Configuration, Interval, Prediction, join_curves, refuse
from hpcai.mlperf_hpc.analysis.prediction_points import PointSet

LEAVE_ONE_OUT_COLUMNS = columns_of("mlperf_leave_one_out")
"""Table ``mlperf_leave_one_out``: one row per strong-scaling submission.

An error ratio is predicted over published; 1 is exact. ``others`` counts the submissions used for the prediction.
The naive predictor takes the time of ``nearest``; ``mean`` is the geometric mean of all other times.
Without a prediction the ratios are NaN and ``reason`` gives the cause.
"""
ERROR_COLUMNS = columns_of("mlperf_prediction_errors")
"""Table ``mlperf_prediction_errors``: one row per edition of a benchmark.

An error factor is max(ratio, 1 / ratio): 1 is exact, 2 is half or twice. Naive predictors are tested on the same
submissions. ``coverage_ratio`` should be near ``level_ratio``.
"""


def leave_one_out(sets: Iterable[PointSet]) -> pd.DataFrame:
    """Predict every submission from the others of its edition: table ``mlperf_leave_one_out``.

    Parameters
    ----------
    sets
        Editions (:func:`hpcai.mlperf_hpc.analysis.prediction_points.point_sets`).
    """
    rows = [_leave_out(points, place) for points in sets for place in range(len(points.submissions))]
    return pd.DataFrame(rows, columns=list(LEAVE_ONE_OUT_COLUMNS))


def summarise_errors(table: pd.DataFrame) -> pd.DataFrame:
    """Return the error of each edition's predictions and of the naive ones: table ``mlperf_prediction_errors``."""
    rows = [_summarise(part) for _, part in table.groupby(["benchmark", "edition"], sort=True)]
    return pd.DataFrame(rows, columns=list(ERROR_COLUMNS))


def _leave_out(points: PointSet, position: int) -> dict[str, Any]:
    row = {str(name): value for name, value in points.submissions.iloc[position].items()}
    rest = points.without(position)
    prediction = _predict_row(row, rest)
    usable = rest.usable
    fields = {name: row.get(name) for name in LEAVE_ONE_OUT_COLUMNS} | {"others": len(usable)}
    naive = _predict_naively(row, usable) if not row["unusable"] else {}
    return (
        fields
        | _compare("run", "_s", row["run_s"], prediction.run_s)
        | _compare("epochs", "", row["epochs"], prediction.epochs)
        | _compare("epoch", "_s", row["epoch_s"], prediction.epoch_s)
        | naive
        | {"extrapolated": prediction.extrapolated, "reason": prediction.reason}
    )


def _predict_row(row: dict[str, Any], rest: PointSet) -> Prediction:
    if row["unusable"]:
        return refuse(Configuration(str(row["org"]), str(row["family"]), 0, 0), str(row["unusable"]))
    wanted = Configuration(str(row["org"]), str(row["family"]), int(row["units"]), int(row["global_batch_samples"]))
    return join_curves(rest).predict(wanted) if len(rest.usable) else refuse(wanted, "no other submission")


def _compare(name: str, unit: str, published: float, predicted: Interval) -> dict[str, Any]:
    known = math.isfinite(predicted.middle)
    inside = {"run": "inside"}.get(name, f"{name}_inside")
    return {
        f"{name}{unit}": published,
        f"{name}_predicted{unit}": predicted.middle,
        f"{name}_low{unit}": predicted.low,
        f"{name}_high{unit}": predicted.high,
        f"{name}_error_ratio": predicted.middle / published if known else math.nan,
        inside: predicted.low <= published <= predicted.high if known else None,
    }


def _predict_naively(row: dict[str, Any], others: pd.DataFrame) -> dict[str, Any]:
    """Predict with the nearest other submission (same family first, then units and batch), and with the mean of all."""
    if others.empty:
        return {"nearest": "", "nearest_error_ratio": math.nan, "mean_error_ratio": math.nan}
    own = others[others["family"] == row["family"]]
    candidates = own if len(own) else others
    distance = sum(
        np.log(candidates[name].astype(float) / float(row[name])) ** 2 for name in ("units", "global_batch_samples")
    )
    nearest = candidates.loc[pd.Series(distance).idxmin()]
    mean = math.exp(np.log(others["run_s"].astype(float)).mean())
    return {
        "nearest": nearest["submission"],
        "nearest_error_ratio": float(nearest["run_s"]) / float(row["run_s"]),
        "mean_error_ratio": mean / float(row["run_s"]),
    }


def _summarise(part: pd.DataFrame) -> dict[str, Any]:
    known = part[part["reason"] == ""]
    coverages = {
        name: float(known[column].astype(float).mean()) if len(known) else math.nan
        for name, column in (("coverage_ratio", "inside"), ("epochs_coverage_ratio", "epochs_inside"),
                             ("epoch_coverage_ratio", "epoch_inside"))
    }  # fmt: skip
    return {
        "benchmark": part["benchmark"].iloc[0],
        "edition": part["edition"].iloc[0],
        "submissions": len(part),
        "predicted": len(known),
        "level_ratio": LEVEL_RATIO,
        "inside": int(known["inside"].astype(bool).sum()),
        "median_error_factor": _factors(known["run_error_ratio"]).median(),
        "largest_error_factor": _factors(known["run_error_ratio"]).max(),
        "epochs_median_error_factor": _factors(known["epochs_error_ratio"]).median(),
        "epoch_median_error_factor": _factors(known["epoch_error_ratio"]).median(),
        "nearest_median_error_factor": _factors(known["nearest_error_ratio"]).median(),
        "mean_median_error_factor": _factors(known["mean_error_ratio"]).median(),
    } | coverages


def _factors(ratios: pd.Series) -> pd.Series:
    values = ratios.astype(float)
    return values.where(values >= 1, 1 / values)
