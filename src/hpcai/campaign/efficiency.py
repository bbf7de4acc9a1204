"""Resources allocated to and used by each run: cores, memory, time limit; node-hours used and lost."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.config.plan_file import read_plan
from hpcai.config.runs import RunPlan
from hpcai.config.sharing import Sharing
from hpcai.core.errors import ConfigError, RecordError
from hpcai.core.messages import Message
from hpcai.measure.allocation_use import ALLOCATION, AllocationUse
from hpcai.measure.publish import INTERRUPTED
from hpcai.metrics.cells import divide, number_or_nan
from hpcai.metrics.scores.of_run import time_parts, time_shares
from hpcai.records.files import ATTEMPTS, RAW, RECORD, check_raw_file, read_part, read_record
from hpcai.records.run import FINISHED, Attempt, RunRecord
from hpcai.records.weak import GROUP

UNKNOWN_TIMES = Message(
    "efficiency.unknown_times", "{unknown} of {attempts} earlier attempts did not record their duration"
)

HOUR_S = 3600.0
_NAN = math.nan
EFFICIENCY_COLUMNS = columns_of("efficiency")
"""Columns of the table; ``asked_``: allocated to the job; ``source``: origin of that; ``reason``: why cells are empty.

``cpu_used_ratio = cpu_time_s / (asked_cores * wall_s)``, with the processor time of all ranks; it has little meaning
on accelerators. ``node_memory_bytes`` is the largest sum per node of its ranks' peak resident sets, which counts
shared pages several times. ``overhead_ratio`` is the share of launch, imports, initialisation, staging and the rest in
the wall time. ``node_hours = asked_nodes * wall_s / 3600``; an instance of a weak-scaling group has its part of the
group's nodes for as long as the slowest instance. ``lost_node_hours`` are those of failed or interrupted attempts,
including the published one.
"""


@dataclass(frozen=True)
class _Given:
    """Resources available to one run; NaN where unknown."""

    source: str
    nodes: float
    cores: float
    memory_bytes: float
    time_s: float
    queue_wait_s: float = _NAN
    slurm_job: str = ""


def efficiency_table(paths: Iterable[str | Path]) -> pd.DataFrame:
    """Return one row per run: its allocation, its use, and the losses in earlier attempts.

    Parameters
    ----------
    paths
        Files ``record.json`` of runs, and ``group.json`` of weak-scaling groups, which represent their instances.

    Returns
    -------
    pandas.DataFrame
        The columns :data:`EFFICIENCY_COLUMNS`, sorted by kind and run; unknown values are NaN, with a reason.

    Raises
    ------
    RecordError
        If a record is damaged.
    """
    records = []
    for path in map(Path, paths):
        own = sorted(path.parent.glob(f"i*/{RECORD}")) if path.name == GROUP else [path]
        records += [(one.parent, read_record(one)) for one in own]
    held = _held_by_groups(records)
    rows = [_run_row(folder, record, held.get(folder.parent, record.wall_s)) for folder, record in records]
    return as_table(rows)


def as_table(rows: Sequence[Mapping[Any, Any]]) -> pd.DataFrame:
    """Return rows as a table with all columns and their types."""
    table = pd.DataFrame(rows, columns=list(EFFICIENCY_COLUMNS))
    table = table.astype(dict.fromkeys(columns_of("efficiency", "number"), "float64"))
    return table.sort_values(["kind", "run_id"], kind="stable", ignore_index=True)


def unfinished_row(folder: Path) -> dict[str, Any] | None:
    """Return the row of a run without a record: the losses of its attempts; None without attempts."""
    attempts = sorted((folder / ATTEMPTS).glob("*/plan.json"))
    if not attempts:
        return None
    try:
        plan = read_plan(attempts[-1])
    except ConfigError as error:
        raise RecordError(str(error)) from error
    lost, reason = _lost(folder, _own_nodes(plan), None)
    return {
        **_identity(plan),
        "outcome": "no record",
        "attempts": float(len(attempts)),
        "lost_node_hours": lost,
        "reason": "; ".join(filter(None, ["no attempt has ended in a record", reason])),
    }


def _run_row(folder: Path, record: RunRecord, held_s: float) -> dict[str, Any]:
    given, reasons = _given(folder, record)
    node_bytes = _fullest_node(record)
    lost, reason = _lost(folder, given.nodes, None if record.outcome in FINISHED else held_s)
    cpu_s = math.fsum(rank.cpu_time_s for rank in record.ranks) if record.ranks else _NAN
    if not record.ranks:
        reasons.append("no rank reported its resource use")
    return {
        **_identity(record.plan),
        "outcome": record.outcome,
        "started_utc": record.started_utc,
        "slurm_job": given.slurm_job,
        "asked_nodes": given.nodes,
        "asked_cores": given.cores,
        "asked_memory_bytes": given.memory_bytes,
        "asked_time_s": given.time_s,
        "queue_wait_s": given.queue_wait_s,
        "wall_s": record.wall_s,
        "cpu_time_s": cpu_s,
        "cpu_used_ratio": divide(cpu_s, given.cores * record.wall_s),
        "node_memory_bytes": node_bytes,
        "memory_used_ratio": divide(node_bytes, given.memory_bytes / given.nodes),
        "time_used_ratio": divide(record.wall_s, given.time_s),
        "overhead_ratio": _overhead(record),
        "node_hours": given.nodes * held_s / HOUR_S,
        "core_hours": given.cores * held_s / HOUR_S,
        "attempts": float(len(_earlier_attempts(folder)) + 1),
        "lost_node_hours": lost,
        "source": given.source,
        "reason": "; ".join(filter(None, [*reasons, reason])),
        "record_path": str(folder / RECORD),
    }


def _identity(plan: RunPlan) -> dict[str, Any]:
    return {
        "run_id": plan.run_id,
        "kind": plan.profile or plan.kind,
        "benchmark": plan.benchmark.name,
        "variant": plan.point.variant,
        "scale": plan.point.scale,
        "started_utc": "",
        "slurm_job": "",
        "source": "",
    }


def _given(folder: Path, record: RunRecord) -> tuple[_Given, list[str]]:
    """Return the allocation of a run: from its job, otherwise whole nodes as declared in the machine file."""
    plan = record.plan
    file = folder / RAW / ALLOCATION
    use = read_part(AllocationUse, check_raw_file(record, file)) if file.exists() else None
    job, wait_s = (use.slurm_job, number_or_nan(use.queue_wait_s)) if use else ("", _NAN)
    limit_s = use.time_limit_s if use and use.time_limit_s else plan.limits.run_s
    if plan.instances is not None:
        nodes, cores = _own_nodes(plan), plan.point.ranks * plan.machine.cores_per_rank
        told = "share of the weak-scaling group (machine file, declared)"
        reason = "instances share the memory of their nodes"
        return _Given(told, nodes, float(cores), _NAN, limit_s, wait_s, job), [reason]
    if use is not None and use.nodes and use.cores:
        given = _Given(
            use.source, float(use.nodes), float(use.cores), number_or_nan(use.memory_bytes), limit_s, wait_s, job
        )
        return given, [use.reason] if use.reason else []
    machine, nodes = plan.machine, float(plan.point.nodes)
    memory_bytes = float(machine.memory_bytes) * nodes
    given = _Given("machine file (declared)", nodes, machine.cores_per_node * nodes, memory_bytes, limit_s, wait_s, job)
    return given, [use.reason] if use and use.reason else []


def _own_nodes(plan: RunPlan) -> float:
    """Return the nodes of a run; for an instance, its part of its group's nodes."""
    if plan.instances is None:
        return float(plan.point.nodes)
    sharing = Sharing.of(plan.machine, plan.point.nodes, plan.point.ranks_per_node, plan.instances)
    return sharing.nodes_needed / plan.instances


