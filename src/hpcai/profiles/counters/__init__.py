"""The kind ``counters``: work, memory traffic and instructions per cycle of a profiled run from hardware counters."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hpcai.config.runs import RunPlan
from hpcai.core.messages import Message
from hpcai.profiles.counters.processor import find_likwid, find_perf
from hpcai.profiles.instrument import Instrument, Missing, compute_capability, tool_on_path
from hpcai.profiles.kind import Kind

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.profiles.profile import Profile

OF_THE_HOST = Message(
    "counters.of_the_host",
    "{tool} counts the processors of the host, but accelerators compute: name nvprof or ncu, or leave it to auto",
)
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


def _find(plan: RunPlan) -> Instrument | Missing:
    wanted = plan.machine.profilers.counters
    if wanted in ("perf", "likwid"):
        if plan.machine.device.kind != "cpu":
            return Missing(OF_THE_HOST(tool=wanted))
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
    # Counters at the clocks of the training: by default it would set the GPU's base clock.
    window = ("--profile-from-start", "off", "--target-processes", "all", "--clock-control", "none")
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


def _read(profile: "Profile") -> "dict[str, pd.DataFrame]":
    from hpcai.profiles.counters.views import counter_views

    return counter_views(profile)


# Tools that replay kernels cannot replay an exchange, so they run at the smallest scale.
PROFILE = Kind(
    place=3,
    tables=("counters",),
    setting="counters",
    smallest_scale=True,
    find_instrument=_find,
    read=_read,
)
