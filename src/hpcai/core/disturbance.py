"""Processor time taken by others on a node while something was timed there, from the kernel's accounting.

A process reads the counters of the node and its own at the start and at the end of the timed part. The busy time of the
node's cores in between, minus that of the measured processes, was used by others: the supervisor, the launcher, the
workflow's controller, other users. Steal is the time a hypervisor took from the cores; no process here can see it.

The kernel accounts a node's busy time in two ways, and neither is complete: per-core ticks (``/proc/stat``) miss work
shorter than a tick, up to 4 % for ranks that often wait; the times of all processes are exact, but hidden from other
users on some systems. The larger value is used.
"""

import os
import resource
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field

STAT = Path("/proc/stat")
_USER, _NICE, _SYSTEM, _STEAL = 1, 2, 3, 8
"""Fields of the first line, in ticks (proc(5)); the time of guests is already part of the users' time."""
_TIMES = slice(11, 15)
"""Fields after the name of a process: its own time and that of its children, in user and kernel mode (proc(5))."""
RESOLUTION_S = 0.02
"""Per core: the kernel counts ticks of 10 ms, and both readings may miss one."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Watched(Protocol):
    """Report of a measurement with observed disturbance."""

    @property
    def disturbance(self) -> tuple["Disturbance", ...]:
        """Use of each node by others during the measurement; empty: not measured."""


Report = TypeVar("Report", bound=Watched)


class Tolerance(_Part):
    """Tolerated disturbance, and how often a measurement is repeated if it is exceeded."""

    others_ratio: float = Field(
        default=0.03,
        gt=0,
        le=1,
        description="Share of a node's cores that other processes, or a hypervisor, may take while something is timed.",
    )
    repeats: int = Field(
        default=1, ge=0, le=10, description="Maximum number of repetitions of a disturbed measurement."
    )


class CoreUse(_Part):
    """Processor use between two readings, as seen by one measured process."""

    node: str
    cores: int = Field(ge=1, description="All cores of the node, including those that the process may not use.")
    wall_s: float = Field(ge=0)
    own_s: float = Field(ge=0, description="Processor time of the process and of its children that have ended.")
    busy_s: float = Field(ge=0, description="Time that the node's cores spent in any process, by the larger account.")
    steal_s: float = Field(ge=0, description="Time that a hypervisor took from the node's cores.")


class Quietness(_Part):
    """Use of one rank's node while it was timed, and the speed of its device before and after."""

    use: CoreUse | None = Field(description="From run_start to run_stop; None: the kernel keeps no account.")
    probe_before_flop_per_s: float = Field(gt=0, description="Rate of a short matrix product, all ranks together.")
    probe_after_flop_per_s: float = Field(gt=0)


class Disturbance(_Part):
    """Use of one node by others while something was timed there."""

    node: str
    cores: int = Field(ge=1)
    wall_s: float = Field(ge=0)
    others_s: float = Field(ge=0, description="Processor time of processes that were not measured.")
    steal_s: float = Field(ge=0)

    @property
    def others_ratio(self) -> float:
        """Share of the cores' time that other processes took."""
        return self.others_s / (self.wall_s * self.cores) if self.wall_s else 0.0

    @property
    def steal_ratio(self) -> float:
        """Share of the cores' time that a hypervisor took."""
        return self.steal_s / (self.wall_s * self.cores) if self.wall_s else 0.0

    @property
    def taken_ratio(self) -> float:
        """The larger of both shares, which judges a node."""
        return max(self.others_ratio, self.steal_ratio)


@dataclass(frozen=True)
class Look:
    """Clocks of a node and of this process at one time [s]."""

    wall_s: float
    own_s: float
    busy_s: float
    steal_s: float
    processes_s: float = 0.0

    def until(self, end: "Look") -> CoreUse:
        """Return the use between this reading and a later one."""
        return CoreUse(
            node=socket.gethostname(),
            cores=os.cpu_count() or 1,
            wall_s=end.wall_s - self.wall_s,
            own_s=max(0.0, end.own_s - self.own_s),
            busy_s=max(0.0, end.busy_s - self.busy_s, end.processes_s - self.processes_s),
            steal_s=max(0.0, end.steal_s - self.steal_s),
        )


