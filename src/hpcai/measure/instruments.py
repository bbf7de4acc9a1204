"""Which tool looks into a profiled run, whether it is here, and how it is put around the ranks."""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from hpcai.config.runs import ProfileKind, RunPlan
from hpcai.measure.darshan_library import find_darshan, prepare_darshan
from hpcai.measure.power import find_power_meters, metered
from hpcai.records.run import InstrumentFacts

StepProfiler = Literal["none", "tensorflow", "cuda"]
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


@dataclass(frozen=True)
class Missing:
    """Why nothing can be measured, in words that complete "not measured: "."""

    reason: str


@dataclass(frozen=True)
class Instrument:
    """One tool around the ranks of a profiled run.

    In its texts ``{raw}`` stands for the attempt's folder and ``{job}`` for a number of its own.

    Attributes
    ----------
    tool
        Name of the tool, as the reports show it.
    raw
        Patterns of the files, below the attempt's folder, that the tool leaves behind; the first must match.
    prefix
        Command put before every rank's program.
    first_rank_prefix
        Command put before the program of the first rank only.
    environment
        Variables of the launcher and so of all ranks.
    step_profiler
        What a rank starts and stops around the profiled steps.
    before
        What is to be done first, given the attempt's folder and the folders of the data.
    beside
        What goes on in this process while the ranks run, given the attempt's folder.
    afterwards
        Commands that turn what the tool left into text; run in the attempt's folder.
    compute_capability
        Of the accelerator, on which the meaning of counters depends; blank on processors.
    """

    tool: str
    raw: tuple[str, ...] = ()
    prefix: tuple[str, ...] = ()
    first_rank_prefix: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    step_profiler: StepProfiler = "none"
    before: Callable[[Path, Sequence[Path]], None] = lambda *_: None
    beside: Callable[[Path], AbstractContextManager[object]] = lambda _: nullcontext()
    afterwards: tuple[tuple[str, ...], ...] = ()
    compute_capability: str = ""

    def wrap(self, program: Sequence[str], attempt: Path) -> list[str]:
        """Return the program of a rank with the tool around it."""
        first = (sys.executable, "-m", "hpcai.training.first_rank", *self.first_rank_prefix, "--")
        prefix = (*self.prefix, *(first if self.first_rank_prefix else ()))
        return [*(_filled(word, attempt) for word in prefix), *program]

    @property
    def wraps(self) -> bool:
        """Whether the tool has processes of its own around the ranks."""
        return bool(self.prefix or self.first_rank_prefix)

    def variables(self, attempt: Path) -> dict[str, str]:
        """Return the variables of the launcher."""
        return {name: _filled(value, attempt) for name, value in self.environment.items()}

    @property
    def facts(self) -> InstrumentFacts:
        """What is written into the raw folder of a run."""
        return InstrumentFacts(tool=self.tool, raw=self.raw, compute_capability=self.compute_capability)

    def finish(self, attempt: Path) -> None:
        """Turn what the tool left into text; a command that fails leaves its words in the output."""
        with (attempt / "output.log").open("ab") as output:
            for command in self.afterwards:
                subprocess.run(command, cwd=attempt, stdout=output, stderr=subprocess.STDOUT, check=False)


def _filled(text: str, attempt: Path) -> str:
    job = int.from_bytes(hashlib.sha256(attempt.name.encode()).digest()[:3], "big") + 1
    return text.replace("{raw}", str(attempt.resolve())).replace("{job}", str(job))


