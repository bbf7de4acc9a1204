"""Accept a machine: measure every node alone, pairs and rings of nodes, and short trainings, in one job.

Nodes work at the same time wherever they share nothing; only the storage that all of them share is measured by one node
after the other. What fails is a result: the other nodes continue.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.config.acceptance import Acceptance
from hpcai.config.machine import scratch_path, this_node
from hpcai.config.runs import RunPlan
from hpcai.core.errors import LaunchError, RecordError
from hpcai.core.messages import Message, at
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import launch_command
from hpcai.machine.acceptance import ALONE, MEASURES, MODULE, NodeSeries, result_file
from hpcai.machine.ceilings.allreduce import measure_allreduce_in, run_launcher
from hpcai.measure.acceptance_training import train_for_acceptance
from hpcai.measure.claim import at_work
from hpcai.measure.container import contained, require_modules
from hpcai.measure.inputs import Inputs
from hpcai.measure.provenance import code_facts
from hpcai.measure.recording import LATE_S, await_files
from hpcai.metrics.acceptance import BANDWIDTH, LATENCY
from hpcai.metrics.profiles.link import AllreduceReport
from hpcai.records.acceptance import Kind, Measured, Series, Unit, utc_now
from hpcai.records.files import read_part
from hpcai.records.weak import NodeShare
from hpcai.slurm.allocation import find_allocation
from hpcai.slurm.step import step_command

logger = logging.getLogger(__name__)
NEEDS_A_JOB = Message(
    "acceptance.needs_a_job",
    "found no job of Slurm, expected one of {nodes} nodes; start it with a profile for Slurm or in an allocation, or "
    "set acceptance.nodes of the study to 1",
)
TOO_FEW_NODES = Message(
    "acceptance.too_few_nodes", "found {found} nodes in the job, expected {expected}; correct acceptance.nodes"
)
NO_FILE = Message("acceptance.no_file", "the node ended without its measurements")
SHORT_BYTES, LONG_BYTES = 4, 16 << 20
"""Messages that show latency and bandwidth."""
LINK_REPEATS, LINK_VALUES = 1000, 40
"""Allreduces of a size, and medians of blocks of them that are kept."""
LINK_BUDGET_S = 10.0
LINK_LIMIT_S = 180
NODE_LIMIT_S = 1800.0
"""Beyond the time of its repetitions, such as for nodes that start from slow shared storage [s]."""


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


def measure_machine(asked: Asked) -> Measured:
    """Measure all nodes, and return everything that was found.

    Raises
    ------
    LaunchError
        If the job has too few nodes, or a module of the machine file is not loaded.
    RunInterruptedError
        If a signal ended it.
    """
    machine, settings = asked.plan.machine, asked.settings
    require_modules(machine.modules)
    hosts = hosts_to_accept(settings.nodes or machine.nodes)
    started_utc, series = utc_now(), list[Series]()
    with at_work("acceptance", asked.folder, logger.info) as guard:
        series += _on_nodes(asked, hosts, ALONE, settings.at_once or len(hosts))
        series += _on_nodes(asked, hosts, ("shared",), 1)
        series += _links(asked, hosts)
        series += train_for_acceptance(asked.plan, settings, hosts, (asked.inputs, asked.launcher, guard), asked.folder)
    commit, dirty, lock = code_facts()
    return Measured(
        machine=machine.name,
        machine_nodes=machine.nodes,
        hosts=hosts,
        launcher=asked.launcher,
        slurm_job=os.environ.get("SLURM_JOB_ID", ""),
        started_utc=started_utc,
        ended_utc=utc_now(),
        settings=settings,
        code={"commit": commit, "dirty": dirty, "lock_sha256": lock},
        series=tuple(series),
    )


def hosts_to_accept(nodes: int) -> tuple[str, ...]:
    """Return the nodes: this one, or the first ones of Slurm's job."""
    allocation = find_allocation()
    if allocation is None and nodes > 1:
        raise LaunchError(at("acceptance", NEEDS_A_JOB(nodes=nodes)))
    if allocation is None:
        return (this_node(),)
    if len(allocation.nodes) < nodes:
        raise LaunchError(at("acceptance", TOO_FEW_NODES(found=len(allocation.nodes), expected=nodes)))
    return allocation.nodes[:nodes]


# Nodes alone.


def _on_nodes(asked: Asked, hosts: Sequence[str], parts: Sequence[str], at_once: int) -> Iterator[Series]:
    """Yield what each node measured; nodes that take turns do so several times, and each turn counts once."""
    # What changes with time on shared hosts then looks like noise, not like a slow node.
    passes = asked.settings.passes if at_once < len(hosts) else 1
    found: dict[tuple[str, str, str], list[Series]] = {}
    for number in range(passes):
        for start in range(0, len(hosts), at_once):
            for one in _on_group(asked, hosts[start : start + at_once], parts, asked.settings.measure_s / passes):
                found.setdefault((one.kind, one.subject, one.measure), []).append(one)
        logger.info("%s: pass %d of %d over all nodes", ", ".join(parts), number + 1, passes)
    yield from map(_joined, found.values())


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
        for part in parts:
            yield _failed("node", host, (host,), (MEASURES[part], "FLOP/s" if part == "compute" else "B/s"), problem)


def _failed(kind: Kind, subject: str, nodes: tuple[str, ...], what: tuple[str, Unit], reason: str) -> Series:
    measure, unit = what
    fields = {"kind": kind, "subject": subject, "nodes": nodes, "measure": measure, "unit": unit}
    return Series.model_validate({**fields, "reason": reason, "failed": True})


# Links between nodes.


