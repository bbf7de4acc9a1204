"""Find the MLPerf HPC runs of a results folder, and group them into results and systems."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message, at
from hpcai.metrics.scores.window import find_window
from hpcai.mlperf_hpc.analysis.own_clock import counted_time_s
from hpcai.mlperf_hpc.benchmarks import name_of
from hpcai.mlperf_hpc.submission.model import (
    SUITE,
    Request,
    Result,
    Submission,
    SubmittedSystem,
    is_asked,
    safe_name,
)
from hpcai.mlperf_hpc.submission.run_files import read_submitted_run, require_one_file
from hpcai.mlperf_hpc.submission.weak_groups import weak_systems
from hpcai.records.files import RUN_RECORDS, read_record
from hpcai.records.run import RunRecord
from hpcai.rules.table import rules_of

NO_RUN = Message(
    "collect.no_run",
    "found no run of MLPerf HPC that was asked for (benchmarks {benchmarks}, scales {scales}), expected "
    "runs/BENCHMARK/VARIANT/SCALE/rN/record.json, or groups below weak/",
)
_RUN = re.compile(r"r\d+")


def collect(request: Request) -> Submission:
    """Return the submission contained in a results folder.

    Raises
    ------
    ConfigError
        If the folder does not exist or holds no such run, or runs of one result contradict each other.
    RecordError
        If a record is damaged.
    """
    if not request.results.is_dir():
        raise ConfigError(f"{request.results}: no such folder, expected the results folder of a study")
    skipped: list[str] = []
    records = list(_records(request, skipped))
    strong, weak = list(_systems(request, records)), list(weak_systems(request, skipped))
    if not strong and not weak:
        raise ConfigError(
            at(str(request.results), NO_RUN(benchmarks=_said(request.benchmarks), scales=_said(request.scales)))
        )
    plans = [record.plan for system in (*strong, *weak) for record in system.records]
    division = _one("division", [plan.submission.division for plan in plans], "measure them with one")
    status = _one("status", [plan.submission.status for plan in plans], "measure them with one")
    org = request.org or _one("organisation", [plan.submission.org for plan in plans], "name one with --org")
    rule_set = request.rule_set or _one("rule set", [plan.rule_set for plan in plans], "name one with --rule-set")
    return Submission(
        org=org,
        folder=safe_name(org),
        division=division,
        status=status,
        rule_set=rule_set.removeprefix("hpc_"),
        systems=tuple(sorted((*strong, *weak), key=lambda system: system.name)),
        skipped=tuple(skipped),
    )


def _records(request: Request, skipped: list[str]) -> Iterator[tuple[Path, RunRecord]]:
    """Yield the requested records with their folders; other records of the suite are listed as skipped."""
    for path in sorted(request.results.glob(RUN_RECORDS)):
        if not _RUN.fullmatch(path.parent.name):
            continue
        record = read_record(path)
        benchmark = record.plan.benchmark
        if benchmark.suite != SUITE:
            skipped.append(f"{record.run_id}: of the suite {benchmark.suite}")
        elif not is_asked(request, record):
            skipped.append(f"{record.run_id}: not asked for")
        else:
            yield path.parent, record


def _systems(request: Request, records: Iterable[tuple[Path, RunRecord]]) -> Iterator[SubmittedSystem]:
    """Return one system per scale and variant of the machine, because a system file has one number of nodes."""
    groups: dict[str, dict[str, list[tuple[Path, RunRecord]]]] = {}
    for folder, record in records:
        point, plan = record.plan.point, record.plan
        name = safe_name(f"{request.system or plan.machine.name}_{point.scale}_{point.variant}")
        groups.setdefault(name, {}).setdefault(name_of(plan.benchmark.workload), []).append((folder, record))
    for name, benchmarks in sorted(groups.items()):
        results = tuple(_result(request, name, benchmark, runs) for benchmark, runs in sorted(benchmarks.items()))
        yield SubmittedSystem(name, results, results[0].record.plan.point.nodes)


def _result(request: Request, system: str, benchmark: str, found: Sequence[tuple[Path, RunRecord]]) -> Result:
    require_one_file(request.results, f"{system}/{benchmark}", [record for _, record in found])
    runs = [read_submitted_run(request.results, folder, record) for folder, record in found]
    by_rule = rules_of(SUITE).results.runs_of(runs[0].record.plan.benchmark.workload)
    starts = [(run.record.started_utc, run.record.plan.repetition) for run in runs]
    chosen, note = find_window(starts, [counted_time_s(run.record, run.logged) for run in runs], by_rule)
    return Result(benchmark, "strong", tuple(runs[place] for place in chosen), (), len(runs), note)


def _one(what: str, values: Iterable[str], advice: str) -> str:
    """Return the value shared by all runs."""
    found = sorted(set(values))
    if len(found) > 1:
        raise ConfigError(f"{what}: found {' and '.join(found)} in the runs, expected one for a submission; {advice}")
    return found[0]


def _said(names: Sequence[str]) -> str:
    return ", ".join(names) or "all"
