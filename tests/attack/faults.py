"""Faults while a run is measured: signals at random lines and moments, a full disk; one right record is left."""

import os
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from attack import moments
from attack.apart import Outcome, call_apart
from attack.published import folder_problem
from attack.tally import Tally
from unit.measure.test_measure import Run

from hpcai.core.errors import ResultsError
from hpcai.core.machine_lock import PLACE_VARIABLE
from hpcai.data.manifest import read_manifest
from hpcai.measure import claim
from hpcai.records.files import read_record

MEASURE = str(Path(read_record.__code__.co_filename).parent)
LINES_PER_FAULT = 5
"""A run whose rank does nothing takes a second: so many signals at random lines for each at a random moment."""
LIMIT_S = 180
DISK = "1m"


def attack(folder: Path, random_numbers: random.Random, count: int) -> Tally:
    """Hit runs that are under way, start them again as the workflow would, and look what is published.

    Parameters
    ----------
    folder
        An empty folder.
    random_numbers
        Whom to hit, when, and how.
    count
        Faults at random moments; there are five times as many at random lines.
    """
    tally, lock = Tally("faults"), folder / "lock"
    lock.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(PLACE_VARIABLE, str(lock))
        patch.delenv("SLURM_JOB_ID", raising=False)
        moments.attack(tally, folder, random_numbers, count)
        patch.setattr(claim, "WAIT_S", 0.05)
        patch.setattr(claim, "REFRESH_S", 0.1)
        hit_lines(tally, folder, random_numbers, LINES_PER_FAULT * count)
        fill_disk(tally, random_numbers, count)
    return tally


def hit_lines(tally: Tally, folder: Path, random_numbers: random.Random, count: int) -> None:
    """Send a signal to the supervisor at a line of its own code, drawn by chance, more often near the publication."""
    lines = _lines_of(folder / "lines")
    for number in range(count):
        first = 0 if random_numbers.random() < 0.5 else int(0.7 * lines)
        line, sent = random_numbers.randrange(first, lines), random_numbers.choice([signal.SIGKILL, signal.SIGTERM])
        with _run_in(folder / f"line{number}") as run:
            call_apart(partial(_measure_until, run, line, sent), limit_s=LIMIT_S)
            again = call_apart(partial(_measure, run), limit_s=LIMIT_S)
            _judge(tally, "a line", f"{sent.name} at line {line} of {lines}", again, _problems(run))


@contextmanager
def _run_in(folder: Path) -> Iterator[Run]:
    folder.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        yield Run(folder, patch)


def _lines_of(folder: Path) -> int:
    with _run_in(folder) as run:
        counted = call_apart(partial(_measure_until, run, -1, signal.SIGKILL), limit_s=LIMIT_S)
    if counted.ending != "returned":
        raise AssertionError(f"a run that nobody hit ended badly: {counted}")
    return int(counted.value)


def _measure_until(run: Run, line: int, sent: signal.Signals) -> int:
    """Measure, and send a signal to this process at the line of that number; return how many lines there were."""
    seen = 0

    def count(frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(MEASURE):
            return None
        if event == "line":
            seen += 1
            if seen == line:
                os.kill(os.getpid(), sent)
        return count

    sys.settrace(count)
    try:
        run.measure()
    finally:
        sys.settrace(None)
    return seen


def _measure(run: Run) -> str:
    return str(run.measure().outcome)


def _problems(run: Run) -> str:
    """Say what is wrong with a run that was measured to its end; blank if nothing is."""
    problem = folder_problem(run.folder)
    if problem:
        return problem
    record, scratch = read_record(run.folder / "record.json"), run.folder.parent / "scratch"
    if record.training is None or record.training.run_s != 0.1 or record.training.seed != run.plan.seed:
        return f"the training is not the one that was reported: {record.training}"
    if record.provenance.data_digest != read_manifest(run.inputs.manifest).digest:
        return "the data are others"
    left = [path.name for path in scratch.iterdir()] if scratch.exists() else []
    return f"left in the scratch folder: {left}" if left else ""


def _judge(tally: Tally, target: str, what: str, again: Outcome, problem: str) -> None:
    if again.ending == "traceback" or "Traceback (most recent" in again.output:
        tally.add(target, what, "traceback", f"{again.words} {again.output}")
    elif again.ending != "returned":
        tally.add(target, what, "silent", f"the next start: {again.ending}: {again.words} {again.output}")
    else:
        tally.add(target, what, "silent" if problem else "survived", problem)


def fill_disk(tally: Tally, random_numbers: random.Random, count: int) -> None:
    """Let the file system of the results be full while a run is measured, and make room for the next start."""
    for _ in range(count):
        with tempfile.TemporaryDirectory(prefix="hpcai-attack-disk-") as place:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", place]
            if subprocess.run(mount, capture_output=True, check=False).returncode:
                print("full disk: not tried, because no file system may be mounted here", flush=True)
                return
            try:
                _measure_on_full_disk(tally, Path(place), random_numbers.randrange(0, 40_000))
            finally:
                subprocess.run(["umount", "--lazy", place], check=True)


def _measure_on_full_disk(tally: Tally, place: Path, free_bytes: int) -> None:
    with _run_in(place / "study") as run:
        filler, space = place / "filler", os.statvfs(place)
        filler.write_bytes(bytes(max(space.f_bavail * space.f_frsize - free_bytes, 0)))
        first = call_apart(partial(_measure_or_say, run), limit_s=LIMIT_S)
        filler.unlink()
        if first.ending == "traceback":
            tally.add("a full disk", f"{free_bytes} bytes free", "traceback", first.words)
            return
        again = call_apart(partial(_measure_again, run), limit_s=LIMIT_S)
        _judge(tally, "a full disk", f"{free_bytes} bytes free", again, _problems(run))


def _measure_or_say(run: Run) -> str:
    try:
        return _measure(run)
    except ResultsError as error:
        return str(error)


def _measure_again(run: Run) -> str:
    """Measure again as a user does: what broke down is tried again."""
    from hpcai.measure.publish import forget_breakdowns

    if (run.folder / "record.json").exists():
        forget_breakdowns(run.folder)
    return _measure(run)