def tournament(hosts: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Return rounds of pairs: in each round a node is in at most one pair, and all rounds together hold every pair.

    The circle method of round-robin tournaments: one node stays, the others turn (an odd number gets a bye).
    """
    ring: list[str | None] = [*hosts, *([None] if len(hosts) % 2 else [])]
    rounds = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        opposite = zip(ring[:half], reversed(ring[half:]), strict=True)
        rounds.append([(one, other) for one, other in opposite if one is not None and other is not None])
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def chosen_rounds(hosts: Sequence[str], most: int) -> list[list[tuple[str, str]]]:
    """Return at most so many rounds, spread evenly over the tournament."""
    rounds = tournament(hosts) if len(hosts) > 1 else []
    count = min(most, len(rounds))
    return [rounds[number * len(rounds) // count] for number in range(count)]


def rings_of(hosts: Sequence[str], size: int) -> list[list[tuple[str, ...]]]:
    """Return rounds of rings: separate ones of a size, one more for the nodes that are left, and that of all nodes."""
    rounds: list[list[tuple[str, ...]]] = []
    if len(hosts) >= 2 * size:
        whole = len(hosts) // size * size
        rounds.append([tuple(hosts[start : start + size]) for start in range(0, whole, size)])
        rounds += [[tuple(hosts[-size:])]] if whole < len(hosts) else []
    return [*rounds, *([[tuple(hosts)]] if len(hosts) > 2 else [])]


def _links(asked: Asked, hosts: Sequence[str]) -> Iterator[Series]:
    """Yield latency and bandwidth of pairs, then of rings; those of a round are measured at the same time."""
    for number, pairs in enumerate(chosen_rounds(hosts, asked.settings.pair_rounds), 1):
        logger.info("pairs, round %d: %s", number, ", ".join(map(" + ".join, pairs)))
        yield from _round(asked, partial(_pair, asked), pairs)
    for rings in rings_of(hosts, asked.settings.ring_nodes):
        logger.info("rings of %d nodes", len(rings[0]))
        yield from _round(asked, partial(_ring, asked), rings)


def _round(
    asked: Asked, measure: Callable[[tuple[str, ...]], list[Series]], links: Sequence[tuple[str, ...]]
) -> Iterator[Series]:
    at_once = asked.settings.at_once
    workers = len(links) if at_once is None else max(1, at_once // len(links[0]))
    with ThreadPoolExecutor(workers) as pool:
        for found in pool.map(measure, links):
            yield from found


def _pair(asked: Asked, hosts: tuple[str, ...]) -> list[Series]:
    return _link(asked, "pair", " + ".join(hosts), hosts, "")


def _ring(asked: Asked, hosts: tuple[str, ...]) -> list[Series]:
    return _link(asked, "ring", f"{hosts[0]} … {hosts[-1]} ({len(hosts)})", hosts, f", ring of {len(hosts)}")


def _link(asked: Asked, kind: Kind, subject: str, hosts: tuple[str, ...], suffix: str) -> list[Series]:
    """Return latency and bandwidth of the allreduce over some nodes."""
    wanted: tuple[tuple[str, Unit], ...] = ((f"{LATENCY}{suffix}", "s"), (f"{BANDWIDTH}{suffix}", "B/s"))
    try:
        report = _allreduce(asked, hosts)
    except LaunchError as error:
        return [_failed(kind, subject, hosts, what, str(error)) for what in wanted]
    times_s = {size: _times(report, size) for size in (SHORT_BYTES, LONG_BYTES)}
    values = (times_s[SHORT_BYTES], [LONG_BYTES / time_s for time_s in times_s[LONG_BYTES]])
    reason = "; ".join((*report.not_measured, *report.transfers_missing)) or NO_FILE()
    setting = f"{report.ranks} ranks, {SHORT_BYTES} and {LONG_BYTES >> 20} MiB, {report.engine}"
    found = []
    for what, own in zip(wanted, values, strict=True):
        missing = _failed(kind, subject, hosts, what, reason)
        done = {"values": tuple(own), "setting": setting, "reason": "", "failed": False}
        found.append(missing.model_copy(update=done) if own else missing)
    return found


def _allreduce(asked: Asked, hosts: Sequence[str]) -> AllreduceReport:
    machine, engine = asked.plan.machine, asked.plan.point.engine
    # With accelerators all of a node take part, because each may have a network adapter of its own.
    per_node = machine.ranks_per_node if machine.device.kind == "gpu" else 1
    shares = tuple(NodeShare(host=host, cores=()) for host in hosts)
    ranks = Ranks(f"allreduce of {', '.join(hosts)}", len(hosts), per_node, machine.cores_per_rank, shares)
    python = launch_command(asked.launcher, ranks, contained([sys.executable], machine.software))
    options = ["--sizes", f"{SHORT_BYTES},{LONG_BYTES}", "--repeats", str(LINK_REPEATS)]
    options += ["--budget-s", str(LINK_BUDGET_S), "--cores-per-rank", str(machine.cores_per_rank)]
    options += ["--device", machine.device.kind]
    # On shared storage: the first rank need not be on this node.
    with tempfile.TemporaryDirectory(dir=asked.folder, prefix="link-") as folder:
        return measure_allreduce_in(Path(folder).resolve(), python, engine, options, LINK_LIMIT_S)


def _times(report: AllreduceReport, size: int) -> list[float]:
    """Return the times of a size [s]: of the transfers where the engine has a timeline, else of the calls."""
    own = [sample for sample in report.samples if sample.size_bytes == size]
    timed = [one.transfer_s if report.engine == USUAL_ENGINE else one.duration_s for one in own]
    times_s = [time_s for time_s in timed if time_s]
    block = max(1, len(times_s) // LINK_VALUES)
    return [median(times_s[start : start + block]) for start in range(0, len(times_s) - block + 1, block)]
