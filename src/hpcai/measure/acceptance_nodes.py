"""What an acceptance measures on every node alone: processors, memory, accelerators, scratch, shared storage."""

import logging
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from hpcai.config.acceptance import Acceptance
from hpcai.config.machine import scratch_path
from hpcai.config.runs import RunPlan
from hpcai.core.errors import RecordError
from hpcai.core.messages import Message, Said
from hpcai.machine.acceptance import ALONE, MEASURES, MODULE, NodeSeries, result_file
from hpcai.machine.ceilings.allreduce import run_launcher
from hpcai.measure.container import contained
from hpcai.measure.inputs import Inputs
from hpcai.measure.recording import LATE_S, await_files
from hpcai.records.acceptance import Kind, Series, Unit
from hpcai.records.files import read_part
from hpcai.slurm.allocation import find_allocation
from hpcai.slurm.step import step_command

logger = logging.getLogger(__name__)
NO_FILE = Message("acceptance.no_file", "the node ended without its measurements")
NO_TIME = Message("acceptance.no_time", "not measured: {used:.0%} of acceptance.limit_s were over before; raise it")
NODE_LIMIT_S = 1800.0
"""Beyond the time of its repetitions, such as for nodes that start from slow shared storage [s]."""
ALONE_END, SHARED_END = 0.5, 0.65
"""Shares of the acceptance's time limit after which no turn begins: a job that reaches its limit loses everything."""
FEWEST_PASSES = 3
"""Passes over shared storage; where they take longer than it may, nodes measure it at the same time."""

NODES_TRIED = 3
"""Nodes that may fail the turn that tells how long shared storage takes; more fail because of the storage."""


@dataclass(frozen=True)
class Asked:
    """What is to be accepted.

    Attributes
    ----------
    plan
        Plan of the short training on one node, with the machine.
    settings
        The study's.
    inputs
        Manifests of the training's data.
    launcher
        How ranks are started.
    folder
        New folder for everything that this acceptance leaves behind.
    """

    plan: RunPlan
    settings: Acceptance
    inputs: Inputs
    launcher: str
    folder: Path


@dataclass(frozen=True)
class Until:
    """When a stage must have ended [s, monotonic], and what is said of what has no time."""

    end_s: float
    words: Said


@dataclass(frozen=True)
class Clock:
    """Start and length of an acceptance [s, monotonic]."""

    started_s: float
    limit_s: float

    def until(self, share: float) -> Until:
        """Return the time at which a share of the limit is over."""
        return Until(self.started_s + share * self.limit_s, NO_TIME(used=share))


@dataclass(frozen=True)
class _Turns:
    """How nodes take turns: how many at once, how often, and when no turn may begin any more."""

    at_once: int
    passes: int
    until: Until


def measure_alone(asked: Asked, hosts: Sequence[str], clock: Clock) -> Iterator[Series]:
    """Yield processors, memory, scratch and accelerators of each node."""
    settings = asked.settings
    at_once = settings.at_once or len(hosts)
    passes = settings.passes if at_once < len(hosts) else 1
    yield from _on_nodes(asked, hosts, ALONE, _Turns(at_once, passes, clock.until(ALONE_END)))


def _on_nodes(asked: Asked, hosts: Sequence[str], parts: Sequence[str], turns: _Turns) -> Iterator[Series]:
    """Yield what each node measured; nodes that take turns do so several times, and each turn counts once.

    A pass that time does not allow for all nodes counts for none; a node that failed has no further turn.
    """
    # What changes with time on shared hosts then looks like noise, not like a slow node.
    found: dict[tuple[str, str, str], list[Series]] = {}
    left = list(hosts)
    for number in range(turns.passes):
        own = _pass(asked, left, parts, turns)
        if own is None:
            break
        for one in own:
            found.setdefault((one.kind, one.subject, one.measure), []).append(one)
        failed = {one.nodes[0] for one in own if one.failed}
        left = [host for host in left if host not in failed]
        logger.info("%s: pass %d of %d over all nodes", ", ".join(parts), number + 1, turns.passes)
    yield from map(_joined, found.values())
    if not found:
        for host in hosts:
            late = _failed_parts(host, parts, turns.until.words)
            yield from (one.model_copy(update={"failed": False}) for one in late)


def _pass(asked: Asked, hosts: Sequence[str], parts: Sequence[str], turns: _Turns) -> list[Series] | None:
    """Return what all nodes measured in one turn each; None if there was no time for all of them."""
    found: list[Series] = []
    for start in range(0, len(hosts), turns.at_once):
        if time.monotonic() > turns.until.end_s:
            return None
        group = hosts[start : start + turns.at_once]
        found += _on_group(asked, group, parts, asked.settings.measure_s / turns.passes)
    return found


