"""Counters of processors: perf's and LIKWID's events for work and memory traffic, as instruments and as numbers.

perf counts the profiled steps alone: the first rank tells it when they begin and end (perf-stat manual, --control).
"""

import math
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hpcai.config.runs import RunPlan
from hpcai.core.messages import Message
from hpcai.profiles.instrument import Instrument, Missing, tool_on_path
from hpcai.training.first_rank import CONTROL

if TYPE_CHECKING:
    import pandas as pd

    from hpcai.parsers.reading import Reading

GENERAL_EVENTS = ("task-clock", "cycles", "instructions", "cache-references", "cache-misses")
FLOP_OF_EVENT = {
    **{
        f"fp_arith_inst_retired.{width}_{precision}": flop
        for precision, bits in (("single", 32), ("double", 64))
        for width, flop in (("scalar", 1), *((f"{size}b_packed", size // bits) for size in (128, 256, 512)))
    },
    "fp_ret_sse_avx_ops.all": 1,
}
"""Operations [FLOP] that one count of an event stands for. Intel's events count a fused multiply-add twice (Intel SDM,
volume 3B, FP_ARITH_INST_RETIRED); AMD's counts operations, a fused one as two (PPR of family 17h and 19h, PMCx003)."""
LINE_BYTES = 64
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
LIKWID_GROUPS = ("MEM_SP", "MEM")
"""Performance groups that count memory traffic, the one that counts work as well first (LIKWID, groups/). Zen 3 has
none: its MEM1 and MEM2 count half of the channels each."""

FP_ONLY = Message(
    "counters.fp_only",
    "the events count arithmetic in fp32 and fp64 alone, no products of bf16, fp16 or AMX",
)
OF_THE_NODE = Message(
    "counters.of_the_node",
    "what was counted on the whole node (DRAM traffic, and all that LIKWID counts) is divided by its {ranks} ranks",
)
NO_WORK_EVENTS = Message("counters.no_work_events", "perf has no event of floating-point work here")
NO_MEMORY_EVENTS = Message(
    "counters.no_memory_events", "perf has no event of the memory controllers here (uncore_imc, amd_df, umc)"
)
MEMORY_FORBIDDEN = Message(
    "counters.memory_forbidden",
    "the kernel forbids the events of the memory controllers (kernel.perf_event_paranoid is {level}, and -a needs 0 or "
    "less, or CAP_PERFMON): {said}",
)
WHOLE_PROCESS = Message(
    "counters.whole_process",
    "LIKWID counted the cores for as long as the rank ran, imports and compilation included",
)


@dataclass(frozen=True)
class MemoryEvents:
    """Events of one kind of memory controller: how perf lists them, and how they are asked for."""

    listed: re.Pattern[str]
    asked: tuple[str, ...] = ()
    """Blank: as listed."""


MEMORY_EVENTS = (
    MemoryEvents(
        re.compile(r"\buncore_imc(?:_\d+)?/cas_count_read/"),
        ("uncore_imc/cas_count_read/", "uncore_imc/cas_count_write/"),
    ),
    MemoryEvents(
        re.compile(r"\buncore_imc(?:_free_running)?(?:_\d+)?/data_reads?/"),
        ("uncore_imc/data_reads/", "uncore_imc/data_writes/"),
    ),
    MemoryEvents(re.compile(r"\bumc_cas_cmd\.rd\b"), ("umc_cas_cmd.rd", "umc_cas_cmd.wr")),
    MemoryEvents(re.compile(r"\b(?:amd_df/)?dram_channel_data_controller_\d+/?")),
)
"""Intel servers, Intel clients, AMD Zen 4 and later, AMD Zen 2 and 3. One count is a line of 64 bytes; perf itself
turns some of them into MiB."""


def find_perf() -> Instrument | Missing:
    """Return perf around the first rank, with the events of work and memory that this processor and kernel allow."""
    program = tool_on_path("perf")
    if isinstance(program, Missing):
        return program
    probe = _try(program, ("instructions",))
    if "<not supported>" in probe.stderr:
        return Missing("perf finds no instruction counter on this machine (common in virtual machines)")
    if probe.returncode or "<not counted>" in probe.stderr:
        return Missing(f"perf counts no instructions here: {' '.join(probe.stderr.split())[:200]}")
    listed = subprocess.run([program, "list", "--no-desc"], capture_output=True, text=True, check=False).stdout
    work = tuple(event for event in FLOP_OF_EVENT if re.search(rf"(?<![\w.]){re.escape(event)}(?![\w.])", listed))
    count = (program, "stat", "-x,", "-D", "-1", f"--control=fd:{CONTROL}")
    inner = (*count, "-e", ",".join((*GENERAL_EVENTS, *work)), "-o", "{raw}/perf.csv")
    memory = memory_events(program, listed)
    outer = (*count, "-a", "-e", ",".join(memory), "-o", "{raw}/perf_memory.csv") if isinstance(memory, tuple) else ()
    reason = "" if isinstance(memory, tuple) else memory
    missing = "; ".join(filter(None, (reason, "" if work else NO_WORK_EVENTS())))
    return Instrument(
        "perf",
        ("perf.csv", "perf_memory.csv"),
        first_rank_prefix=(*outer, *inner),
        step_profiler="control",
        missing=missing,
    )


def memory_events(program: str, listed: str) -> tuple[str, ...] | str:
    """Return the events of the memory controllers that can be counted here, or why there are none.

    Parameters
    ----------
    program
        perf.
    listed
        What ``perf list`` says.
    """
    for kind in MEMORY_EVENTS:
        found = tuple(dict.fromkeys(match[0] for match in kind.listed.finditer(listed)))
        if found:
            events = kind.asked or found
            probe = _try(program, events, "-a")
            if probe.returncode or "<not " in probe.stderr:
                level = PARANOID.read_text().strip() if PARANOID.exists() else "not known"
                return MEMORY_FORBIDDEN(level=level, said=" ".join(probe.stderr.split())[:120])
            return events
    return NO_MEMORY_EVENTS()


def _try(program: str, events: tuple[str, ...], *options: str) -> subprocess.CompletedProcess[str]:
    command = [program, "stat", "-x,", *options, "-e", ",".join(events), "true"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def find_likwid(plan: RunPlan) -> Instrument | Missing:
    """Return LIKWID around the first rank, on all cores of its node, with a group that counts memory traffic."""
    program = tool_on_path("likwid-perfctr")
    if isinstance(program, Missing):
        return program
    listed = subprocess.run([program, "-a"], capture_output=True, text=True, check=False)
    known = {line.split()[0] for line in listed.stdout.splitlines() if line.strip()}
    group = next((name for name in LIKWID_GROUPS if name in known), None)
    if group is None:
        said = " ".join((listed.stderr or listed.stdout).split())[:120]
        return Missing(f"likwid-perfctr has no group {' or '.join(LIKWID_GROUPS)} on this processor: {said}")
    cores = f"0-{plan.machine.cores_per_node - 1}"
    prefix = (program, "-f", "-O", "-o", "{raw}/likwid.csv", "-c", cores, "-g", group)
    return Instrument("LIKWID", ("likwid.csv",), first_rank_prefix=prefix)


def perf_row(reading: "Reading", memory: "Reading | None", window_s: float, ranks_per_node: int) -> dict[str, object]:
    """Return the row of the view ``counters`` of what perf counted in the profiled steps.

    Parameters
    ----------
    reading
        Events of the first rank.
    memory
        Events of its node's memory controllers; None: not counted.
    window_s
        Time of the profiled steps [s].
    ranks_per_node
        Ranks that share the node's traffic.
    """
    values = _by_event(reading.table)
    counted = [values[event] * flop for event, flop in FLOP_OF_EVENT.items() if event in values]
    work_flop = float(sum(counted)) if counted else math.nan
    dram_bytes = _memory_bytes(memory.table) / ranks_per_node if memory is not None else math.nan
    reasons = [*reading.reasons, *(memory.reasons if memory else ())]
    reasons += [FP_ONLY()] if counted else []
    reasons += [OF_THE_NODE(ranks=ranks_per_node)] if memory is not None else []
    return {
        "work_flop": work_flop,
        "duration_s": window_s,
        "rate_flop_per_s": work_flop / window_s if window_s > 0 else math.nan,
        "dram_bytes": dram_bytes,
        "dram_rate_bytes_per_s": dram_bytes / window_s if window_s > 0 else math.nan,
        "instructions_per_cycle": values.get("instructions", math.nan) / values.get("cycles", math.nan),
        "intensity_flop_per_byte": work_flop / dram_bytes if dram_bytes > 0 else math.nan,
        "reasons": "; ".join(dict.fromkeys(reasons)),
    }


def _by_event(table: "pd.DataFrame") -> dict[str, float]:
    """Return the values of the events, over all places; an ordinary user counts cycles:u. NaN: one was not counted."""
    names = table["event"].str.replace(r":[a-zA-Z]+$", "", regex=True)
    return {str(name): float(values.sum(skipna=False)) for name, values in table["value"].groupby(names)}


def _memory_bytes(table: "pd.DataFrame") -> float:
    """Return the bytes of all memory controllers; what perf did not turn into bytes counts lines."""
    factor = table["unit"].map({"byte": 1.0, "": float(LINE_BYTES)})
    return float((table["value"] * factor).sum(skipna=False))


def likwid_row(reading: "Reading", ranks_per_node: int) -> dict[str, object]:
    """Return the row of the view ``counters`` of what LIKWID counted while the first rank ran, of one rank.

    It has no intensity: imports and compilation move bytes without doing the work of a step.

    Parameters
    ----------
    reading
        Metrics of all cores of the node.
    ranks_per_node
        Ranks that share the node.
    """
    metrics = reading.table[reading.table["kind"] == "metric"]
    time_s = metrics.loc[metrics["name"].str.startswith("Runtime (RDTSC)"), "value"].max()
    volume = metrics[(metrics["name"] == "Memory data volume") & (metrics["unit"] == "byte")]["value"]
    rates = metrics[metrics["name"].isin(["SP", "DP"]) & metrics["unit"].isin(["FLOP/s"])]["value"]
    dram_bytes = float(volume.sum(min_count=1)) / ranks_per_node  # of one thread for each socket; the others say 0
    work_flop = float(rates.sum(min_count=1)) * float(time_s) / ranks_per_node
    reasons = [WHOLE_PROCESS(), OF_THE_NODE(ranks=ranks_per_node), *([FP_ONLY()] if len(rates) else [])]
    return {
        "work_flop": work_flop,
        "duration_s": float(time_s),
        "rate_flop_per_s": work_flop / time_s,
        "dram_bytes": dram_bytes,
        "dram_rate_bytes_per_s": dram_bytes / time_s,
        "reasons": "; ".join((*reasons, *reading.reasons)),
    }
