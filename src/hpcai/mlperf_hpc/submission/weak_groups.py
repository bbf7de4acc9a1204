"""Find the weak-scaling groups of a results folder: concurrent instances, with pruned ones listed separately."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hpcai.core.errors import ConfigError
from hpcai.mlperf_hpc.analysis.own_clock import timed_by_group
from hpcai.mlperf_hpc.benchmarks import name_of
from hpcai.mlperf_hpc.submission.model import (
    SUITE,
    Request,
    Result,
    SubmittedRun,
    SubmittedSystem,
    is_asked,
    safe_name,
)
from hpcai.mlperf_hpc.submission.run_files import read_submitted_run, require_one_file
from hpcai.records.files import read_part, read_record
from hpcai.records.run import RunRecord
from hpcai.records.weak import GROUP, WeakGroup
from hpcai.rules.table import rules_of


def weak_systems(request: Request, skipped: list[str]) -> Iterator[SubmittedSystem]:
    """Yield a system for each group size on the machine; its nodes are those of all instances together.

    Raises
    ------
    RecordError
        If the record of a group or of an instance is damaged or missing.
    ConfigError
        If two groups would share a folder, or the groups of a system have different numbers of nodes.
    """
    systems: dict[str, list[tuple[WeakGroup, Result]]] = {}
    for path in sorted(request.results.glob(f"weak/*/*/*/{GROUP}")):
        group = read_part(WeakGroup, path)
        runs = [_instance(request.results, path.parent, number) for number in range(1, group.instances + 1)]
        record = runs[0].record
        if record.plan.benchmark.suite != SUITE or not is_asked(request, record):
            skipped.append(f"weak/{group.group}: not asked for, or of another suite")
            continue
        result = _result(group, _timed_together(group, runs))
        point = record.plan.point
        base = request.system or record.plan.machine.name
        name = safe_name(f"{base}_{group.instances}x{point.scale}_{point.variant}")
        systems.setdefault(name, []).append((group, result))
    for name, found in sorted(systems.items()):
        yield _system(request.results, name, found)


def _instance(results: Path, folder: Path, number: int) -> SubmittedRun:
    own = folder / f"i{number}"
    return read_submitted_run(results, own, read_record(own / "record.json"))


def _timed_together(group: WeakGroup, runs: Sequence[SubmittedRun]) -> list[SubmittedRun]:
    timed = {run.number: run for run in timed_by_group([run.logged for run in runs if run.logged], group)}
    return [replace(run, logged=timed.get(run.number)) for run in runs]


def _result(group: WeakGroup, runs: list[SubmittedRun]) -> Result:
    counts = {instance.number for instance in group.counted_results()}
    workload = runs[0].record.plan.benchmark.workload
    by_rule = rules_of(SUITE).results.runs_of(workload)
    counted = tuple(run for run in runs if run.number in counts)
    pruned = tuple(run for run in runs if run.number not in counts)
    few = "" if len(counted) >= by_rule else f"{len(counted)} of the {by_rule} instances that the rules require"
    return Result(name_of(workload), "weak", counted, pruned, group.instances, few)


def _system(results: Path, name: str, found: list[tuple[WeakGroup, Result]]) -> SubmittedSystem:
    by_benchmark: dict[str, list[RunRecord]] = {}
    for _, result in found:
        by_benchmark.setdefault(result.benchmark, []).append(result.record)
    for benchmark, records in by_benchmark.items():
        require_one_file(results, f"{name}/weak/{benchmark}", records)
    whole = found[0][0].whole_extent
    nodes = {group.whole_extent.nodes for group, _ in found}
    if len(nodes) > 1:
        raise ConfigError(
            f"{results}: found groups on {' and '.join(map(str, sorted(nodes)))} nodes for {name}, expected one number "
            "for a system file; name the benchmarks apart with --benchmark"
        )
    results_by_benchmark = sorted((result for _, result in found), key=lambda result: result.benchmark)
    return SubmittedSystem(name, tuple(results_by_benchmark), whole.nodes, whole)
