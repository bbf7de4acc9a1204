"""How far the forecast of many trainings from a few is from published weak-scaling results."""

from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.metrics.scaling.weak_forecast import FEWEST, METHOD, forecast_all, forecast_columns
from hpcai.mlperf_hpc.analysis.targets import QUALITY

USED = 10
"""Instances that a forecast sees, if a result has as many more; fewer in smaller results: half of them."""
NO_SCORE = Message("weak_backtest.no_score", "the published result has no time for all: {why}")
TOO_FEW = Message("weak_backtest.too_few", "{n} instances count: too few to forecast some of them from others")


def backtest_table(runs: pd.DataFrame, weak: pd.DataFrame) -> pd.DataFrame:
    """Return the forecast of each published weak-scaling result from a few of its own instances.

    Parameters
    ----------
    runs, weak
        The tables `mlperf_runs` and `mlperf_weak`.

    Returns
    -------
    pandas.DataFrame
        The columns of `mlperf_weak_backtest`. The instances seen are evenly spaced in the order of their numbers, so
        that no choice of ours is in it; no log has the rate of an instance alone, so the interval has no part for
        contention.
    """
    rows = [_row(result, runs) for result in weak.to_dict("records") if not result.get("same_runs_as")]
    return pd.DataFrame(rows, columns=list(columns_of("mlperf_weak_backtest")))


def _row(result: dict[Any, Any], runs: pd.DataFrame) -> dict[str, Any]:
    names = ("origin", "submission", "benchmark", "division")
    row = {name: result[name] for name in (*names, "label", "instances", "counted_instances", "scale_unit", "source")}
    row |= {"published_all_s": result["time_to_train_all_s"], "method": METHOD}
    if not result["time_to_train_all_s"] > 0:
        return row | {"reason": NO_SCORE(why=result["reason"])}
    own = runs[(runs[list(names[:3])] == [result[name] for name in names[:3]]).all(axis=1)]
    own = own[own["scaling"].eq("weak") & own["run_s"].gt(0) & own["good_by_status"]].sort_values("number")
    used = min(USED, len(own) // 2)
    if used < FEWEST or result["benchmark"] not in QUALITY:
        return row | {"reason": TOO_FEW(n=len(own))}
    seen = own.iloc[[round(place * (len(own) - 1) / (used - 1)) for place in range(used)]]
    starts = pd.to_datetime(seen["started_utc"], utc=True)
    ends_s = (starts - starts.min()).dt.total_seconds() + seen["run_s"]
    whole = int(result["counted_instances"])
    found = forecast_all(ends_s.tolist(), whole)
    return row | forecast_columns(found, whole) | {
        "seen_instances": used,
        "error_ratio": found.value / result["time_to_train_all_s"] - 1,
        "inside": found.low <= result["time_to_train_all_s"] <= found.high,
        "reason": "",
    }  # fmt: skip
