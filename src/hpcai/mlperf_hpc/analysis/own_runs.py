"""Present runs of our own studies as a round, read from their MLPerf logs like published ones."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hpcai.core.errors import RecordError
from hpcai.core.messages import Message
from hpcai.metrics.quietness import stall_remark
from hpcai.metrics.scores.window import find_window
from hpcai.mlperf_hpc.analysis.own_clock import counted_time_s, judge_clock, timed_by_group, timed_by_record
from hpcai.mlperf_hpc.analysis.targets import OWN_DATA, OWN_STALL, OWN_TARGET, QUALITY
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
from hpcai.mlperf_hpc.compliance.choose import Choice
from hpcai.mlperf_hpc.compliance.log_check import check_log
from hpcai.mlperf_hpc.compliance.model import Finding, LogVerdict
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Repair, Round, Submission, System
from hpcai.mlperf_hpc.rounds.runs import read_run
from hpcai.parsers.mllog import TOKEN, Mllog, read_mllog
from hpcai.records.files import check_raw_file, read_part, read_record
from hpcai.records.run import FINISHED, RunRecord
from hpcai.records.weak import WeakGroup
from hpcai.rules.table import rules_of

NO_RUN = Message("own_runs.no_run", "found no run of MLPerf HPC")
NO_LOG = Message("own_runs.no_log", "no log: {reason}")

SUITE = "mlperf_hpc"
LOG = "raw/mllog.txt"
OUTSIDE = "run_outside_window"
"""Kind of the normalised entry."""
OF_RECORD = "record of the run"
"""Rule of the finding that a run left no log."""


class OwnRun(NamedTuple):
    """A run record and its log; the log is None if the run failed before writing one."""

    record: RunRecord
    log: Mllog | None

    @property
    def folder(self) -> str:
        """Folder of the run's configuration, relative to the results folder; weak-scaling instances have their own."""
        plan = self.record.plan
        above = "weak" if plan.kind == "weak" else "runs"
        return f"{above}/{plan.point.benchmark}/{plan.point.variant}/{plan.point.scale}"

    @property
    def source(self) -> str:
        """The log, relative to the results folder."""
        return f"{self.folder.partition('/')[0]}/{self.record.run_id}/{LOG}"


class OwnGroup(NamedTuple):
    """A weak-scaling group and its instances."""

    group: WeakGroup
    runs: tuple[OwnRun, ...]


def read_own_runs(records: Iterable[Path]) -> list[OwnRun]:
    """Read run records and their logs; runs of other suites are skipped.

    Parameters
    ----------
    records
        Files ``record.json``, each next to its folder ``raw``.

    Raises
    ------
    RecordError, ParseError
        If a record or a log is damaged.
    """
    runs = []
    for path in records:
        record, log = read_record(path), path.parent / LOG
        if record.plan.benchmark.suite == SUITE:
            runs.append(OwnRun(record, read_own_log(record, log)))
    return runs


def read_own_log(record: RunRecord, log: Path) -> Mllog | None:
    """Read a run's log, checked against its record; None if the run failed before logging anything.

    Raises
    ------
    ParseError
        If the log was changed or lost since, or is damaged although the run finished.
    """
    check_raw_file(record, log)
    if record.outcome not in FINISHED and not (log.exists() and TOKEN.encode() in log.read_bytes()):
        return None
    return read_mllog(log)


def read_own_groups(paths: Iterable[Path]) -> list[OwnGroup]:
    """Read weak-scaling groups with the records and logs of their instances; groups of other suites are skipped.

    Parameters
    ----------
    paths
        Files ``group.json``, each above its folders ``i1``, ``i2``, ...

    Raises
    ------
    RecordError, ParseError
        If a group, a record or a log is damaged.
    """
    groups = []
    for path in paths:
        group = read_part(WeakGroup, path)
        runs = read_own_runs(path.parent / f"i{number}" / "record.json" for number in range(1, group.instances + 1))
        if runs:
            groups.append(OwnGroup(group, tuple(runs)))
    return groups


