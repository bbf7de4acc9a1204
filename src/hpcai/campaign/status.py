"""Progress of a running campaign: stages, runs in progress, Slurm's queue, and the expected end."""

import calendar
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcai.campaign.controller_note import UTC
from hpcai.campaign.doctor import Diagnosis, diagnose
from hpcai.campaign.durations import mean_width
from hpcai.campaign.failures import say_failures
from hpcai.campaign.run_folders import NAMED
from hpcai.campaign.run_progress import Progress, progress_of, say_progress
from hpcai.campaign.states import RunState
from hpcai.core.messages import Message
from hpcai.core.text import say_duration
from hpcai.core.text_table import say_table
from hpcai.slurm.queue import QueuedJob

FROM_MEDIANS = Message(
    "status.from_medians",
    "modelled: median wall times of {runs} finished runs of the same points, {width:.1f} in parallel",
)
NONE_FINISHED = Message("status.none_finished", "no finished run yet for {point}{more}")
FIRST_OF_KIND = Message("status.first_of_kind", "without {runs} that are the first of their kind")
EXPECTED_END = Message("status.expected_end", "Expected end of the measurements: {end}, in {remaining} ({basis})")
NOT_BEFORE = Message(
    "status.not_before", "Expected end of the measurements: not before {end}, in {remaining} ({basis})"
)
TAKE = Message("status.take", "Nothing is running; the remaining measurements take {remaining} ({basis})")
TAKE_AT_LEAST = Message(
    "status.take_at_least", "Nothing is running; the remaining measurements take at least {remaining} ({basis})"
)

WAITING = ("not started", "interrupted")
"""States of remaining measurements; adoptable ones take no time."""


@dataclass(frozen=True)
class Forecast:
    """Remaining time of the measurements."""

    remaining_s: float | None
    """Modelled; None if unknown."""
    basis: str
    """Basis of the forecast, or why there is none."""
    unknown_runs: int = 0
    """Remaining runs without a finished one of their point; the time does not include them."""

    @property
    def shown_basis(self) -> str:
        """The basis, and what the time does not include."""
        return f"{FIRST_OF_KIND(runs=self.unknown_runs)}; {self.basis}" if self.unknown_runs else self.basis


def forecast(states: Sequence[RunState], elapsed_s: Mapping[str, float]) -> Forecast:
    """Return the remaining time of a campaign's measurements.

    Each remaining run of a point takes the median wall time of the finished ones. The sum is divided by the mean number
    of concurrent runs so far. Queue waits and the analysis are not included, nor are runs without a finished one of
    their point: each profile and each weak-scaling group is a point of its own.

    Parameters
    ----------
    states
        States of all planned measurements.
    elapsed_s
        Elapsed time of running measurements, by folder [s].
    """
    left = [one for one in states if one.state in {*WAITING, "under way"}]
    if not left:
        return Forecast(0.0, "all is measured")
    walls: dict[str, list[float]] = defaultdict(list)
    for one in states:
        if one.state == "finished" and one.wall_s is not None:
            walls[one.folder.point].append(one.wall_s)
    known = [one for one in left if one.folder.point in walls]
    median_s = {point: statistics.median(walls[point]) for point in {one.folder.point for one in known}}
    each_s = [max(median_s[one.folder.point] - elapsed_s.get(one.folder.name, 0.0), 0.0) for one in known]
    width = mean_width(_spans(states, elapsed_s))
    remaining_s = max([sum(each_s) / width, *each_s], default=0.0)
    unknown = sorted({one.folder.point for one in left} - median_s.keys())
    if unknown and not remaining_s:
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        return Forecast(None, NONE_FINISHED(point=unknown[0], more=more))
    basis = FROM_MEDIANS(runs=sum(len(walls[point]) for point in median_s), width=width)
    words = f"{basis}; without waiting in queues and without the analysis"
    return Forecast(remaining_s, words, len(left) - len(known))


def _spans(states: Iterable[RunState], elapsed_s: Mapping[str, float]) -> list[tuple[float, float]]:
    """Return start and end of all runs so far by the wall clock [s]."""
    now = time.time()
    spans = [(now - elapsed, now) for elapsed in elapsed_s.values()]
    for one in states:
        if one.wall_s is not None and one.started_utc:
            start = float(calendar.timegm(time.strptime(one.started_utc, UTC)))
            spans.append((start, start + one.wall_s))
    return spans


DONE = ("finished", "adoptable")
FAILED = ("broken down", "damaged")
TROUBLES = 5
"""Number of kinds of failed jobs and of points without a result listed."""
LINES = 30
"""Number of running measurements shown."""


@dataclass(frozen=True)
class Stage:
    """Progress of one stage."""

    name: str
    planned: int
    done: int
    running: int | None
    """None if running jobs are not visible in the results."""
    failed: int
    waiting: int


