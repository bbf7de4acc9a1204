"""Tables of the kind ``kernels``: compute time by category, and the share of the exchange overlapped by kernels."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from hpcai.catalogue.points import SERIES
from hpcai.core.errors import HpcaiError, ParseError
from hpcai.core.messages import Message
from hpcai.metrics.profiles.communication import overlap_ratio
from hpcai.metrics.profiles.kernels import categorise, kernel_breakdown, top_kernels
from hpcai.metrics.profiles.spans import merge_intervals
from hpcai.parsers.device_trace import read_device_trace
from hpcai.parsers.nsight.systems import read_nsys_kernels, read_nsys_memory
from hpcai.parsers.nvprof.reader import read_nvprof_trace
from hpcai.parsers.reading import Reading
from hpcai.parsers.rocprof import read_rocprof
from hpcai.parsers.tensorflow_profile import read_tensorflow_profile
from hpcai.profiles.counters.views import counters_of, samples_at_once
from hpcai.profiles.kernels import OPERATIONS, ROCPROF_TRACES, TENSORFLOW
from hpcai.profiles.profile import Profile
from hpcai.profiles.timeline import TIMELINE
from hpcai.profiles.timeline.views import Traffic, lanes_view, traffic_of
from hpcai.profiles.views import as_view

NOT_COMPUTING = ("input pipeline", "allreduce", "other collectives")
NO_ROCPROF = Message("kernels.no_rocprof", "{folder}: rocprofv3 left no trace; see raw/output.log")
WHOLE_RUN = Message(
    "kernels.whole_run", "rocprofv3 traces the first rank as long as it runs, not the profiled steps alone"
)
OTHER_BATCH = Message(
    "kernels.other_batch",
    "the counters are those of a micro-batch of {samples:g} samples, not {here:g}: no bytes of the kernels",
)
TOP = 25
"""Number of kernels shown by name."""


@dataclass(frozen=True)
class Kernels:
    """A kernel table, its source files, and their completeness.

    ``operations`` and ``traffic`` exist if both an operation profile and a timeline cover the same steps.
    """

    table: pd.DataFrame
    sources: tuple[Path, ...]
    coverage_ratio: float
    reasons: tuple[str, ...]
    operations: pd.DataFrame | None = None
    traffic: Traffic | None = None
    busy_ratio: float = math.nan
    """Part of the profiled time during which at least one kernel computes; NaN: the tool does not say when they ran."""

    @classmethod
    def of(cls, table: pd.DataFrame, *readings: Reading) -> "Kernels":
        """Return kernels read from several files; the least complete file determines the completeness."""
        sources = tuple(reading.source for reading in readings)
        reasons = tuple(reason for reading in readings for reason in reading.reasons)
        return cls(table, sources, min(reading.coverage_ratio for reading in readings), reasons)


@dataclass(frozen=True)
class Counted:
    """Hardware counters of each kernel, and the samples that a rank computed at once meanwhile."""

    reading: Reading
    samples: float


def kernel_views(profile: Profile, counters: Counted | None = None) -> dict[str, pd.DataFrame]:
    """Return the views ``kernels``, ``kernel_names``, ``lanes`` and ``overlap`` of one profiled run.

    The last two need operations and timeline of the same steps, from TensorFlow's profiler on processors and Horovod.

    Parameters
    ----------
    profile
        The profile with the kernel times.
    counters
        Hardware counters of the same benchmark and variant, from a separate run.
    """
    kernels = READERS[profile.capture.tool](profile)
    tool, source = profile.capture.tool, ", ".join(map(str, kernels.sources))
    shares, doubts = _with_counters(kernels, counters, samples_at_once(profile))
    shares = shares.assign(
        device_busy_ratio=kernels.busy_ratio, tool=tool, coverage_ratio=kernels.coverage_ratio,
        reasons="; ".join((*kernels.reasons, *doubts)),
    )  # fmt: skip
    names = top_kernels(kernels.table, TOP).assign(tool=tool)
    return {
        "kernels": as_view("kernels", profile.with_identity(shares, source)),
        "kernel_names": as_view("kernel_names", profile.with_identity(names, source)),
        **_together(profile, kernels),
    }


def _with_counters(kernels: Kernels, counters: Counted | None, here: float) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return the kernels by category with their counters, and what is to be said of these."""
    if counters is None:
        return kernel_breakdown(kernels.table), ()
    shares, reasons = kernel_breakdown(kernels.table, counters.reading.table), counters.reading.reasons
    if counters.samples == here:
        return shares, reasons
    # A kernel of the same name moves other bytes for another batch.
    shares[["dram_bytes", "dram_rate_bytes_per_s"]] = math.nan
    return shares, (*reasons, OTHER_BATCH(samples=counters.samples, here=here))