def own_round(points: Sequence[OwnRun], weak: Sequence[OwnGroup] = ()) -> CheckedRound:
    """Return the runs of a study as a round with verdicts.

    A submission is a benchmark file at one scale in one variant. Its system name joins the machine with these, because
    two of them are never the same result. Of more runs than the rules count it holds their window, as a submission
    would; the others are listed as repairs. A run that left no log is one without a time that does not comply, as an
    empty log of a published round is; where no run left one, there is no submission. A target other than the official
    one is attached to each run, which separates runs on small data from official ones. If a log's times contradict its
    record, the log does not comply and none of its times counts. Method: measured.

    Parameters
    ----------
    points
        Timed runs of one study and one rule set.
    weak
        Weak-scaling groups of the same study; instances that do not count appear as pruned.

    Raises
    ------
    RecordError
        If there is no run, or if the runs are of several studies or rule sets.
    """
    runs = [*points, *(run for group in weak for run in group.runs)]
    study = _only([run.record.plan.study for run in runs], "study")
    rule_set = _only([run.record.plan.rule_set for run in runs], "rule set").removeprefix("hpc_")
    groups: dict[tuple[str, str, str], list[OwnRun]] = {}
    for run in points:
        point = run.record.plan.point
        groups.setdefault((point.benchmark, point.variant, point.scale), []).append(run)
    outside: list[Repair] = []
    windows = [_window(group, outside) for group in groups.values()]
    submissions = [_submit(study, group) for group in windows if any(run.log for run in group)]
    submissions += [_submit_group(study, group) for group in weak if any(run.log for run in group.runs)]
    submissions.sort(key=lambda one: (one.benchmark, one.org, one.system_name))
    logged = {run.source: run for one in submissions for run in (*one.runs, *one.pruned)}
    made = Round(
        name=study,
        source="runs",
        layout="flat",
        submissions=tuple(submissions),
        systems=tuple(one.system for one in submissions if one.system),
        repairs=(*_repairs(runs, logged.keys()), *outside),
    )
    verdicts = {run.source: _judge(run, logged[run.source], rule_set) for run in runs if run.source in logged}
    return CheckedRound(made, Choice(rule_set, f"the rule set of study {study}"), verdicts)


def _judge(run: OwnRun, logged: LoggedRun, rule_set: str) -> LogVerdict:
    """Return the verdict on the log of a run; without a log, it does not comply."""
    if run.log is None:
        return LogVerdict(run.source, rule_set, False, (Finding(run.source, None, "log", OF_RECORD, logged.untimed),))
    return judge_clock(check_log(run.log, rule_set, source=run.source), logged)


def _only(names: Sequence[str], what: str) -> str:
    found = sorted(set(names))
    if len(found) != 1:
        said = f"found {', '.join(found)}" if found else NO_RUN()
        raise RecordError(f"run records: {said}, expected runs of one {what}; give the records of one study")
    return found[0]


def _window(group: Sequence[OwnRun], outside: list[Repair]) -> list[OwnRun]:
    """Return the runs of a result: all of them, or the window of those that the rules count.

    The runs outside of the window are added to the repairs.
    """
    by_rule = rules_of(SUITE).results.runs_of(group[0].record.plan.benchmark.workload)
    if len(group) <= by_rule:
        return list(group)
    starts = [(run.record.started_utc, run.record.plan.repetition) for run in group]
    chosen, note = find_window(starts, [counted_time_s(run.record, _logged(run)) for run in group], by_rule)
    for place, run in enumerate(group):
        if run.log and place not in chosen:
            outside.append(Repair(run.source, "whole file", OUTSIDE, note, "the run is left out"))
    return [run for place, run in enumerate(group) if place in chosen]


