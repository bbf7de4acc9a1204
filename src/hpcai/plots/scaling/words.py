"""Tooltips of the scaling chart, and the conversion of rows to chart records."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import altair as alt
import pandas as pd

from hpcai.core.text import say_rate, say_share, say_time
from hpcai.metrics.cells import number_of

Kind = Literal["speedup", "efficiency"]
Row = Mapping[Any, Any]
TITLES: dict[Kind, str] = {"speedup": "speed-up [ratio]", "efficiency": "efficiency [ratio]"}
LAWS = {
    "amdahl": "Amdahl's law",
    "gustafson": "Gustafson's law",
    "universal": "universal scalability law",
    "karp_flatt": "serial fraction through two scales",
}
LINES: dict[str, Sequence[float]] = {
    "ideal": [6, 4],
    "law, within the measured ranks": [1, 0],
    "law, extrapolated": [1.5, 3.5],
}
"""Meaning of each line style."""
KIND_LINES = dict(zip(("interpolated", "extrapolated"), list(LINES)[1:], strict=True))

POINT_TIPS = {
    "benchmark": "benchmark", "variant": "variant", "scale": "scale", "ranks": "ranks", "regime_words": "scaling",
    "baseline": "base", "speedup_words": "speed-up", "efficiency_words": "parallel efficiency", "runs_words": "runs",
    "rate_words": "training throughput", "flop_words": "FLOP/s", "valid_words": "VFLOPS",
    "share_words": "communication, share of a step", "link_words": "bandwidth used", "step_words": "median step",
    "method_words": "method", "source_words": "raw files",
}  # fmt: skip
CURVE_TIPS = {
    "benchmark": "benchmark", "variant": "variant", "law_words": "law", "at_words": "ranks",
    "rate_words": "throughput by the law", "speedup_words": "speed-up by the law",
    "efficiency_words": "efficiency by the law",
}  # fmt: skip
TIPS_OF_POINTS = tuple(alt.Tooltip(f"{name}:N", title=title) for name, title in POINT_TIPS.items())
TIPS_OF_CURVES = tuple(alt.Tooltip(f"{name}:N", title=title) for name, title in CURVE_TIPS.items())


def point_words(points: pd.DataFrame) -> pd.DataFrame:
    """Add the points' tooltips as text: a chart would show a missing number as 0."""
    rows = points.to_dict("records")
    words: dict[str, list[str]] = {
        "regime_words": [f"{row['regime']} ({row['regime_reason']})" for row in rows],
        "speedup_words": [say_interval(row, "speedup", "_ratio", "{:.3g}".format) for row in rows],
        "efficiency_words": [say_interval(row, "efficiency", "_ratio", say_share) for row in rows],
        "runs_words": [f"{row['statistic']}; runs of the base: {row['n_baseline']}" for row in rows],
        "rate_words": [say_interval(row, "train_rate", "_samples_per_s", say_rate_of) for row in rows],
        "flop_words": [say_interval(row, "rate", "_flop_per_s", say_flop) for row in rows],
        "valid_words": [say_interval(row, "vflops", "_flop_per_s", say_flop, "score_reason") for row in rows],
        "share_words": [_one(row, "communication_share_ratio", say_share, "communication_reason") for row in rows],
        "link_words": [_link(row) for row in rows],
        "step_words": [_one(row, "step_time_median_s", say_time) for row in rows],
        "method_words": ["; ".join(filter(None, ["measured", row["method"], row["note"]])) for row in rows],
        "source_words": [_sources(row) for row in rows],
    }
    return points.assign(**words)


def curve_words(curves: pd.DataFrame) -> pd.DataFrame:
    """Add the tooltips of the drawn laws."""
    rows = curves.to_dict("records")
    words: dict[str, list[str]] = {
        "line": [KIND_LINES[row["kind"]] for row in rows],
        "law_words": [f"{LAWS[row['law']]}, {row['kind']} (modelled)" for row in rows],
        "at_words": [f"{row['ranks']:.3g}" for row in rows],
        "rate_words": [say_interval(row, "rate", "_samples_per_s", say_rate_of) for row in rows],
        "speedup_words": [say_interval(row, "speedup", "_ratio", "{:.3g}".format) for row in rows],
        "efficiency_words": [say_interval(row, "efficiency", "_ratio", say_share) for row in rows],
    }
    return curves.assign(**words)


def say_interval(
    row: Row, name: str, unit: str, words: Callable[[float], str], reason: str = "", missing: str = "not measured"
) -> str:
    """Return a value with its interval, or the reason why there is none.

    Parameters
    ----------
    name, unit
        Prefix and suffix of its column names.
    words
        Formats one number.
    reason
        Column with the reason for a missing value.
    missing
        Text for a missing value without a reason.
    """
    value, low, high = (number_of(row, f"{name}{side}{unit}") for side in ("", "_low", "_high"))
    if math.isnan(value):
        return _missing(row, reason, missing)
    return f"{words(value)} ({words(low)} to {words(high)})" if low < high else f"{words(value)} (no interval)"


def _one(row: Row, name: str, words: Callable[[float], str], reason: str = "") -> str:
    value = number_of(row, name)
    return _missing(row, reason) if math.isnan(value) else words(value)


def _missing(row: Row, reason: str, missing: str = "not measured") -> str:
    why = row.get(reason)
    return f"{missing}: {why}" if isinstance(why, str) and why else missing


def _sources(row: Row) -> str:
    names = ("score_source", "communication_source", f"bandwidth_{row.get('bandwidth_used_of')}_source")
    found = (row.get(name) for name in names)
    return ", ".join(dict.fromkeys(text for text in found if isinstance(text, str) and text)) or "see the table of runs"


def _link(row: Row) -> str:
    share = number_of(row, "bandwidth_used_ratio")
    if math.isnan(share):
        return _one(row, "bandwidth_used_ratio", say_share, "bandwidth_reason")
    which = row["bandwidth_used_of"]
    used, there = (number_of(row, f"bandwidth_{name}_bytes_per_s") for name in ("used", which))
    return f"{say_rate(used)} of {say_rate(there)} ({which}): {say_share(share)}"


def say_rate_of(samples_per_s: float) -> str:
    """Format a throughput."""
    return f"{samples_per_s:.4g} samples/s"


def say_flop(value: float) -> str:
    """Format a rate of operations."""
    return say_rate(value, "FLOP/s")


def to_records(frame: pd.DataFrame, columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Convert rows to chart records: missing values become null, numbers are rounded to six digits."""
    rows = (frame[list(dict.fromkeys(columns))] if columns else frame).to_dict("records")
    return [{str(name): _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:  # noqa: ANN401 - cells of any kind
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
