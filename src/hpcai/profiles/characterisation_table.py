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
    """One bandwidth [byte/s] with the tool that told it, its raw file, and whether it was measured or modelled."""

    value: float
    tool: str
    source: str
    method: str = "measured"


NOTHING = Found(math.nan, "", "")
MODELLED = "operands and results of the optimised HLO, times the timed samples/s, per rank"


def characterisation_view(views: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return one row per series, at its largest scale: three bandwidths, each measured or with a reason.

    Memory: bytes to and from DRAM over the time of the kernels or steps (hardware counters, at the smallest scale);
    where they count none, what the instructions of the compiled step read and write, at the rate of the timed runs,
    labelled as modelled. Network: bus bandwidth of the batches that carry the exchange (Horovod's timeline). I/O: mean
    over the workers of bytes over their own read time (the tool is named), of data that did not lie in the page cache.
    """
    captures = views["captures"].sort_values("ranks", kind="stable")
    points = captures.drop_duplicates(SERIES, keep="last").sort_index()[list(IDENTITY)]
    return as_view("characterisation", [_row(point, views) for point in records_of(points)])


def _row(point: Mapping[str, object], views: Mapping[str, pd.DataFrame]) -> dict[str, object]:
    row = dict(point)
    counted = _of(views["counters"], point, "dram_rate_bytes_per_s", "counters")
    found = {
        "memory": _modelled(views["work"], point) if math.isnan(counted.value) else counted,
        "network": _of(views["communication"], point, "bus_bandwidth_bytes_per_s", "timeline"),
        "io": _io(views["io"], point),
    }
    for name, one in found.items():
        known = not math.isnan(one.value)
        row[f"{name}_bandwidth_bytes_per_s"] = one.value
        row[f"{name}_bandwidth_method"] = f"{one.method} ({one.tool})" if known else ""
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


def _modelled(work: pd.DataFrame, point: Mapping[str, object]) -> Found:
    """Return the bytes that the instructions of the compiled step move, times the samples per second of a rank.

    Each instruction's operands and results count once: what caches keep from one instruction to the next never reaches
    DRAM, and what an instruction reads again is not counted.
    """
    own = work[_is_of(work, point) & (work["scale"] == point["scale"]) & (work["memory_method"] == "modelled")]
    own = own.dropna(subset=["memory_bytes_per_sample", "train_rate_samples_per_s"])
    if own.empty:
        return NOTHING
    first = own.iloc[0]
    rate = float(first["memory_bytes_per_sample"]) * float(first["train_rate_samples_per_s"])
    return Found(rate / int(str(point["ranks"])), MODELLED, str(first["source"]), "modelled")


def _io(view: pd.DataFrame, point: Mapping[str, object]) -> Found:
    """Return the first cold read that has a bandwidth."""
    known = view["bandwidth_sum_bytes_per_s"].notna() & (view["workers"] > 0) & (view["page_cache"] == "cold")
    own = view[_is_of(view, point) & known]
    if own.empty:
        return NOTHING
    first = own.iloc[0]
    value = float(first["bandwidth_sum_bytes_per_s"]) / float(first["workers"])
    return Found(value, f"{first['tool']}, {first['data']}, {first['scale']}, cold", str(first["source"]))


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
    return WARM if (seen["page_cache"] == "warm").all() else said or "no cold read of the data was seen"