def _submit(study: str, group: Sequence[OwnRun]) -> Submission:
    """Build the submission of one benchmark file at one scale in one variant."""
    first = group[0].record
    point = first.plan.point
    name = f"{first.plan.machine.name}_{point.benchmark}_{point.variant}_{point.scale}"
    runs = sorted(map(_logged, group), key=lambda run: run.number)
    return Submission(
        origin=study,
        method="measured",
        org=first.plan.submission.org,
        system_name=name,
        folder=group[0].folder,
        benchmark=next((run.benchmark for run in runs if run.benchmark), ""),
        scaling="strong",
        runs=tuple(runs),
        pruned=(),
        system=_system(name, first),
        scaling_factor=None,
    )


def _submit_group(study: str, own: OwnGroup) -> Submission:
    """Build the submission of one weak-scaling group; its system is the total of all instances."""
    alone = _submit(study, own.runs)
    logged = timed_by_group(alone.runs, own.group)
    point, whole = own.runs[0].record.plan.point, own.group.whole_extent
    machine = own.runs[0].record.plan.machine.name
    name = f"{machine}_{point.benchmark}_{point.variant}_{own.group.instances}x{point.scale}"
    counted = {instance.number for instance in own.group.counted_results()}
    assert alone.system is not None
    per_node = whole.ranks // whole.nodes
    system = replace(
        alone.system,
        name=name,
        nodes=whole.nodes,
        processors_per_node=None if alone.system.processors_per_node is None else per_node,
        accelerators_per_node=whole.accelerators_per_node,
        all_accelerators=whole.accelerators,
    )
    return replace(
        alone,
        system_name=name,
        scaling="weak",
        runs=tuple(run for run in logged if run.number in counted),
        pruned=tuple(run for run in logged if run.number not in counted),
        system=system,
    )


def _logged(own: OwnRun) -> LoggedRun:
    """Return a run as logged; one that left no log is as one that was lost before its first line."""
    record, log = own.record, own.log
    run = read_run(log or Mllog(own.source, (), (), 0, ends_with_newline=True), own.source, record.plan.repetition)
    run = timed_by_record(run, record) if log else replace(run, untimed=NO_LOG(reason=record.reason), repairs=())
    target = record.plan.benchmark.target.value
    settings: dict[str, object] = {**run.settings, OWN_DATA: record.data_source, OWN_STALL: stall_remark(record)}
    if run.benchmark not in QUALITY or target != QUALITY[run.benchmark].target:
        settings[OWN_TARGET] = target
    return replace(run, settings=settings)


def _system(name: str, record: RunRecord) -> System:
    """Return the machine of a run: nodes and devices from the plan, names as observed."""
    plan, facts = record.plan, record.provenance.machine_facts
    accelerated = plan.machine.device.kind == "gpu"
    return System(
        source="",
        name=name,
        fields={"system_name": plan.machine.title, "status": plan.submission.status, **facts},
        division=plan.submission.division,
        nodes=plan.point.nodes,
        processors_per_node=None if accelerated else plan.point.ranks_per_node,
        accelerators_per_node=plan.accelerators_per_node,
        accelerator=str(facts.get("accelerators") or plan.machine.device.model) if accelerated else "",
        processor=str(facts.get("cpu_model") or ""),
    )


def _repairs(runs: Sequence[OwnRun], counted: Container[str]) -> list[Repair]:
    lost = [
        Repair(
            run.source, "whole file", "run_without_log", NO_LOG(reason=run.record.reason),
            "the run has no time" if run.source in counted else "the run is left out",
        )
        for run in runs
        if run.log is None
    ]  # fmt: skip
    shared = sorted({run.record.plan.machine.name for run in runs if run.record.plan.machine.device.kind == "cpu"})
    parts = [
        Repair("runs", name, "rank_as_processor", "ranks on cores of a machine without accelerators", "each is a unit")
        for name in shared
    ]
    return lost + parts
