"""The kind ``counters``: work, memory traffic and instructions per cycle of a profiled run from hardware counters."""

import math
from collections.abc import Callable
from dataclasses import replace

import pandas as pd

from hpcai.config.runs import RunPlan
from hpcai.metrics.profiles.counters import counted_flop, counted_work, counters_per_kernel
from hpcai.metrics.profiles.tensor_cores import architecture_of
from hpcai.parsers.likwid import read_likwid
from hpcai.parsers.nsight.compute import read_ncu
from hpcai.parsers.nvprof.reader import read_nvprof_counters
from hpcai.parsers.perf_stat import read_perf_stat
from hpcai.parsers.reading import Reading
from hpcai.profiles.instrument import Instrument, Missing, compute_capability, tool_on_path
from hpcai.profiles.kind import Kind
from hpcai.profiles.processor_counters import find_likwid, find_perf, likwid_row, perf_row
from hpcai.profiles.profile import Profile
from hpcai.profiles.views import as_view

NVPROF_METRICS = (
    "flop_count_hp,flop_count_sp,flop_count_dp,dram_read_transactions,dram_write_transactions,ipc,"
    "tensor_precision_fu_utilization,dram_utilization,achieved_occupancy,gld_efficiency,gst_efficiency"
)
NCU_METRICS = ",".join(
    (
        "gpu__time_duration.sum",
        "sm__cycles_elapsed.avg",
        "sm__cycles_elapsed.avg.per_second",
        "sm__inst_executed.avg.per_cycle_active",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
        *(f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.pct" for op in ("ld", "st")),
        *(f"sm__sass_thread_inst_executed_op_{kind}{op}_pred_on.sum" for kind in "fhd" for op in ("add", "mul", "fma")),
        "sm__inst_executed_pipe_tensor.sum",
        "regex:sm__ops_path_tensor_.*sum$",
    )
)


def counter_views(profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the view ``counters`` of one profiled run: of the profiled steps on rank 0.

    On accelerators that is all kernels; perf counts the process, and LIKWID the cores for as long as the rank ran.
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
        row = likwid_row(reading)
    else:
        reading = READERS[tool](profile)
        row = _kernel_row(reading, profile.capture.compute_capability)
    if tool != "LIKWID":
        row["flop_per_sample"] = float(str(row["work_flop"])) / _samples(profile)
    row = {**row, "tool": tool, "coverage_ratio": reading.coverage_ratio}
    return {"counters": as_view("counters", profile.with_identity(pd.DataFrame([row]), reading.source))}


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


def _find(plan: RunPlan) -> Instrument | Missing:
    wanted = plan.machine.profilers.counters
    if wanted in ("perf", "likwid"):
        return find_perf() if wanted == "perf" else find_likwid(plan)
    if plan.machine.device.kind == "cpu":
        return _of_processor(plan) if wanted == "auto" else Missing(f"{wanted} needs an accelerator")
    capability = compute_capability()  # the meaning of the counters depends on it
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


def _of_processor(plan: RunPlan) -> Instrument | Missing:
    """Return perf, or LIKWID where perf counts no memory traffic and LIKWID is there."""
    perf = find_perf()
    if isinstance(perf, Instrument) and "perf_memory.csv" in " ".join(perf.first_rank_prefix):
        return perf
    likwid = find_likwid(plan)
    return perf if isinstance(likwid, Missing) else likwid


# Tools that replay kernels cannot replay an exchange, so they run at the smallest scale.
PROFILE = Kind(
    place=3,
    tables=("counters",),
    setting="counters",
    smallest_scale=True,
    find_instrument=_find,
    read=counter_views,
)
