"""How far the forecast of many trainings from a few is from published weak-scaling results."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.metrics.scaling.weak_forecast import FEWEST, METHOD, forecast_all, forecast_columns
from hpcai.metrics.scaling.weak_tails import FEWEST_RESULTS, PUBLISHED_TAIL, Tail, Weak, fit_tail
from hpcai.mlperf_hpc.analysis.prediction_points import members_of
from hpcai.mlperf_hpc.analysis.targets import QUALITY

USED = 10
"""Instances that a forecast sees, if a result has as many more; fewer in smaller results: half of them."""
NAMES = ("origin", "submission", "benchmark")
"""What names a result."""
NO_SCORE = Message("weak_backtest.no_score", "the published result has no time for all: {why}")
TOO_FEW = Message("weak_backtest.too_few", "{n} instances count: too few to forecast some of them from others")
Row = Mapping[Any, Any]


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
        contention. How the slow tail scatters is learnt from the results of other submitters alone.
    """
    results = [result for result in weak.to_dict("records") if not result.get("same_runs_as")]
    found = [weak_result(result, runs) for result in results]
    others = {result["org"]: _without(result["org"], results, found) for result in results}
    tails = {org: fit_tail(own) for org, own in others.items() if len(own) >= FEWEST_RESULTS}
    rows = []
    for result, one in zip(results, found, strict=True):
        learnt = tails.get(result["org"])
        row = _row(result, one, learnt or PUBLISHED_TAIL)
        rows.append(row | {"tail_results": len(others[result["org"]]) if learnt and not row["reason"] else None})
    return pd.DataFrame(rows, columns=list(columns_of("mlperf_weak_backtest")))


def _without(organisation: str, results: Sequence[Row], found: Sequence[Weak | str]) -> list[Weak]:
    """Return the results in which an organisation has no part."""
    members = members_of(organisation)
    return [
        one for one, result in zip(found, results, strict=True)
        if isinstance(one, Weak) and members.isdisjoint(members_of(result["org"]))
    ]  # fmt: skip


def weak_result(result: Row, runs: pd.DataFrame) -> Weak | str:
    """Return what a forecast sees of a published result with its time for all, or why there is no forecast.

    Parameters
    ----------
    result
        A row of `mlperf_weak`.
    runs
        The table `mlperf_runs`.
    """
    if not result["time_to_train_all_s"] > 0:
        return NO_SCORE(why=result["reason"])
    own = runs[(runs[list(NAMES)] == [result[name] for name in NAMES]).all(axis=1)]
    own = own[own["scaling"].eq("weak") & own["run_s"].gt(0) & own["good_by_status"]].sort_values("number")
    used = min(USED, len(own) // 2)
    if used < FEWEST or result["benchmark"] not in QUALITY:
        return TOO_FEW(n=len(own))
    seen = own.iloc[[round(place * (len(own) - 1) / (used - 1)) for place in range(used)]]
    starts = pd.to_datetime(seen["started_utc"], utc=True)
    ends_s = (starts - starts.min()).dt.total_seconds() + seen["run_s"]
    return Weak(ends_s.tolist(), int(result["counted_instances"]), float(result["time_to_train_all_s"]))


def _row(result: Row, found: Weak | str, tail: Tail) -> dict[str, Any]:
    kept = (*NAMES, "division", "label", "instances", "counted_instances", "scale_unit", "source")
    row = {name: result[name] for name in kept}
    row |= {"published_all_s": result["time_to_train_all_s"], "method": METHOD}
    if isinstance(found, str):
        return row | {"reason": found}
    forecast = forecast_all(found.ends_s, found.instances, tail=tail)
    return row | forecast_columns(forecast, found.instances) | {
        "seen_instances": len(found.ends_s),
        "error_ratio": forecast.value / found.all_s - 1,
        "width_ratio": forecast.high / forecast.low,
        "inside": forecast.low <= found.all_s <= forecast.high,
        "tail_spread": tail.spread,
        "reason": "",
    }  # fmt: skip