def _tensorflow(profile: Profile) -> Kernels:
    if profile.plan.machine.device.kind != "cpu":
        reading = read_device_trace(profile.file(OPERATIONS))  # the host's operations only start the kernels
        return Kernels.of(reading.table, reading)
    reading = read_tensorflow_profile(profile.file(OPERATIONS))
    steps = profile.profiled_steps()
    operations = _inside(reading.table, steps)
    busy_ratio = _busy_ratio(operations[_computes(operations)], float(steps["duration_s"].sum()))
    kernels = operations.groupby(["name", "kind", "device"], as_index=False).agg(
        calls=("self_s", "size"), total_s=("self_s", "sum"), min_s=("self_s", "min"), max_s=("self_s", "max")
    )
    if not profile.has(TIMELINE):
        return replace(Kernels.of(kernels, reading), busy_ratio=busy_ratio)
    traffic = traffic_of(profile, steps)
    both = Kernels.of(pd.concat([kernels, _transfers(traffic)]), reading, traffic.timeline.spans)
    return replace(both, operations=operations, traffic=traffic, busy_ratio=busy_ratio)


def _computes(operations: pd.DataFrame) -> "pd.Series[bool]":
    return ~categorise(operations["name"]).isin(NOT_COMPUTING)


def _busy_ratio(operations: pd.DataFrame, whole_s: float) -> float:
    """Return the part of a time during which at least one operation runs, on whatever thread or stream."""
    start_s = operations["start_s"].to_numpy(float)
    first, last = merge_intervals(start_s, start_s + operations["duration_s"].to_numpy(float))
    return min(float((last - first).sum()) / whole_s, 1.0) if whole_s > 0 and len(first) else math.nan


