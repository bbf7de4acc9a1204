"""The kind ``kernels``: compute time by category, and the share of the exchange overlapped by kernels."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.config.runs import RunPlan
from hpcai.profiles.instrument import Instrument, Missing, compute_capability, tool_on_path
from hpcai.profiles.kind import Kind
from hpcai.profiles.timeline import TIMELINE, TIMELINE_ENVIRONMENT

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.profiles.profile import Profile

TENSORFLOW = "TensorFlow profiler"
OPERATIONS = "steps.xplane.pb"
TRACES = (OPERATIONS, TIMELINE)
ROCPROF_TRACES = ("_kernel_trace.csv", "_memory_copy_trace.csv")
ROCPROF = (
    'raw=$1; shift; exec "$0" --kernel-trace --memory-copy-trace --output-format csv '
    '--output-directory "$raw" --output-file rocprof -- "$@"'
)


def _find(plan: RunPlan) -> Instrument | Missing:
    wanted = plan.machine.profilers.kernels
    if plan.point.engine == "jax" and (plan.machine.device.kind == "cpu" or wanted == "tensorflow"):
        return Missing("engine jax: TensorFlow's profiler sees no operation of XLA; nsys does, on an accelerator")
    if plan.machine.device.kind == "cpu":
        here = Instrument(TENSORFLOW, TRACES, environment=_exchange(plan), step_profiler="tensorflow")
        return here if wanted in ("auto", "tensorflow") else Missing(f"{wanted} needs an accelerator")
    if wanted == "tensorflow":
        # Its trace has the kernels of the accelerator; the exchange is among them where NCCL does it.
        return Instrument(TENSORFLOW, (OPERATIONS,), step_profiler="tensorflow")
    if wanted == "auto":
        capability = compute_capability()
        if isinstance(capability, Missing):
            return capability
        wanted = "nvprof" if capability < 8.0 else "nsys"
    return {"nvprof": _nvprof_around, "nsys": _nsys_around, "rocprofv3": _rocprof_around}[wanted]()


def _exchange(plan: RunPlan) -> Mapping[str, str]:
    """Request Horovod's timeline of the same steps: TensorFlow's profiler sees only the start of an exchange."""
    return TIMELINE_ENVIRONMENT if plan.point.ranks > 1 and plan.point.engine == USUAL_ENGINE else {}


def _nvprof_around() -> Instrument | Missing:
    program = tool_on_path("nvprof")
    if isinstance(program, Missing):
        return program
    options = ("--profile-from-start", "off", "--print-gpu-trace", "--csv", "--log-file", "{raw}/nvprof_trace.csv")
    return Instrument("nvprof", ("nvprof_trace.csv",), first_rank_prefix=(program, *options), step_profiler="cuda")


def _nsys_around() -> Instrument | Missing:
    program = tool_on_path("nsys")
    if isinstance(program, Missing):
        return program
    window = ("--capture-range=cudaProfilerApi", "--capture-range-end=stop")
    prefix = (program, "profile", "--trace=cuda", *window, "--output={raw}/kernels")
    stats = ("stats", "--report", "cuda_gpu_kern_sum,cuda_gpu_mem_time_sum", "--format", "csv", "--output", "nsys")
    return Instrument(
        "Nsight Systems",
        ("nsys*.csv",),
        first_rank_prefix=prefix,
        step_profiler="cuda",
        afterwards=((program, *stats, "kernels.nsys-rep"),),
    )


def _rocprof_around() -> Instrument | Missing:
    program = tool_on_path("rocprofv3")
    if isinstance(program, Missing):
        return program
    # A shell puts in rocprofv3's own "--": the first one of the prefix ends the tool.
    prefix = ("sh", "-c", ROCPROF, program, "{raw}")
    return Instrument("rocprofv3", tuple(f"rocprof{ending}" for ending in ROCPROF_TRACES), first_rank_prefix=prefix)


def _gather(profiles: "Iterable[Profile]") -> Any:  # noqa: ANN401  what its reader wants
    from hpcai.profiles.kernels.views import gather_counters

    return gather_counters(profiles)


def _read(profile: "Profile", counters: Any) -> "dict[str, pd.DataFrame]":  # noqa: ANN401
    from hpcai.profiles.kernels.views import views_with_counters

    return views_with_counters(profile, counters)


PROFILE = Kind(
    place=2,
    tables=("kernels", "kernel_names", "lanes", "overlap"),
    setting="kernels",
    also="counters",
    find_instrument=_find,
    read=_read,
    gather=_gather,
)
