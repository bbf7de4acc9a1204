"""Hardware counters of a profiled run: work, memory traffic and instructions per cycle."""

import math
from collections.abc import Callable

import pandas as pd

from hpcai.metrics.profiles.counters import counted_flop, counted_work, counters_per_kernel
from hpcai.metrics.profiles.tensor_cores import architecture_of
from hpcai.parsers.nsight.compute import read_ncu
from hpcai.parsers.nvprof.reader import read_nvprof_counters
from hpcai.parsers.perf_stat import read_perf_stat
from hpcai.parsers.reading import Reading
from hpcai.profiles.profile import Profile
from hpcai.profiles.views import as_view


def counter_views(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the view ``counters`` of one profiled run: all kernels of the profiled steps on rank 0.

    perf counts the whole process of rank 0 instead, as its row says.
    """
    if profile.capture.tool == "perf":
        reading = read_perf_stat(profile.file("perf.csv"))
        row = _perf_row(reading)
    else:
        reading = READERS[profile.capture.tool](profile)
        row = _kernel_row(reading, profile.capture.compute_capability)
        row["flop_per_sample"] = float(str(row["work_flop"])) / _samples(profile)
    row = {**row, "tool": profile.capture.tool, "coverage_ratio": reading.coverage_ratio}
    return {"counters": as_view("counters", profile.with_identity(pd.DataFrame([row]), reading.source))}


PERF = (
    "perf counted the whole process, imports and compilation included, and its generic events count neither "
    "floating-point work nor memory traffic"
)


def _samples(profile: Profile) -> int:
    """Return the samples that rank 0 trained on while it was profiled."""
    return len(profile.profiled_steps()) * profile.plan.local_batch


def counters_of(profile: Profile) -> Reading | None:
    """Return the counters of each kernel; None for a tool that does not tell kernels apart."""
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


def _perf_row(reading: Reading) -> dict[str, object]:
    """Return instructions per cycle of the whole process; perf's generic events count neither work nor DRAM traffic."""
    events = reading.table["event"].str.partition(":")[0]  # an ordinary user counts cycles:u
    values = reading.table.groupby(events)["value"].sum(min_count=1)
    reasons = [PERF, *reading.reasons]
    return {
        "instructions_per_cycle": values.get("instructions", math.nan) / values.get("cycles", math.nan),
        "reasons": "; ".join(reasons),
    }
