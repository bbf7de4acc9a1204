"""Where a profiled run's computing time went: kernels by category, and how much of the exchange they hid."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from hpcai.characterise.profile import Profile
from hpcai.characterise.timeline_views import Traffic, lanes_view, traffic_of
from hpcai.characterise.views import as_view
from hpcai.config.runs import WARM_STEPS
from hpcai.errors import ParseError
from hpcai.metrics.communication import overlap_ratio
from hpcai.metrics.kernels import categorise, kernel_breakdown, top_kernels
from hpcai.parsers.nsight.systems import read_nsys_kernels, read_nsys_memory
from hpcai.parsers.nvprof.reader import read_nvprof_trace
from hpcai.parsers.tensorflow_profile import read_tensorflow_profile

Kernels = tuple[pd.DataFrame, Path]
NOT_COMPUTING = ("input pipeline", "allreduce", "other collectives")
TOP = 25
"""Kernels that are shown by name."""


def kernel_views(profile: Profile, counters: pd.DataFrame | None = None) -> dict[str, pd.DataFrame]:
    """Return the views ``kernels``, ``kernel_names``, ``lanes`` and ``overlap`` of one profiled run.

    The last two need operations and timeline of the same steps, which TensorFlow's profiler and Horovod give.

    Parameters
    ----------
    profile
        Times of kernels.
    counters
        Hardware counters of the same benchmark and variant, from a run of their own.
    """
    kernels, source = READERS[profile.capture.tool](profile)
    tool = profile.capture.tool
    shares = kernel_breakdown(kernels, counters).assign(tool=tool)
    names = top_kernels(kernels, TOP).assign(tool=tool)
    return {
        "kernels": as_view("kernels", profile.with_identity(shares, source)),
        "kernel_names": as_view("kernel_names", profile.with_identity(names, source)),
        **_together(profile),
    }


def _operations(profile: Profile) -> pd.DataFrame:
    """Return the operations of the profiled steps; the first steps were not profiled."""
    table = read_tensorflow_profile(profile.file("steps.xplane.pb")).table
    return _inside(table, profile.steps().iloc[WARM_STEPS:])


def _tensorflow(profile: Profile) -> Kernels:
    operations = _operations(profile)
    kernels = operations.groupby(["name", "kind", "device"], as_index=False).agg(
        calls=("self_s", "size"), total_s=("self_s", "sum"), min_s=("self_s", "min"), max_s=("self_s", "max")
    )
    timed = [kernels] if profile.plan.point.ranks == 1 else [kernels, _transfers(traffic_of(profile, WARM_STEPS))]
    return pd.concat(timed), profile.file("steps.xplane.pb")


def _inside(operations: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    """Return the operations that began within a training step."""
    starts, times = steps["start_s"].to_numpy(), operations["start_s"].to_numpy()
    number = np.searchsorted(starts, times, side="right") - 1
    within = (number >= 0) & (times < (starts + steps["duration_s"].to_numpy())[number])
    if not within.any():
        raise ParseError("TensorFlow's profile and the steps have no moment in common; profile the steps again")
    found: pd.DataFrame = operations[within]
    return found


def _transfers(traffic: Traffic) -> pd.DataFrame:
    """Return what Horovod's own thread did, as kernels: TensorFlow's profiler sees only that it was asked to."""
    batches = traffic.messages
    row = {"name": traffic.transfer, "kind": "kernel", "device": "/host:CPU", "calls": len(batches)}
    return pd.DataFrame([{**row, "total_s": batches["duration_s"].sum()}])


def _together(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return what needs both views of the same steps, on the wall clock: lanes and overlap."""
    if profile.capture.tool != "TensorFlow profiler" or not profile.has("timeline.json"):
        return {"lanes": as_view("lanes", []), "overlap": as_view("overlap", [])}
    traffic, operations = traffic_of(profile, WARM_STEPS), _operations(profile)
    computing = operations[~categorise(operations["name"]).isin(NOT_COMPUTING)]
    busy = computing[["name", "start_s", "duration_s"]].assign(start_s=computing["start_s"] - traffic.origin_s)
    transfer_s = traffic.messages["duration_s"].sum()
    row = {
        "overlap_ratio": overlap_ratio(traffic.messages, busy),
        "transfer_s": transfer_s,
        "steps": len(traffic.steps),
    }
    overlap = profile.with_identity(pd.DataFrame([row]), profile.file("timeline.json"))
    return {"overlap": as_view("overlap", overlap), "lanes": lanes_view(profile, traffic, busy)}


def _nvprof(profile: Profile) -> Kernels:
    launches = read_nvprof_trace(profile.file("nvprof_trace.csv")).table
    kernels = launches.groupby(["name", "kind", "device"], as_index=False, dropna=False).agg(
        calls=("duration_s", "size"), total_s=("duration_s", "sum")
    )
    return kernels, profile.file("nvprof_trace.csv")


def _nsys(profile: Profile) -> Kernels:
    kernels = profile.files("_cuda_gpu_kern_sum.csv")
    copies = profile.files("_cuda_gpu_mem_time_sum.csv")
    if not kernels:
        raise ParseError(f"{profile.folder}: nsys stats wrote no cuda_gpu_kern_sum; see raw/output.log")
    tables = [read_nsys_kernels(kernels[0]).table, *(read_nsys_memory(path).table for path in copies)]
    return pd.concat(tables), kernels[0]


READERS: dict[str, Callable[[Profile], Kernels]] = {
    "TensorFlow profiler": _tensorflow,
    "nvprof": _nvprof,
    "Nsight Systems": _nsys,
}
"""By tool, how its raw files become a table of kernels, and the file that it stands on."""
