"""What each benchmark asks of memory, network and storage on this machine: Table VII of the MLPerf HPC paper."""

import math
from collections.abc import Mapping

import pandas as pd

from hpcai.characterise.profile import IDENTITY
from hpcai.characterise.views import as_view, records_of

MEASURED = "measured"
WARM = "the data lay in the page cache: a bandwidth of memory, not of storage"


def characterisation_view(views: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return a row per benchmark and variant, at its largest scale: three bandwidths, each measured or with a reason.

    Memory: bytes to and from DRAM over the time of the kernels (hardware counters, at the smallest scale). Network:
    bus bandwidth of the allreduce, total bytes over total time (Horovod's timeline). I/O: mean over the workers of
    bytes over their own read time (Darshan), of data that did not lie in the page cache.
    """
    captures = views["captures"].sort_values("ranks", kind="stable")
    points = captures.drop_duplicates(["benchmark", "variant"], keep="last").sort_index()[list(IDENTITY)]
    return as_view("characterisation", [_row(point, views) for point in records_of(points)])


def _row(point: Mapping[str, object], views: Mapping[str, pd.DataFrame]) -> dict[str, object]:
    row = dict(point)
    found = {
        "memory": _of(views["counters"], point, "dram_rate_bytes_per_s", "counters"),
        "network": _of(views["communication"], point, "bus_bandwidth_bytes_per_s", "timeline"),
        "io": _io(views["io"], point),
    }
    for name, (value, tool) in found.items():
        known = not math.isnan(value)
        row[f"{name}_bandwidth_bytes_per_s"] = value
        row[f"{name}_bandwidth_method"] = f"{MEASURED} ({tool})" if known else ""
        row[f"{name}_bandwidth_reason"] = "" if known else _reason(views, point, name)
    return row


def _of(view: pd.DataFrame, point: Mapping[str, object], column: str, tool: str) -> tuple[float, str]:
    own = view[_is_of(view, point)]
    words = {"counters": "hardware counters", "timeline": "Horovod's timeline"}
    return (float(own[column].iloc[0]), f"{words[tool]}, {own['scale'].iloc[0]}") if len(own) else (math.nan, "")


def _io(view: pd.DataFrame, point: Mapping[str, object]) -> tuple[float, str]:
    own = view[_is_of(view, point) & (view["page_cache"] == "cold")]
    if own.empty:
        return math.nan, ""
    first = own.iloc[0]
    return float(first["bandwidth_sum_bytes_per_s"]) / float(first["workers"]), f"Darshan, {first['data']}, cold"


def _is_of(view: pd.DataFrame, point: Mapping[str, object]) -> "pd.Series[bool]":
    return (view["benchmark"] == point["benchmark"]) & (view["variant"] == point["variant"])


PROFILE_OF = {"memory": "counters", "network": "timeline", "io": "io"}


def _reason(views: Mapping[str, pd.DataFrame], point: Mapping[str, object], name: str) -> str:
    captures = views["captures"]
    own = captures[_is_of(captures, point) & (captures["profile"] == PROFILE_OF[name])]
    if own.empty:
        return f"not profiled ({PROFILE_OF[name]})"
    if own["status"].iloc[0] != "measured":
        return str(own["reason"].iloc[0])
    return WARM if name == "io" else f"the {PROFILE_OF[name]} do not tell it"
