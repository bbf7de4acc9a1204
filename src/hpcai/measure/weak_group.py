"""Describe a weak-scaling group from the records of its instances: which ones count, and their resources."""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from hpcai.core.errors import LaunchError, ParseError
from hpcai.measure.publish import SHARE, group_attempt
from hpcai.parsers.mllog import read_mllog
from hpcai.records.files import RAW, read_part
from hpcai.records.run import FINISHED, RunRecord
from hpcai.records.weak import Extent, Instance, InstanceShare, NodeShare, Pruned, WeakGroup, shared_resources


def describe_group(folder: Path, records: Sequence[RunRecord]) -> WeakGroup:
    """Return the record of a group.

    Parameters
    ----------
    folder
        Folder of the group, with the published instances i1, i2, ...
    records
        Records of the instances, by number.

    Raises
    ------
    LaunchError
        If two instances shared a core or accelerator, which makes the group invalid.
    """
    instances = _instances(folder, records)
    if shared := shared_resources(instances):
        raise LaunchError(
            f"{folder}: {shared}, but the instances of a group need separate resources; correct the launcher's "
            f"options or the job's request, put the group aside with `hpcai discard {folder} --reason WHY`, and start "
            f"again"
        )
    first = records[0]
    hosts = {share.host for instance in instances for share in instance.shares}
    counted = [instance for instance in instances if instance.pruned is None]
    point = first.plan.point
    return WeakGroup(
        group=first.run_id.rsplit("/", 1)[0],
        benchmark=first.plan.benchmark.name,
        variant=point.variant,
        scale=point.scale,
        attempt=group_attempt(first),
        started_utc=first.started_utc,
        instances=len(instances),
        counted=len(counted),
        instance_extent=_extent(first, point.nodes, point.ranks),
        whole_extent=_extent(first, len(hosts), point.ranks * len(instances)),
        time_to_train_all_monotonic_s=_time_to_train_all(counted) if len(hosts) == 1 else None,
        results=instances,
    )


def _instances(folder: Path, records: Sequence[RunRecord]) -> tuple[Instance, ...]:
    seeds: dict[int, int] = {}
    instances = []
    for number, record in enumerate(records, 1):
        raw = folder / f"i{number}" / RAW
        pruned, reason = _pruned(record, seeds)
        start_s, stop_s = _run_span(raw, record)
        instances.append(
            Instance(
                number=number,
                run_id=record.run_id,
                attempt=record.attempt,
                seed=_seed(record),
                outcome=record.outcome,
                reason=record.reason,
                pruned=pruned,
                pruned_reason=reason,
                shares=_shares(read_part(InstanceShare, raw / SHARE), record),
                run_start_monotonic_s=start_s,
                run_stop_monotonic_s=stop_s,
            )
        )
    return tuple(instances)


def _pruned(record: RunRecord, seeds: dict[int, int]) -> tuple[Pruned | None, str]:
    """Return whether and why an instance does not count; ``seeds`` holds those of the counted ones before it."""
    if record.outcome not in FINISHED:
        return "failed", record.reason
    if record.outcome != "converged":
        return "not_converged", record.reason
    first = seeds.setdefault(_seed(record), record.plan.repetition)
    if first != record.plan.repetition:
        return "equal_seed", f"seed {record.plan.seed} is that of instance {first}, which counts"
    return None, ""


def _seed(record: RunRecord) -> int:
    if record.plan.seed is None:
        raise AssertionError("an attempt has a seed")
    return record.plan.seed


def _shares(given: InstanceShare, record: RunRecord) -> tuple[NodeShare, ...]:
    """Return an instance's share of each node: the cores that its ranks observed, otherwise those assigned."""
    cores: dict[str, set[int]] = defaultdict(set)
    for rank in record.ranks:
        cores[rank.placement.hostname].update(rank.placement.cores)
    accelerators = given.nodes[0].accelerators
    found = (
        NodeShare(host=host, cores=tuple(sorted(own)), accelerators=accelerators) for host, own in sorted(cores.items())
    )
    return tuple(found) or given.nodes


def _run_span(raw: Path, record: RunRecord) -> tuple[float | None, float | None]:
    """Return run_start and run_stop on the monotonic clock [s].

    The pair of clock readings behind all stamps of the log maps its start to the monotonic clock; the length of the run
    was measured with the monotonic clock.
    """
    try:
        clocks = json.loads((raw / "clocks.json").read_text())
        events = read_mllog(raw / "mllog.txt").events
        start_s = next(event.time_ms for event in events if event.key == "run_start") / 1000
    except (OSError, ValueError, ParseError, StopIteration):
        return None, None
    start_s += clocks["monotonic_s"] - clocks["wall_s"]
    return start_s, start_s + record.training.run_s if record.training else None


def _time_to_train_all(counted: Sequence[Instance]) -> float | None:
    starts = [one.run_start_monotonic_s for one in counted if one.run_start_monotonic_s is not None]
    stops = [one.run_stop_monotonic_s for one in counted if one.run_stop_monotonic_s is not None]
    return max(stops) - min(starts) if counted and len(starts) == len(stops) == len(counted) else None


def _extent(record: RunRecord, nodes: int, ranks: int) -> Extent:
    return Extent(nodes=nodes, ranks=ranks, accelerators=record.plan.machine.accelerators_of(nodes, ranks))