TRACES = ("steps.xplane.pb", "timeline.json")
NO_INSTRUMENT = Instrument("none")
TIMELINE_ENVIRONMENT = {"HOROVOD_TIMELINE": "{raw}/timeline.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
"""Rank 0 writes the timeline (Horovod's docs/timeline.rst)."""


def find_instrument(plan: RunPlan) -> Instrument | Missing:
    """Return the tool for a profiled run on this machine, or why there is none."""
    return FINDERS[plan.profile](plan) if plan.profile else NO_INSTRUMENT


def _timeline(plan: RunPlan) -> Instrument | Missing:
    if plan.point.ranks == 1:
        return Missing("a single rank exchanges no gradients; give the run table a row with more ranks")
    return Instrument("Horovod timeline", ("timeline.json",), environment=TIMELINE_ENVIRONMENT)


def _kernels(plan: RunPlan) -> Instrument | Missing:
    wanted = plan.machine.profilers.kernels
    if plan.machine.device.kind == "cpu":
        here = Instrument("TensorFlow profiler", TRACES, environment=_exchange(plan), step_profiler="tensorflow")
        return here if wanted in ("auto", "tensorflow") else Missing(f"{wanted} needs an accelerator")
    if wanted == "tensorflow":
        return Instrument("TensorFlow profiler", TRACES, environment=_exchange(plan), step_profiler="tensorflow")
    if wanted == "auto":
        capability = compute_capability()
        if isinstance(capability, Missing):
            return capability
        wanted = "nvprof" if capability < 8.0 else "nsys"
    return {"nvprof": _nvprof_trace, "nsys": _nsys}[wanted]()


def _exchange(plan: RunPlan) -> Mapping[str, str]:
    """Ask for the timeline of the same steps: TensorFlow's profiler sees only that an exchange of gradients began."""
    return TIMELINE_ENVIRONMENT if plan.point.ranks > 1 else {}


def _counters(plan: RunPlan) -> Instrument | Missing:
    wanted = plan.machine.profilers.counters
    if plan.machine.device.kind == "cpu":
        return _perf() if wanted in ("auto", "perf") else Missing(f"{wanted} needs an accelerator")
    if wanted == "perf":
        return _perf()
    capability = compute_capability()  # the meaning of the counters depends on it
    if isinstance(capability, Missing):
        return capability
    name = ("nvprof" if capability < 7.5 else "ncu") if wanted == "auto" else wanted
    found = {"nvprof": _nvprof_metrics, "ncu": _ncu}[name]()
    return found if isinstance(found, Missing) else replace(found, compute_capability=f"{capability:.1f}")


def _io(plan: RunPlan) -> Instrument | Missing:
    library = find_darshan(plan.machine.profilers.darshan_library)
    if isinstance(library, str):
        return Missing(library)
    return Instrument("Darshan", ("darshan/*.darshan",), prefix=library.command, before=prepare_darshan)


def _power(_: RunPlan) -> Instrument | Missing:
    meters, reasons = find_power_meters()
    if not meters:
        return Missing("; ".join(reasons))
    return Instrument("power meters", ("power_*.csv",), beside=lambda raw: metered(meters, raw))


FINDERS: dict[ProfileKind, Callable[[RunPlan], Instrument | Missing]] = {
    "timeline": _timeline,
    "kernels": _kernels,
    "counters": _counters,
    "io": _io,
    "power": _power,
}


def compute_capability() -> float | Missing:
    """Return the lowest compute capability of the node's NVIDIA accelerators."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return Missing("nvidia-smi is not on the PATH: the accelerator's compute capability is unknown")
    done = subprocess.run(
        [program, "--query-gpu=compute_cap", "--format=csv,noheader"], capture_output=True, text=True, check=False
    )
    found = re.findall(r"^\s*(\d+\.\d+)\s*$", done.stdout, re.MULTILINE)
    if done.returncode or not found:
        return Missing(f"nvidia-smi tells no compute capability: {(done.stderr or done.stdout).strip()[:200]}")
    return min(map(float, found))


def _tool(name: str) -> str | Missing:
    found = shutil.which(name)
    return found or Missing(f"{name} is not on the PATH; load its module")


def _nvprof_trace() -> Instrument | Missing:
    program = _tool("nvprof")
    if isinstance(program, Missing):
        return program
    options = ("--profile-from-start", "off", "--print-gpu-trace", "--csv", "--log-file", "{raw}/nvprof_trace.csv")
    return Instrument("nvprof", ("nvprof_trace.csv",), first_rank_prefix=(program, *options), step_profiler="cuda")


def _nvprof_metrics() -> Instrument | Missing:
    program = _tool("nvprof")
    if isinstance(program, Missing):
        return program
    options = ("--profile-from-start", "off", "--metrics", NVPROF_METRICS, "--csv")
    prefix = (program, *options, "--log-file", "{raw}/nvprof_metrics.csv")
    return Instrument("nvprof", ("nvprof_metrics.csv",), first_rank_prefix=prefix, step_profiler="cuda")


def _nsys() -> Instrument | Missing:
    program = _tool("nsys")
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


def _ncu() -> Instrument | Missing:
    program = _tool("ncu")
    if isinstance(program, Missing):
        return program
    window = ("--profile-from-start", "off", "--target-processes", "all")
    # A replayed exchange waits for ranks that do not repeat theirs.
    chosen = ("--metrics", NCU_METRICS, "--kernel-name", "regex:^(?!.*nccl)")
    form = ("--csv", "--page", "raw", "--print-units", "base", "--log-file", "{raw}/ncu.csv")
    prefix = ("env", "LC_ALL=C", program, *window, *chosen, *form)
    return Instrument("Nsight Compute", ("ncu.csv",), first_rank_prefix=prefix, step_profiler="cuda")


def _perf() -> Instrument | Missing:
    program = _tool("perf")
    if isinstance(program, Missing):
        return program
    probe = subprocess.run(
        [program, "stat", "-x,", "-e", "instructions", "true"], capture_output=True, text=True, check=False
    )
    if "<not supported>" in probe.stderr:
        return Missing("perf finds no counter of instructions on this machine (a virtual machine often has none)")
    if probe.returncode or "<not counted>" in probe.stderr:
        return Missing(f"perf counts no instructions here: {' '.join(probe.stderr.split())[:200]}")
    prefix = (program, "stat", "-x,", "-e", PERF_EVENTS, "-o", "{raw}/perf.csv")
    return Instrument("perf", ("perf.csv",), first_rank_prefix=prefix)