@dataclass(frozen=True)
class Status:
    """Progress of a campaign."""

    diagnosis: Diagnosis
    stages: tuple[Stage, ...]
    progress: dict[str, Progress]
    """Progress of the running measurements, by folder."""
    forecast: Forecast

    @property
    def is_over(self) -> bool:
        """Whether nothing is running, nor will run by itself."""
        return not self.diagnosis.may_be_under_way


def status_of(results: Path) -> Status:
    """Return the progress of the campaign in a results folder.

    Raises
    ------
    ConfigError
        If the folder does not exist.
    """
    diagnosis = diagnose(results)
    live = [one.folder for one in diagnosis.in_state("under way")]
    progress = {folder.name: progress_of(folder.path) for folder in live}
    elapsed_s = {name: one.elapsed_s for name, one in progress.items() if one.elapsed_s is not None}
    known = diagnosis.knowledge.planned is not None
    expected = forecast(diagnosis.states, elapsed_s) if known else Forecast(None, "the plan is not known")
    return Status(diagnosis, tuple(_stages(diagnosis)), progress, expected)


def _stages(diagnosis: Diagnosis) -> list[Stage]:
    stages = []
    planned = diagnosis.knowledge.planned
    if planned is not None:
        missing = Counter(file.endswith("packed.json") for file in diagnosis.around.missing_data)
        sizes = {"data": len(planned.datasets), "pack": sum(dataset.packed for dataset in planned.datasets)}
        for (name, size), is_packed in zip(sizes.items(), (False, True), strict=True):
            stages.append(Stage(name, size, size - missing[is_packed], None, 0, missing[is_packed]))
    for stage, counts in diagnosis.counts.items():
        done, failed = (sum(counts[state] for state in states) for states in (DONE, FAILED))
        running, total = counts["under way"], counts.total()
        stages.append(Stage(NAMED[stage], total, done, running, failed, total - done - failed - running))
    return stages


def say_status(status: Status) -> str:
    """Return the status as text of about 100 columns."""
    knowledge = status.diagnosis.knowledge
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
    study = f"study {knowledge.planned.study}, " if knowledge.planned else ""
    lines = [f"{knowledge.results}: {study}{knowledge.source}; seen {stamp}", "", *_stage_lines(status.stages)]
    lines += _running_lines(status)
    lines += _queue_lines(status.diagnosis.around.queue)
    lines += _trouble_lines(status.diagnosis)
    lines += ["", _end_line(status)]
    return "\n".join(lines)


def _stage_lines(stages: Sequence[Stage]) -> list[str]:
    rows = []
    for stage in stages:
        running = "not seen" if stage.running is None and stage.waiting else stage.running or "-"
        cells = (stage.planned or "-", stage.done or "-", running, stage.failed or "-", stage.waiting or "-")
        rows.append([stage.name, *map(str, cells)])
    return [say_table(("", "planned", "done", "running", "failed", "waiting"), rows)]


def _running_lines(status: Status) -> list[str]:
    runs = [one for one in status.diagnosis.in_state("under way") if one.live is not None]
    if not runs:
        return []
    lines = ["", "Under way:"]
    for one in runs[:LINES]:
        holder = one.live.holder if one.live else None
        place = f"{holder.host}{f', job {holder.slurm_job}' if holder.slurm_job else ''}" if holder else ""
        lines.append(f"  {one.folder.name} ({place}): {say_progress(status.progress[one.folder.name])}")
    return [*lines, f"  ... and {len(runs) - LINES} more"] if len(runs) > LINES else lines


def _queue_lines(queue: tuple[QueuedJob, ...] | None) -> list[str]:
    if not queue:
        return []
    counts = Counter((job.state, job.reason) for job in queue)
    lines = [
        f"  {count} {state}" + ("" if reason == "None" else f": {reason}") for (state, reason), count in counts.items()
    ]
    return ["", f"Slurm's queue, jobs of this folder: {len(queue)}", *lines]


def _trouble_lines(diagnosis: Diagnosis) -> list[str]:
    lines = [words for words, _ in say_failures(diagnosis.around.failures)]
    lines += [lost.words for lost in diagnosis.lost_points]
    more = [f"  ... and {len(lines) - TROUBLES} more"] if len(lines) > TROUBLES else []
    return (
        ["", "Failed (`hpcai doctor` says what to do):", *(f"  {line}" for line in lines[:TROUBLES]), *more]
        if lines
        else []
    )


def _end_line(status: Status) -> str:
    expected = status.forecast
    if expected.remaining_s is None:
        return f"Expected end of the measurements: not known, {expected.basis}"
    if expected.remaining_s == 0.0:
        return f"Expected end of the measurements: {expected.basis}"
    remaining, basis = say_duration(expected.remaining_s), expected.shown_basis
    if status.is_over:
        take = TAKE_AT_LEAST if expected.unknown_runs else TAKE
        return take(remaining=remaining, basis=basis)
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + expected.remaining_s))
    said = NOT_BEFORE if expected.unknown_runs else EXPECTED_END
    return said(end=end, remaining=remaining, basis=basis)
