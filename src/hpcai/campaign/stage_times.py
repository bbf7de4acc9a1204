"""Time per stage of one workflow start, and the remaining time estimated from finished jobs."""

import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hpcai.campaign.durations import covered_s, mean_width
from hpcai.campaign.journal import Job, Journal
from hpcai.core.files import write_atomically
from hpcai.core.text import say_duration

FILE = "stage_times.json"


@dataclass(frozen=True)
class StageTime:
    """Time of the jobs of one stage."""

    stage: str
    seconds: float
    """Sum over all its jobs [s]; analysis jobs run concurrently."""
    jobs: int
    failed: int
    interrupted: int


@dataclass(frozen=True)
class StageTimes:
    """Times of one start of the workflow."""

    started_s: float
    """Time of day [s]."""
    total_s: float
    """Wall-clock time [s]."""
    without_job_s: float
    """Wall-clock time without a running job [s]: Snakemake's start, its job graph, gaps between jobs."""
    until_first_job_s: float | None
    """The part of it before the first job [s]; None if there was no job."""
    stages: tuple[StageTime, ...]


@dataclass(frozen=True)
class Expectation:
    """Remaining time of a start, modelled from finished jobs."""

    remaining_s: float
    unknown_jobs: int
    """Jobs of rules without a finished job; they are not included."""


def stage_times(journals: Sequence[Journal], started_s: float, ended_s: float) -> StageTimes:
    """Return the distribution of the time.

    Parameters
    ----------
    journals
        Journals of all Snakemake calls of this start, in order.
    started_s, ended_s
        Begin and end of the start, time of day [s].
    """
    jobs = [job for journal in journals for job in journal.jobs.values()]
    by_stage: dict[str, list[Job]] = {stage: [] for journal in journals for stage in journal.stages}
    for job in jobs:
        by_stage.setdefault(job.stage, []).append(job)
    busy_s = covered_s((job.started_s, job.started_s + job.seconds(ended_s)) for job in jobs)
    total_s = ended_s - started_s
    return StageTimes(
        started_s,
        total_s,
        max(total_s - busy_s, 0.0),
        min((max(job.started_s - started_s, 0.0) for job in jobs), default=None),
        tuple(_stage_time(stage, found, ended_s) for stage, found in by_stage.items() if found),
    )


def _stage_time(stage: str, jobs: Sequence[Job], now_s: float) -> StageTime:
    states = Counter(job.state for job in jobs)
    seconds = sum(job.seconds(now_s) for job in jobs)
    return StageTime(stage, seconds, len(jobs), states["failed"], states["interrupted"])


def write_stage_times(times: StageTimes, path: Path) -> None:
    """Write the times as JSON atomically."""
    write_atomically(path, f"{json.dumps(asdict(times), indent=1)}\n".encode())


def say_stage_times(times: StageTimes) -> list[str]:
    """Return the times as a few lines of text."""
    lines = ["Time per stage (sum over its jobs):"]
    for one in times.stages:
        ends = ((one.failed, "failed"), (one.interrupted, "interrupted"))
        bad = "".join(f", {count} {what}" for count, what in ends if count)
        lines.append(f"  {one.stage:<14}{say_duration(one.seconds):>14}  {one.jobs} job{'s' * (one.jobs != 1)}{bad}")
    first = f", {say_duration(times.until_first_job_s)} of it before the first" if times.until_first_job_s else ""
    lines.append(f"  {'no job ran':<14}{say_duration(times.without_job_s):>14}{first}")
    lines.append(f"  {'total':<14}{say_duration(times.total_s):>14}")
    return lines


def seconds_per_job(journals: Iterable[Journal]) -> dict[str, float]:
    """Return the mean time of a finished job of each rule [s]."""
    found: dict[str, list[float]] = defaultdict(list)
    for journal in journals:
        for job in journal.in_state("done"):
            found[job.rule].append(job.seconds(0.0))
    return {rule: statistics.fmean(seconds) for rule, seconds in found.items()}


def expect(journal: Journal, before: dict[str, float], now_s: float) -> Expectation:
    """Return the remaining time of a start, from the mean times of finished jobs.

    Parameters
    ----------
    journal
        Journal of this start.
    before
        Mean job times in earlier starts, by rule [s]; used for rules without a finished job in this one.
    now_s
        Time of day [s].
    """
    typical = {**before, **seconds_per_job([journal])}
    each_s, unknown = list[float](), 0
    for job in journal.in_state("running"):
        each_s += [max(typical[job.rule] - job.seconds(now_s), 0.0)] if job.rule in typical else []
        unknown += job.rule not in typical
    started = Counter(job.rule for job in journal.jobs.values())
    for rule, count in journal.planned.items():
        left = max(count - started[rule], 0)
        each_s += [typical[rule]] * left if rule in typical else []
        unknown += 0 if rule in typical else left
    spans = [(job.started_s, job.started_s + job.seconds(now_s)) for job in journal.jobs.values()]
    width = mean_width(spans) if spans else 1.0
    return Expectation(max([sum(each_s) / width, *each_s], default=0.0), unknown)
