"""Memory, network and storage demands of each benchmark on this machine: Table VII of the MLPerf HPC paper."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hpcai.catalogue.points import SERIES
from hpcai.metrics.cells import records_of
from hpcai.profiles.profile import IDENTITY
from hpcai.profiles.views import as_view

WARM = "the data was in the page cache: a bandwidth of memory, not of storage"


@dataclass(frozen=True)
class Found:
    """One bandwidth [byte/s] with its tool and raw file."""

    value: float
    tool: str
    source: str


NOTHING = Found(math.nan, "", "")


def characterisation_view(views: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row per series, at its largest scale: three bandwidths, each measured or with a reason.

    Memory: DRAM bytes over kernel time (hardware counters, at the smallest scale). Network: bus bandwidth of the
    batches that carry the exchange (Horovod's timeline). I/O: mean over the workers of bytes over their own read time
    (Darshan), for data outside the page cache.
    """
    captures = views["captures"].sort_values("ranks", kind="stable")
    points = captures.drop_duplicates(SERIES, keep="last").sort_index()[list(IDENTITY)]
    return as_view("characterisation", [_row(point, views) for point in records_of(points)])


def _row(point: Mapping[str, object], views: Mapping[str, pd.DataFrame]) -> dict[str, object]:
    row = dict(point)
    found = {
        "memory": _of(views["counters"], point, "dram_rate_bytes_per_s", "counters"),
        "network": _of(views["communication"], point, "bus_bandwidth_bytes_per_s", "timeline"),
        "io": _io(views["io"], point),
    }
    for name, one in found.items():
        known = not math.isnan(one.value)
        row[f"{name}_bandwidth_bytes_per_s"] = one.value
        row[f"{name}_bandwidth_method"] = f"measured ({one.tool})" if known else ""
        row[f"{name}_bandwidth_reason"] = "" if known else _reason(views, point, name)
        row[f"{name}_bandwidth_source"] = one.source
    return row


def _of(view: pd.DataFrame, point: Mapping[str, object], column: str, tool: str) -> Found:
    own = view[_is_of(view, point)].dropna(subset=[column])
    if own.empty:
        return NOTHING
    words = {"counters": "hardware counters", "timeline": "Horovod's timeline"}
    first = own.iloc[0]
    return Found(float(first[column]), f"{words[tool]}, {first['scale']}", str(first["source"]))


def _io(view: pd.DataFrame, point: Mapping[str, object]) -> Found:
    """Return the first cold read that has a bandwidth."""
    known = view["bandwidth_sum_bytes_per_s"].notna() & (view["workers"] > 0) & (view["page_cache"] == "cold")
    own = view[_is_of(view, point) & known]
    if own.empty:
        return NOTHING
    first = own.iloc[0]
    value = float(first["bandwidth_sum_bytes_per_s"]) / float(first["workers"])
    return Found(value, f"Darshan, {first['data']}, {first['scale']}, cold", str(first["source"]))


def _is_of(view: pd.DataFrame, point: Mapping[str, object]) -> "pd.Series[bool]":
    return (view[SERIES] == [point[name] for name in SERIES]).all(axis=1)


PROFILE_OF = {"memory": "counters", "network": "timeline", "io": "io"}


def _reason(views: Mapping[str, pd.DataFrame], point: Mapping[str, object], name: str) -> str:
    captures = views["captures"]
    own = captures[_is_of(captures, point) & (captures["profile"] == PROFILE_OF[name])]
    if own.empty:
        return f"not profiled ({PROFILE_OF[name]})"
    if own["status"].iloc[0] != "measured":
        return str(own["reason"].iloc[0])
    if name != "io":
        return f"the {PROFILE_OF[name]} do not contain it"
    seen = views["io"][_is_of(views["io"], point)]
    said = "; ".join(dict.fromkeys(text for text in seen["reasons"] if isinstance(text, str)))
    return WARM if (seen["page_cache"] == "warm").all() else said or "Darshan saw no cold read of the data"
