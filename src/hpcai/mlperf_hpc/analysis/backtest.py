"""Backtest of forecasts: predict each new submission of a round from the earlier rounds, case by case."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.mlperf_hpc.analysis.curve_model import LEVEL_RATIO
from hpcai.mlperf_hpc.analysis.forecast import (
    Past,
    Target,
    look_back,
    published_of,
    read_target,
    references_before,
)
from hpcai.mlperf_hpc.analysis.prediction import Configuration, Prediction, refuse
from hpcai.mlperf_hpc.analysis.prediction_points import PointSet, point_sets
from hpcai.mlperf_hpc.analysis.publication import PUBLISHED

FORECAST_COLUMNS = columns_of("mlperf_forecasts")
MOST_FACTOR = 1.5
"""Goal for the median error factor."""
LEAST_COVERAGE_RATIO = 0.85
"""Goal for the share of published times inside their intervals of :data:`curve_model.LEVEL_RATIO`."""
NOTHING_PUBLISHED = Message(
    "backtest.nothing_published", "--backtest: no source has a new submission of {target}; found rounds {found}"
)


def forecast_table(results: pd.DataFrame, systems: pd.DataFrame) -> pd.DataFrame:
    """Return table ``mlperf_forecasts``: the new results of every round from those before it.

    Parameters
    ----------
    results, systems
        Tables ``mlperf_results`` and ``mlperf_systems``; only published rounds have a part in it.
    """
    published = [str(one) for one in results["origin"].unique() if str(one) in PUBLISHED] if len(results) else []
    own, tables = results[results["origin"].isin(published)], []
    for name in sorted(published, key=published_of)[1:]:
        with suppress(ConfigError):  # a round without a new result of a benchmark tells nothing
            tables.append(backtest(own, systems[systems["origin"].isin(published)], [name])[0])
    found = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(FORECAST_COLUMNS))
    renamed = found.rename(columns={"error_ratio": "run_error_ratio"})
    return renamed.assign(level_ratio=LEVEL_RATIO, source="tables mlperf_results, mlperf_systems")[[*FORECAST_COLUMNS]]


def backtest(results: pd.DataFrame, systems: pd.DataFrame, names: Sequence[str]) -> tuple[pd.DataFrame, list[Past]]:
    """Predict every new submission of some rounds from the rounds before each.

    Parameters
    ----------
    results, systems
        Tables ``mlperf_results`` and ``mlperf_systems`` of all rounds.
    names
        Rounds to predict, such as "v2.0".

    Returns
    -------
    tuple
        One row per submission that was not published before, with or without a prediction, and the basis of each
        round's predictions. An error ratio is predicted over published; a width is the upper over the lower bound.

    Raises
    ------
    ConfigError
        If a round is unknown, has no new submission, or has no earlier round.
    """
    rows, pasts = [], []
    for name in names:
        target = read_target(name)
        sets = list(point_sets(results, systems, references_before(target), joined=True))
        new = [(points, found) for points in sets if (found := _new_rows(points, target))]
        if not new:
            origins = ", ".join(sorted(set(results["origin"].astype(str)))) or "none"
            raise ConfigError(NOTHING_PUBLISHED(target=name, found=origins))
        past = look_back(sets, target)
        pasts.append(past)
        rows += [row for points, submissions in new for row in _compare_all(past, points, submissions)]
    return pd.DataFrame(rows), pasts


def summarise_backtest(cases: pd.DataFrame) -> dict[str, Any]:
    """Return the error of the predictions, and whether they meet the goals."""
    known = cases[cases["reason"] == ""]
    factors = np.exp(np.abs(np.log(known["error_ratio"].astype(float))))
    inside = int(known["inside"].astype(bool).sum())
    summary = {
        "submissions": len(cases),
        "predicted": len(known),
        "level_ratio": LEVEL_RATIO,
        "inside": inside,
        "coverage_ratio": inside / len(known) if len(known) else math.nan,
        "median_error_factor": float(factors.median()),
        "largest_error_factor": float(factors.max()),
        "median_width_ratio": float(known["width_ratio"].median()),
        "largest_width_ratio": float(known["width_ratio"].max()),
    }
    return summary | {
        "coverage_met": bool(summary["coverage_ratio"] >= LEAST_COVERAGE_RATIO),
        "factor_met": bool(summary["median_error_factor"] <= MOST_FACTOR),
    }


def _new_rows(points: PointSet, target: Target) -> list[dict[str, Any]]:
    usable = points.usable
    dates = [published_of(name) for name in usable["origin"].astype(str)]
    return [
        {str(name): value for name, value in row.items()}
        for row in usable[[date == target.published for date in dates]].to_dict("records")
    ]


def _compare_all(past: Past, points: PointSet, submissions: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Predict the new submissions of one edition; give a reason where earlier rounds hold no basis."""
    try:
        forecast = past.forecast(points.benchmark, points.edition)
    except ConfigError as error:
        forecast, reason = None, str(error)
    for row in submissions:
        wanted = Configuration(str(row["org"]), str(row["family"]), int(row["units"]), int(row["global_batch_samples"]))
        found = forecast.predict(wanted) if forecast else refuse(wanted, reason)
        yield {"round": past.target.name, "benchmark": points.benchmark} | _compare(row, found)


def _compare(row: dict[str, Any], found: Prediction) -> dict[str, Any]:
    published_s, known = float(row["run_s"]), not found.reason
    return {
        "submission": row["submission"],
        "family": found.configuration.family,
        "units": found.configuration.units,
        "global_batch_samples": found.configuration.batch_samples,
        "run_s": published_s,
        "run_predicted_s": found.run_s.middle,
        "run_low_s": found.run_s.low,
        "run_high_s": found.run_s.high,
        "width_ratio": found.run_s.high / found.run_s.low if known else math.nan,
        "error_ratio": found.run_s.middle / published_s if known else math.nan,
        "inside": found.run_s.low <= published_s <= found.run_s.high if known else None,
        "epochs": row["epochs"],
        "epochs_predicted": found.epochs.middle,
        "epoch_s": row["epoch_s"],
        "epoch_predicted_s": found.epoch_s.middle,
        "method": "modelled",
        "reason": found.reason,
    }