def look() -> Look | None:
    """Read the clocks now; None if the kernel does not account for its cores."""
    try:
        fields = STAT.read_text().splitlines()[0].split()
        ticks = [int(fields[place]) for place in (_USER, _NICE, _SYSTEM, _STEAL)]
    except (OSError, ValueError, IndexError):
        return None
    per_s = os.sysconf("SC_CLK_TCK")
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own_s = sum(one.ru_utime + one.ru_stime for one in used)
    return Look(time.monotonic(), own_s, sum(ticks[:3]) / per_s, ticks[3] / per_s, _processes_ticks() / per_s)


def _processes_ticks() -> int:
    """Return the processor time of all visible processes, including those that ended and were waited for.

    When a process ends, its time moves to its parent's account of children, so the sum only grows.
    """
    total = 0
    for folder in STAT.parent.glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        total += sum(map(int, fields[_TIMES]))
    return total


def use_since(start: Look | None) -> CoreUse | None:
    """Return the use since an earlier reading; None if the kernel does not provide it."""
    end = look()
    return start.until(end) if start and end else None


def disturbance_of(uses: Iterable[CoreUse | None]) -> tuple[Disturbance, ...]:
    """Return the use of each node by others, from the readings of all measured processes.

    Parameters
    ----------
    uses
        One per measured process; a node with a missing reading (None) is omitted.

    Returns
    -------
    tuple of Disturbance
        By node, in the order of their first processes; empty if not measured.
    """
    nodes: dict[str, list[CoreUse]] = {}
    for use in uses:
        if use is None:
            return ()
        nodes.setdefault(use.node, []).append(use)
    return tuple(_of_node(name, own) for name, own in nodes.items())


def _of_node(name: str, uses: Sequence[CoreUse]) -> Disturbance:
    # All observed the same node, so the longest observation covers all others.
    widest = max(uses, key=lambda use: use.wall_s)
    others_s = max(0.0, widest.busy_s - sum(use.own_s for use in uses))
    fields = {"wall_s": widest.wall_s, "others_s": others_s, "steal_s": widest.steal_s}
    return Disturbance(node=name, cores=widest.cores, **fields)


def joined_disturbance(parts: Iterable[Disturbance]) -> tuple[Disturbance, ...]:
    """Return the use of each node by others over several measurements, one after the other."""
    nodes: dict[str, Disturbance] = {}
    for part in parts:
        found = nodes.setdefault(
            part.node, part.model_copy(update=dict.fromkeys(("wall_s", "others_s", "steal_s"), 0.0))
        )
        sums = {name: getattr(found, name) + getattr(part, name) for name in ("wall_s", "others_s", "steal_s")}
        nodes[part.node] = found.model_copy(update=sums)
    return tuple(nodes.values())


def worst(nodes: Iterable[Disturbance]) -> Disturbance | None:
    """Return the most disturbed node; None if there is none."""
    return max(nodes, key=lambda node: node.taken_ratio, default=None)


def is_disturbed(nodes: Iterable[Disturbance], tolerance: Tolerance) -> bool:
    """Return whether others, or a hypervisor, used more of a node than tolerated."""
    return any(
        max(node.others_s, node.steal_s) > node.cores * (tolerance.others_ratio * node.wall_s + RESOLUTION_S)
        for node in nodes
    )


def say_disturbance(nodes: Iterable[Disturbance]) -> str:
    """Describe the use of the worst node by others, for a log or a reason."""
    found = worst(nodes)
    if found is None:
        return "not measured"
    return f"others took {found.others_ratio:.1%} of the cores of {found.node}, a hypervisor {found.steal_ratio:.1%}"


def measure_quietly(measure: Callable[[], Report], tolerance: Tolerance, say: Callable[[str], object]) -> Report:
    """Repeat a measurement while it is disturbed, as often as the tolerance allows; return the least disturbed report.

    Parameters
    ----------
    measure
        Measures once; its report includes the use of the nodes by others.
    tolerance
        When to repeat, and how often.
    say
        Called with a description of each disturbed measurement.
    """
    reports: list[Report] = []
    while len(reports) <= tolerance.repeats:
        reports.append(measure())
        found = reports[-1].disturbance
        if not is_disturbed(found, tolerance):
            return reports[-1]
        say(f"disturbed: {say_disturbance(found)}; the limit is {tolerance.others_ratio:.1%}")
    return min(reports, key=lambda report: max((node.taken_ratio for node in report.disturbance), default=0.0))
