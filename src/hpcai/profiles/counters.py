"""The kind ``counters``: work, memory traffic and instructions per cycle of a profiled run from hardware counters."""

import math
import subprocess
from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from hpcai.config.runs import RunPlan
from hpcai.metrics.profiles.counters import counted_flop, counted_work, counters_per_kernel
from hpcai.metrics.profiles.tensor_cores import architecture_of
from hpcai.parsers.nsight.compute import read_ncu
from hpcai.parsers.nvprof.reader import read_nvprof_counters
from hpcai.parsers.perf_stat import read_perf_stat
from hpcai.parsers.reading import Reading
from hpcai.profiles.instrument import Instrument, Missing, compute_capability, tool_on_path
from hpcai.profiles.kind import Kind
from hpcai.profiles.profile import Profile
from hpcai.profiles.views import as_view

NVPROF_METRICS = (
    "flop_count_hp,flop_count_sp,flop_count_dp,dram_read_transactions,dram_write_transactions,ipc,"
    "tensor_precision_fu_utilization"
)
NCU_METRICS = ",".join(
    (
        "gpu__time_duration.sum",
        "sm__cycles_elapsed.avg",
        "sm__cycles_elapsed.avg.per_second",
        "sm__inst_executed.avg.per_cycle_active",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        *(f"sm__sass_thread_inst_executed_op_{kind}{op}_pred_on.sum" for kind in "fhd" for op in ("add", "mul", "fma")),
        "sm__inst_executed_pipe_tensor.sum",
        "regex:sm__ops_path_tensor_.*sum$",
    )
)
PERF_EVENTS = "task-clock,cycles,instructions,cache-references,cache-misses"


def counter_views(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the view ``counters`` of one profiled run: all kernels of the profiled steps on rank 0.

    perf instead counts the whole process of rank 0, as noted in its row.
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


def _samples(profile: Profile) -> float:
    """Return the number of samples on which rank 0 trained while profiled; its share if ranks share samples."""
    return len(profile.profiled_steps()) * profile.plan.local_batch / profile.plan.point.spatial_parts


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


def _perf_row(reading: Reading) -> dict[str, object]:
    """Return instructions per cycle of the whole process; perf's generic events cover neither work nor DRAM traffic."""
    events = reading.table["event"].str.partition(":")[0]  # for ordinary users the event is cycles:u
    values = reading.table.groupby(events)["value"].sum(min_count=1)
    reasons = [PERF, *reading.reasons]
    return {
        "instructions_per_cycle": values.get("instructions", math.nan) / values.get("cycles", math.nan),
        "reasons": "; ".join(reasons),
    }


def _find(plan: RunPlan) -> Instrument | Missing:
    wanted = plan.machine.profilers.counters
    if plan.machine.device.kind == "cpu":
        return _perf() if wanted in ("auto", "perf") else Missing(f"{wanted} needs an accelerator")
    if wanted == "perf":
        return _perf()
    capability = compute_capability()  # determines the meaning of the counters
    if isinstance(capability, Missing):
        return capability
    name = ("nvprof" if capability < 7.5 else "ncu") if wanted == "auto" else wanted
    found = {"nvprof": _nvprof_metrics, "ncu": _ncu}[name]()
    return found if isinstance(found, Missing) else replace(found, compute_capability=f"{capability:.1f}")


def _nvprof_metrics() -> Instrument | Missing:
    program = tool_on_path("nvprof")
    if isinstance(program, Missing):
        return program
    options = ("--profile-from-start", "off", "--metrics", NVPROF_METRICS, "--csv")
    prefix = (program, *options, "--log-file", "{raw}/nvprof_metrics.csv")
    return Instrument("nvprof", ("nvprof_metrics.csv",), first_rank_prefix=prefix, step_profiler="cuda")


def _ncu() -> Instrument | Missing:
    program = tool_on_path("ncu")
    if isinstance(program, Missing):
        return program
    window = ("--profile-from-start", "off", "--target-processes", "all")
    # A replayed exchange would wait for ranks that do not repeat theirs.
    chosen = ("--metrics", NCU_METRICS, "--kernel-name", "regex:^(?!.*nccl)")
    form = ("--csv", "--page", "raw", "--print-units", "base", "--log-file", "{raw}/ncu.csv")
    prefix = ("env", "LC_ALL=C", program, *window, *chosen, *form)
    return Instrument("Nsight Compute", ("ncu.csv",), first_rank_prefix=prefix, step_profiler="cuda")


def _perf() -> Instrument | Missing:
    program = tool_on_path("perf")
    if isinstance(program, Missing):
        return program
    probe = subprocess.run(
        [program, "stat", "-x,", "-e", "instructions", "true"], capture_output=True, text=True, check=False
    )
    if "<not supported>" in probe.stderr:
        return Missing("perf finds no instruction counter on this machine (common in virtual machines)")
    if probe.returncode or "<not counted>" in probe.stderr:
        return Missing(f"perf counts no instructions here: {' '.join(probe.stderr.split())[:200]}")
    prefix = (program, "stat", "-x,", "-e", PERF_EVENTS, "-o", "{raw}/perf.csv")
    return Instrument("perf", ("perf.csv",), first_rank_prefix=prefix)


# Tools that replay kernels cannot replay an exchange, so they run at the smallest scale.
PROFILE = Kind(
    place=3,
    tables=("counters",),
    setting="counters",
    smallest_scale=True,
    find_instrument=_find,
    read=counter_views,
)