def _held_by_groups(records: Iterable[tuple[Path, RunRecord]]) -> dict[Path, float]:
    """Return how long the slowest instance of each weak-scaling group occupied the nodes [s]."""
    held: dict[Path, float] = defaultdict(float)
    for folder, record in records:
        if record.plan.instances is not None:
            held[folder.parent] = max(held[folder.parent], record.wall_s)
    return held


def _fullest_node(record: RunRecord) -> float:
    nodes: dict[int, int] = defaultdict(int)
    for rank in record.ranks:
        nodes[rank.placement.node_index] += rank.peak_memory_bytes
    return float(max(nodes.values())) if nodes else _NAN


def _overhead(record: RunRecord) -> float:
    shares = time_shares(time_parts(record))
    return 1.0 - shares.training_ratio - shares.evaluation_ratio


def _earlier_attempts(folder: Path) -> list[Path]:
    return [path.parent for path in sorted((folder / ATTEMPTS).glob("*/plan.json"))]


def _lost(folder: Path, nodes: float, broken_s: float | None) -> tuple[float, str]:
    """Return the node-hours without a result, and the number of attempts of unknown duration.

    Parameters
    ----------
    folder
        Folder of the run.
    nodes
        Nodes of each attempt.
    broken_s
        Duration of the published attempt if it failed [s].
    """
    times = [_attempt_s(attempt) for attempt in _earlier_attempts(folder)]
    known = [time_s for time_s in (*times, broken_s) if time_s is not None]
    unknown = times.count(None)
    reason = UNKNOWN_TIMES(unknown=unknown, attempts=len(times)) if unknown else ""
    return _NAN if unknown and not known else nodes * math.fsum(known) / HOUR_S, reason


def _attempt_s(attempt: Path) -> float | None:
    """Return how long an attempt occupied its nodes [s], from its record or the note of its interruption."""
    try:
        if (attempt / RECORD).exists():
            return read_record(attempt / RECORD).wall_s
        note = read_part(Attempt, attempt / INTERRUPTED)
        started, ended = (datetime.fromisoformat(text or "") for text in (note.started_utc, note.ended_utc))
    except (RecordError, ValueError):
        return None
    return max((ended - started).total_seconds(), 0.0)