def _inside(operations: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return the operations that began within a training step."""
    starts, times = steps["start_s"].to_numpy(), operations["start_s"].to_numpy()
    number = np.searchsorted(starts, times, side="right") - 1
    within = (number >= 0) & (times < (starts + steps["duration_s"].to_numpy())[number])
    if not within.any():
        raise ParseError("TensorFlow's profile and the steps do not overlap in time; profile the steps again")
    found: pd.DataFrame = operations[within]
    return found


def _transfers(traffic: Traffic) -> pd.DataFrame:
    """Return the work of Horovod's own thread as kernels: TensorFlow's profiler sees only the request."""
    batches = traffic.messages
    row = {"name": traffic.transfer, "kind": "kernel", "device": "/host:CPU", "calls": len(batches)}
    return pd.DataFrame([{**row, "total_s": batches["duration_s"].sum()}])


def _together(profile: Profile, kernels: Kernels) -> dict[str, pd.DataFrame]:
    """Return the views that need both profiles of the same steps on the wall clock: lanes and overlap."""
    operations, traffic = kernels.operations, kernels.traffic
    if operations is None or traffic is None:
        return {"lanes": as_view("lanes", []), "overlap": as_view("overlap", [])}
    computing = operations[_computes(operations)]
    busy = computing[["name", "start_s", "duration_s"]].assign(start_s=computing["start_s"] - traffic.origin_s)
    transfer_s = traffic.messages["duration_s"].sum()
    row = {
        "overlap_ratio": overlap_ratio(traffic.messages, busy),
        "transfer_s": transfer_s,
        "steps": len(traffic.steps),
    }
    overlap = profile.with_identity(pd.DataFrame([row]), ", ".join(map(str, kernels.sources)))
    return {"overlap": as_view("overlap", overlap), "lanes": lanes_view(profile, traffic, busy)}


def _nvprof(profile: Profile) -> Kernels:
    reading = read_nvprof_trace(profile.file("nvprof_trace.csv"))
    kernels = reading.table.groupby(["name", "kind", "device"], as_index=False, dropna=False).agg(
        calls=("duration_s", "size"), total_s=("duration_s", "sum")
    )
    launched = reading.table[reading.table["kind"] == "kernel"].dropna(subset=["start_s", "duration_s"])
    # nvprof traces the window of the profiled steps alone: from its first kernel to the end of its last one.
    whole_s = (launched["start_s"] + launched["duration_s"]).max() - launched["start_s"].min()
    busy_ratio = _busy_ratio(launched[_computes(launched)], float(whole_s))
    return replace(Kernels.of(kernels, reading), busy_ratio=busy_ratio)


def _nsys(profile: Profile) -> Kernels:
    kernels = profile.files("_cuda_gpu_kern_sum.csv")
    if not kernels:
        raise ParseError(f"{profile.folder}: nsys stats wrote no cuda_gpu_kern_sum; see raw/output.log")
    copies = [read_nsys_memory(path) for path in profile.files("_cuda_gpu_mem_time_sum.csv")]
    readings = [read_nsys_kernels(kernels[0]), *copies]
    return Kernels.of(pd.concat([reading.table for reading in readings]), *readings)


def _rocprof(profile: Profile) -> Kernels:
    readings = [read_rocprof(path) for path in profile.files("_trace.csv") if path.name.endswith(ROCPROF_TRACES)]
    if not readings:
        raise ParseError(NO_ROCPROF(folder=profile.folder))
    table = pd.concat([reading.table for reading in readings])
    kernels = table.groupby(["name", "kind", "device"], as_index=False, dropna=False).agg(
        calls=("duration_s", "size"), total_s=("duration_s", "sum"), min_s=("duration_s", "min"),
        max_s=("duration_s", "max"),
    )  # fmt: skip
    launched = table[table["kind"] == "kernel"]
    # rocprofv3 has no window here: the whole run of the first rank, its warm-up and evaluation included.
    whole_s = float((launched["start_s"] + launched["duration_s"]).max() - launched["start_s"].min())
    busy_ratio = _busy_ratio(launched[_computes(launched)], whole_s)
    made = replace(Kernels.of(kernels, *readings), busy_ratio=busy_ratio)
    return replace(made, reasons=(*made.reasons, WHOLE_RUN()))


READERS: dict[str, Callable[[Profile], Kernels]] = {
    TENSORFLOW: _tensorflow,
    "nvprof": _nvprof,
    "Nsight Systems": _nsys,
    "rocprofv3": _rocprof,
}
"""How each tool's raw files become a kernel table."""


def _key(profile: Profile) -> tuple[str, ...]:
    return tuple(getattr(profile.plan.point, name) for name in SERIES)


def gather_counters(profiles: Iterable[Profile]) -> dict[tuple[str, ...], Counted]:
    """Return the readable counters of each benchmark, variant and engine."""
    found = {}
    for profile in profiles:
        try:
            reading = counters_of(profile) if profile.capture.status == "measured" else None
        except HpcaiError:  # reported in the row of the counters' capture
            continue
        if reading is not None:
            found[_key(profile)] = Counted(reading, samples_at_once(profile))
    return found


def views_with_counters(profile: Profile, counters: Mapping[tuple[str, ...], Counted]) -> dict[str, pd.DataFrame]:
    """Return the views of a profiled run, with the counters of its benchmark, variant and engine, if there are any."""
    return kernel_views(profile, counters.get(_key(profile)))
