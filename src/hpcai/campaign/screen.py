"""Status output of a running workflow: a screen or, without a terminal, one line per run and stage."""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hpcai.campaign.journal import Job, Journal
from hpcai.campaign.run_progress import progress_of, say_progress
from hpcai.campaign.stage_times import expect
from hpcai.core.text import say_duration

SHOWN_JOBS = 4


@dataclass
class Scene:
    """The content to show."""

    working: Path
    """The workflow's working folder."""
    journal: Journal
    log: Path
    started_s: float
    """Time of day [s]."""
    before: dict[str, float]
    """Mean job durations in earlier starts, by rule [s]."""
    note: str = ""
    """Events besides the jobs, such as a requested end."""


class Screen(Protocol):
    """Shows a scene repeatedly."""

    def show(self, scene: Scene) -> None:
        """Show the current state."""

    def close(self, scene: Scene) -> None:
        """Show the final state."""


def open_screen() -> Screen:
    """Return the screen for the standard output: a drawable terminal, or anything else."""
    console = Console()
    drawable = sys.stdout.isatty() and not console.is_dumb_terminal
    return LiveScreen(console) if drawable else PlainLines()


class LiveScreen:
    """A screen in a terminal, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def show(self, scene: Scene) -> None:
        """Draw the current state."""
        self._live.update(draw(scene), refresh=True)

    def close(self, scene: Scene) -> None:
        """Draw the final state, and restore the terminal."""
        self.show(scene)
        self._live.stop()


def draw(scene: Scene) -> RenderableType:
    """Return the screen: stages, running jobs, times, and the location of the log."""
    parts: list[RenderableType] = [_stage_table(scene.journal)] if scene.journal.stages else []
    parts += [Text(line, no_wrap=True, overflow="ellipsis") for line in _under_way(scene)]
    parts += [Text(line, style="red") for line in _failures(scene.journal)]
    parts += [Text(_clock_line(scene)), Text(f"log: {scene.log}; Ctrl-C stops cleanly", style="dim")]
    return Group(*parts, *([Text(scene.note, style="bold")] if scene.note else []))


def _stage_table(journal: Journal) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("stage", no_wrap=True)
    table.add_column("")
    for heading in ("done", "failed", "jobs took"):
        table.add_column(heading, justify="right", no_wrap=True)
    now_s = time.time()
    for stage in journal.stages:
        jobs = [job for job in journal.jobs.values() if job.stage == stage]
        total, done, failed = journal.planned_of(stage), _count(jobs, "done"), _count(jobs, "failed")
        took = say_duration(sum(job.seconds(now_s) for job in jobs)) if jobs else ""
        bar = ProgressBar(total=total, completed=done, width=20)
        table.add_row(stage, bar, f"{done} of {total}", Text(str(failed or ""), style="red"), took)
    return table


def _count(jobs: list[Job], state: str) -> int:
    return sum(job.state == state for job in jobs)


def _under_way(scene: Scene) -> Iterator[str]:
    running = scene.journal.in_state("running")
    if not running:
        yield "Snakemake is reading the study and planning the jobs" if not scene.journal.jobs else ""
    for job in running[:SHOWN_JOBS]:
        yield f"{job.stage}: {job.name}"
        yield f"  {_how_far(scene.working, job)}"
    if len(running) > SHOWN_JOBS:
        yield f"... and {len(running) - SHOWN_JOBS} more"


def _how_far(working: Path, job: Job) -> str:
    progress = progress_of(working / job.folder) if job.folder else None
    if progress is None or progress.elapsed_s is None:
        return say_duration(job.seconds(time.time()))
    return say_progress(progress)


def _failures(journal: Journal) -> Iterator[str]:
    failed = journal.in_state("failed")
    for job in failed[-3:]:
        yield f"failed: {job.name}; log: {', '.join(job.logs) or 'none'}"


def _clock_line(scene: Scene) -> str:
    now_s = time.time()
    elapsed = f"elapsed {say_duration(now_s - scene.started_s)}"
    if not scene.journal.planned:
        return elapsed
    expected = expect(scene.journal, scene.before, now_s)
    end = time.strftime("%H:%M", time.localtime(now_s + expected.remaining_s))
    if expected.unknown_jobs:
        least = f"end not before {end}" if expected.remaining_s else "end not known yet"
        return f"{elapsed}; {least} ({expected.unknown_jobs} are the first of their kind)"
    return f"{elapsed}; expected end {end}, in {say_duration(expected.remaining_s)} (modelled from jobs done)"


class PlainLines:
    """One line per finished run, per failed job and per finished stage, for logs and pipes."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def show(self, scene: Scene) -> None:
        """Print what has finished since the last call."""
        for key, words in self._events(scene):
            if key not in self._said:
                self._said.add(key)
                print(f"{time.strftime('%H:%M:%S')} {words}", flush=True)

    def close(self, scene: Scene) -> None:
        """Print the rest."""
        self.show(scene)

    def _events(self, scene: Scene) -> Iterator[tuple[str, str]]:
        journal = scene.journal
        for number, job in journal.jobs.items():
            key = f"{journal.path} {number} {job.started_s} {job.state}"
            if job.state == "failed":
                yield key, f"{job.stage}: {job.name} failed; log: {', '.join(job.logs) or 'none'}"
            elif job.state == "done" and job.is_timed and key not in self._said:
                yield key, f"{job.stage}: {job.name} {outcome_of(scene.working, job)}{say_duration(job.seconds(0.0))}"
        for stage in journal.stages:
            done = [job for job in journal.jobs.values() if job.stage == stage and job.state == "done"]
            if len(done) == journal.planned_of(stage):
                took = say_duration(sum(job.seconds(0.0) for job in done))
                yield f"{journal.path} {stage}", f"{stage}: done, {len(done)} job{'s' * (len(done) != 1)}, {took}"


def outcome_of(working: Path, job: Job) -> str:
    """Return the outcome in the record that a job has published, with remarks; blank without a record."""
    try:
        record = json.loads((working / job.outputs[0]).read_bytes())
        return f"{record['outcome'].replace('_', ' ')}, "
    except (OSError, ValueError, KeyError, IndexError):
        return ""
