"""Tables of the kind ``counters``: work, memory traffic and instructions per cycle of a profiled run."""

import math
from collections.abc import Callable

import pandas as pd

from hpcai.metrics.profiles.counters import counted_flop, counted_work, counters_per_kernel
from hpcai.metrics.profiles.tensor_cores import architecture_of
from hpcai.parsers.likwid import read_likwid
from hpcai.parsers.nsight.compute import read_ncu
from hpcai.parsers.nvprof.reader import read_nvprof_counters
from hpcai.parsers.perf_stat import read_perf_stat
from hpcai.parsers.reading import Reading
from hpcai.profiles.counters.processor import likwid_row, perf_row
from hpcai.profiles.profile import Profile
from hpcai.profiles.views import as_view


def counter_views(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the view ``counters`` of one profiled run: of the profiled steps on rank 0.

    On accelerators that is all kernels; perf counts the process, and LIKWID the cores for as long as the rank ran, so
    that it tells nothing per sample.
    """
    tool = profile.capture.tool
    if tool == "perf":
        reading = read_perf_stat(profile.file("perf.csv"))
        memory = read_perf_stat(profile.file("perf_memory.csv")) if profile.has("perf_memory.csv") else None
        window_s = float(profile.profiled_steps()["duration_s"].sum())
        row = perf_row(reading, memory, window_s, profile.plan.point.ranks_per_node)
        row["reasons"] = "; ".join(filter(None, (str(row["reasons"]), profile.capture.missing)))
    elif tool == "LIKWID":
        reading = read_likwid(profile.file("likwid.csv"))
        row = likwid_row(reading, profile.plan.point.ranks_per_node)
    else:
        reading = READERS[tool](profile)
        row = _kernel_row(reading, profile.capture.compute_capability)
    if tool != "LIKWID":
        row["flop_per_sample"] = float(str(row["work_flop"])) / _samples(profile)
        row["memory_bytes_per_sample"] = float(str(row["dram_bytes"])) / _samples(profile)
    row |= {"tool": tool, "micro_batch_samples": samples_at_once(profile), "coverage_ratio": reading.coverage_ratio}
    return {"counters": as_view("counters", profile.with_identity(pd.DataFrame([row]), reading.source))}


def _samples(profile: Profile) -> float:
    """Return the number of samples on which rank 0 trained while profiled; its share if ranks share samples."""
    return len(profile.profiled_steps()) * profile.plan.local_batch / profile.plan.point.spatial_parts


def samples_at_once(profile: Profile) -> float:
    """Return the samples whose gradients a rank computes at once; its share if ranks share samples."""
    return profile.plan.micro_batch / profile.plan.point.spatial_parts


def counters_of(profile: Profile) -> Reading | None:
    """Return the counters of each kernel; None for a tool that does not distinguish kernels."""
    reader = READERS.get(profile.capture.tool)
    return reader(profile) if reader else None


READERS: dict[str, Callable[[Profile], Reading]] = {
    "nvprof": lambda profile: read_nvprof_counters(profile.file("nvprof_metrics.csv")),
    "Nsight Compute": lambda profile: read_ncu(profile.file("ncu.csv")),
}


def _kernel_row(reading: Reading, compute_capability: str) -> dict[str, object]:
    architecture = architecture_of(compute_capability)
    work, flop = counted_work(reading.table, architecture), counted_flop(reading.table, architecture)
    kernels = counters_per_kernel(reading.table)
    return {
        "work_flop": work.work_flop,
        "duration_s": work.time_s,
        "rate_flop_per_s": work.rate_flop_per_s,
        "dram_bytes": work.dram_bytes,
        "dram_rate_bytes_per_s": work.dram_rate_bytes_per_s,
        "instructions_per_cycle": kernels["instructions_per_cycle"].mean() if len(kernels) == 1 else math.nan,
        "intensity_flop_per_byte": work.intensity_flop_per_byte,
        "reasons": "; ".join((*flop.notes, *reading.reasons)),
    }