def measure_shared(asked: Asked, hosts: Sequence[str], clock: Clock) -> Iterator[Series]:
    """Yield the rates of the storage that nodes share: one after the other, more at once where that takes too long."""
    settings, until = asked.settings, clock.until(SHARED_END)
    at_once, passes = 1, settings.passes if len(hosts) > 1 else 1
    if len(hosts) > 1:
        turn_s = _time_turn(asked, hosts, ("shared",), settings.measure_s / passes, until)
        at_once, passes = turns_that_fit(len(hosts), passes, turn_s, until.end_s - time.monotonic())
    yield from _on_nodes(asked, hosts, ("shared",), _Turns(at_once, passes, until))


def _time_turn(asked: Asked, hosts: Sequence[str], parts: Sequence[str], longest_s: float, until: Until) -> float:
    """Return the time of a turn of a node that is able to take one [s]; infinite if none of the first was in time."""
    for host in hosts[:NODES_TRIED]:
        started_s = time.monotonic()
        if started_s > until.end_s:
            break
        if not any(one.failed for one in _on_group(asked, [host], parts, longest_s)):
            return time.monotonic() - started_s
    return math.inf


def turns_that_fit(nodes: int, passes: int, turn_s: float, left_s: float) -> tuple[int, int]:
    """Return how many nodes take a turn at once, and how often all do, so that they need at most the time that is left.

    Fewer passes first; then several nodes at once, which measure their share of the storage, all alike.

    Parameters
    ----------
    nodes, passes
        Nodes, and the passes that are asked for.
    turn_s, left_s
        Time of one node's turn alone, and time for all of them [s].
    """
    if turn_s > left_s:
        return nodes, 1
    fitting = int(left_s / (nodes * turn_s))
    fewest = min(passes, FEWEST_PASSES)
    if fitting >= fewest:
        return 1, min(passes, fitting)
    at_once = -int(-fewest * nodes * turn_s // left_s)
    return (at_once, fewest) if at_once < nodes else (nodes, 1)


def _joined(turns: Sequence[Series]) -> Series:
    """Return the medians of a node's turns as one series; a turn without values tells of all."""
    empty = next((one for one in turns if not one.values), None)
    if empty or len(turns) == 1:
        return empty or turns[0]
    return turns[0].model_copy(update={"values": tuple(median(one.values) for one in turns), "in_passes": True})


def _on_group(asked: Asked, group: Sequence[str], parts: Sequence[str], longest_s: float) -> Iterator[Series]:
    """Yield what nodes measured at the same time; a node without its file has failed."""
    folder = asked.folder / "nodes"
    folder.mkdir(exist_ok=True)
    logger.info("%s on %s", ", ".join(parts), ", ".join(group))
    files = {host: result_file(folder, host, parts) for host in group}
    for file in files.values():
        file.unlink(missing_ok=True)
    program = _node_program(asked, parts, folder, longest_s)
    log = folder / f"{'-'.join(parts)}.{group[0]}.log"
    problem = run_launcher([*_step(group), *program], log, NODE_LIMIT_S + len(parts) * longest_s)
    await_files({folder: [file.name for file in files.values()]}, 0.0 if problem else LATE_S)
    for host, file in files.items():
        yield from _read_node(host, file, parts, problem or NO_FILE())


def _node_program(asked: Asked, parts: Sequence[str], folder: Path, longest_s: float) -> list[str]:
    machine, settings = asked.plan.machine, asked.settings
    program = [sys.executable, "-m", MODULE, "--parts", *parts, "--output", str(folder.resolve())]
    program += ["--cores", str(machine.cores_per_node), "--accelerators", str(machine.accelerators_per_node)]
    program += ["--repeats", str(settings.repeats), "--precision", str(settings.precision_ratio)]
    program += ["--longest-s", str(longest_s), "--window-s", str(settings.window_s)]
    program += ["--file-bytes", str(settings.file_bytes)]
    program += ["--scratch", machine.storage.node_local, "--shared", str(Path.cwd())]
    return contained(program, machine.software, [folder, Path(scratch_path(machine.storage.node_local)).parent])


def _step(hosts: Sequence[str]) -> list[str]:
    """Return the command that starts a program once on each node; nothing on a machine without Slurm."""
    if find_allocation() is None:
        return []
    # A failing node must not stop the others.
    return [*step_command(hosts, 1), "--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--input=none", "--label"]


def _read_node(host: str, file: Path, parts: Sequence[str], problem: str) -> Iterator[Series]:
    try:
        yield from read_part(NodeSeries, file).series
    except RecordError:
        yield from _failed_parts(host, parts, problem)


def _failed_parts(host: str, parts: Sequence[str], reason: str) -> Iterator[Series]:
    for part in parts:
        yield failed("node", host, (host,), (MEASURES[part], "FLOP/s" if part == "compute" else "B/s"), reason)


def failed(kind: Kind, subject: str, nodes: tuple[str, ...], what: tuple[str, Unit], reason: str) -> Series:
    """Return a measurement without values, whose failure is the subject's."""
    measure, unit = what
    fields = {"kind": kind, "subject": subject, "nodes": nodes, "measure": measure, "unit": unit}
    return Series.model_validate({**fields, "reason": reason, "failed": True})
