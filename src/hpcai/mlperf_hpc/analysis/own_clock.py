"""Check the times of an own run's log against those of its record.

Log durations are differences of time stamps, which a step of the wall clock during the run distorts. Record durations
are differences of a monotonic clock. If they differ, no time of the log counts.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from hpcai.core.messages import Message
from hpcai.mlperf_hpc.analysis.run_quantities import quantities_of
from hpcai.mlperf_hpc.analysis.weak_pruning import time_to_train_all
from hpcai.mlperf_hpc.compliance.model import Finding, LogVerdict
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Repair, Span
from hpcai.records.run import FINISHED, RunRecord, TrainingReport
from hpcai.records.weak import WeakGroup

CLOCKS_DIFFERED = Message(
    "own_clock.clocks_differed", "{part}: {logged} by the log, {measured_s:.4g} s by the monotonic clock"
)

ALLOWED_S, ALLOWED_RATIO = 0.5, 0.01
"""Tolerance between a logged and a measured duration: the time between a log line and the clock reading."""
CLOCKS_DIFFER = "clocks_differ"
"""Kind of the normalised entry."""
_RULE = "monotonic clock of the record"


class _Part(NamedTuple):
    """A part of a run as timed by log and record [s]; ``slack_s`` is the run's time outside all such parts."""

    name: str
    logged_s: float
    measured_s: float
    slack_s: float = 0.0

    @property
    def differs(self) -> bool:
        """Whether the log must be wrong; true also if it has no time at all."""
        allowed_s = ALLOWED_S + ALLOWED_RATIO * self.measured_s + self.slack_s
        return not abs(self.logged_s - self.measured_s) <= allowed_s

    @property
    def words(self) -> str:
        """Both values."""
        logged = "no time" if math.isnan(self.logged_s) else f"{self.logged_s:.4g} s"
        return CLOCKS_DIFFERED(part=self.name, logged=logged, measured_s=self.measured_s)


def timed_by_record(run: LoggedRun, record: RunRecord) -> LoggedRun:
    """Return the run of a log, without its times if any of them contradicts the record.

    Compared are the whole run, initialisation, staging, each epoch, each evaluation and the remainder: all times that
    the tables of rounds use. A part may differ by `ALLOWED_S` and `ALLOWED_RATIO`, plus the time that the run spent
    outside its parts, such as a log line held up by the file system.
    """
    differing = [part for part in _parts(run, record) if part.differs]
    if not differing:
        return run
    worst = max(differing, key=lambda part: (math.isnan(part.logged_s), abs(part.logged_s - part.measured_s)))
    return _without_times(run, worst.words)


def timed_by_group(runs: Sequence[LoggedRun], group: WeakGroup) -> tuple[LoggedRun, ...]:
    """Return the instances of a weak-scaling group, without their times if their span contradicts the group's.

    Each process stamps its log by the wall clock at its own start, so a clock step between two starts shifts one log
    against the other. Groups on several nodes have no common monotonic clock and are not compared.
    """
    counted = {instance.number for instance in group.counted_results()}
    spans = [run.run for run in runs if run.number in counted and run.run is not None]
    measured_s = group.time_to_train_all_monotonic_s
    if measured_s is None or len(spans) < len(counted):
        return tuple(runs)
    together = _Part("first run_start to last run_stop", time_to_train_all(spans), measured_s)
    return tuple(_without_times(run, together.words) for run in runs) if together.differs else tuple(runs)


def counted_time_s(record: RunRecord, run: LoggedRun | None) -> float | None:
    """Return the time to train with which a run counts [s]: its record's, or None if no time of its log counts."""
    return None if run is None or run.untimed else record.time_to_train_s


def judge_clock(verdict: LogVerdict, run: LoggedRun) -> LogVerdict:
    """Return the verdict of a log; it does not comply if its times contradict the run's."""
    if not run.untimed:
        return verdict
    finding = Finding(run.source, None, "time_ms", _RULE, run.untimed)
    return replace(verdict, complies=False, findings=(*verdict.findings, finding))


def _parts(run: LoggedRun, record: RunRecord) -> Iterator[_Part]:
    training, beside_s = record.training, 0.0
    if training is not None:
        beside_s = _beside_s(record, training)
        if record.outcome in FINISHED or run.run is not None:
            yield _Part("run_start to run_stop", _duration_s(run.run), training.run_s)
            # Parts that a clock step shifted against each other cover less; the checks of single parts cannot see that.
            covered_s = max(quantities_of(run).extra_s, beside_s)
            yield _Part("time beside epochs, evaluations and staging", covered_s, beside_s)
        if run.init_s is not None:
            yield _Part("init_start to init_stop", run.init_s, training.init_s)
        if run.staging is not None:
            slack_s = beside_s if training.staging.on_clock else _around_s(record, training)
            yield _Part("staging", run.staging.duration_s, training.staging.staging_s, slack_s)
    logged = {span.epoch: span for span in run.epochs}
    evaluations = {span.epoch: span for span in run.evaluations}
    for epoch in record.epochs:
        measured_s = epoch.train_s + (epoch.evaluation_s or 0.0)
        yield _Part(f"epoch {epoch.epoch}", _duration_s(logged.get(epoch.epoch)), measured_s, beside_s)
        if epoch.evaluation_s is not None:
            evaluated_s = _duration_s(evaluations.get(epoch.epoch))
            yield _Part(f"evaluation of epoch {epoch.epoch}", evaluated_s, epoch.evaluation_s)


def _duration_s(span: Span | None) -> float:
    return math.nan if span is None else span.duration_s


def _beside_s(record: RunRecord, training: TrainingReport) -> float:
    """Return the time between run_start and run_stop outside all parts of the run [s]."""
    staging_s = training.staging.staging_s if training.staging.on_clock else 0.0
    return max(training.run_s - staging_s - (record.train_s or 0.0) - (record.evaluation_s or 0.0), 0.0)


def _around_s(record: RunRecord, training: TrainingReport) -> float:
    """Return the time outside run_start to run_stop and outside all parts, for a run that stages first [s].

    A launch that was not timed is part of it.
    """
    known_s = (record.launch_s or 0.0) + training.import_s + training.init_s + training.staging.staging_s
    return max(record.wall_s - known_s - training.run_s, 0.0)


def _without_times(run: LoggedRun, found: str) -> LoggedRun:
    repair = Repair(run.source, "time_ms", CLOCKS_DIFFER, found, "no time of this run counts")
    return replace(run, run=None, untimed=f"no time counts: {found}", repairs=(*run.repairs, repair))
