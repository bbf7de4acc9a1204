"""What an acceptance measures between nodes: latency and bandwidth of pairs and rings."""

import logging
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.core.errors import LaunchError
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import launch_command
from hpcai.machine.ceilings.allreduce import measure_allreduce_in
from hpcai.measure.acceptance_nodes import NO_FILE, Asked, Clock, failed
from hpcai.measure.container import contained
from hpcai.metrics.acceptance import BANDWIDTH, LATENCY
from hpcai.metrics.profiles.link import AllreduceReport
from hpcai.records.acceptance import Kind, Series, Unit
from hpcai.records.weak import NodeShare

logger = logging.getLogger(__name__)
SHORT_BYTES, LONG_BYTES = 4, 16 << 20
"""Messages that show latency and bandwidth."""
LINK_REPEATS, LINK_VALUES = 1000, 40
"""Allreduces of a size, and medians of blocks of them that are kept."""
LINK_BUDGET_S = 10.0
LINK_LIMIT_S = 180
LINKS_END = 0.8
"""Share of the acceptance's time limit after which no round begins."""


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


def measure_links(asked: Asked, hosts: Sequence[str], clock: Clock) -> Iterator[Series]:
    """Yield latency and bandwidth of pairs, then of rings; those of a round are measured at the same time."""
    until = clock.until(LINKS_END)
    rounds: list[tuple[Kind, Sequence[tuple[str, ...]]]] = [
        ("pair", pairs) for pairs in chosen_rounds(hosts, asked.settings.pair_rounds)
    ]
    rounds += [("ring", rings) for rings in rings_of(hosts, asked.settings.ring_nodes)]
    for number, (kind, links) in enumerate(rounds, 1):
        if time.monotonic() > until.end_s:
            logger.warning("links, round %d of %d: %s", number, len(rounds), until.words)
            yield from _skipped(kind, links, number, until.words)
            continue
        logger.info("links, round %d: %s", number, ", ".join(map(" + ".join, links)))
        yield from _round(asked, partial(_link, asked, kind), links)


def _skipped(kind: Kind, links: Sequence[tuple[str, ...]], number: int, reason: str) -> Iterator[Series]:
    """Yield what a round that has no time would have measured: its links together, of which there may be hundreds."""
    hosts = tuple(host for link in links for host in link)
    subject = f"round {number}: {len(links)} {kind}{'s' if len(links) > 1 else ''}"
    for what in _measures(kind, links[0]):
        missing = failed(kind, subject, hosts, what, reason)
        yield missing.model_copy(update={"failed": False, "tried": False})


def _round(
    asked: Asked, measure: Callable[[tuple[str, ...]], list[Series]], links: Sequence[tuple[str, ...]]
) -> Iterator[Series]:
    at_once = asked.settings.at_once
    workers = len(links) if at_once is None else max(1, at_once // len(links[0]))
    with ThreadPoolExecutor(workers) as pool:
        for found in pool.map(measure, links):
            yield from found


def _measures(kind: Kind, hosts: Sequence[str]) -> tuple[tuple[str, Unit], tuple[str, Unit]]:
    """Return what is measured of a link; rings of other sizes have other names, because they do not compare."""
    suffix = f", ring of {len(hosts)}" if kind == "ring" else ""
    return (f"{LATENCY}{suffix}", "s"), (f"{BANDWIDTH}{suffix}", "B/s")


def _link(asked: Asked, kind: Kind, hosts: tuple[str, ...]) -> list[Series]:
    """Return latency and bandwidth of the allreduce over some nodes."""
    subject = " + ".join(hosts) if kind == "pair" else f"{hosts[0]} … {hosts[-1]} ({len(hosts)})"
    wanted = _measures(kind, hosts)
    try:
        report = _allreduce(asked, hosts)
    except LaunchError as error:
        return [failed(kind, subject, hosts, what, str(error)) for what in wanted]
    times_s = {size: _times(report, size) for size in (SHORT_BYTES, LONG_BYTES)}
    values = (times_s[SHORT_BYTES], [LONG_BYTES / time_s for time_s in times_s[LONG_BYTES]])
    reason = "; ".join((*report.not_measured, *report.transfers_missing)) or NO_FILE()
    setting = f"{report.ranks} ranks, {SHORT_BYTES} and {LONG_BYTES >> 20} MiB, {report.engine}"
    found = []
    for what, own in zip(wanted, values, strict=True):
        missing = failed(kind, subject, hosts, what, reason)
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
