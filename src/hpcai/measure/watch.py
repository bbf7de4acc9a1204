"""Runs a launcher and watches it: time limits, signs of life, progress, and no process left behind."""

import ctypes
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from hpcai.config.study import Limits

ATTEMPT_VARIABLE = "HPCAI_ATTEMPT"
POLL_S = 0.2
GRACE_S = 7.0
"""Time for a launcher to end its ranks: horovodrun takes up to 5 s, and Slurm kills 30 s after its first signal."""
SEEN_S = 1.0
"""Of the time between two looks so much counts as silence of the ranks: what is longer was not watched."""
LATE_S = 5.0
"""A look that comes so late is noted."""
STOOD_STILL_S = 30.0
"""A supervisor that did not look for so long was stopped, as was what it watches (scontrol suspend, a suspended virtual
machine), and the times of the run hold the pause. On a busy node looks, due every 0.2 s, come late by seconds only."""
KILLED_S = 3.0
"""Time for killed processes to be gone."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_ADOPTER = "systemd"
"""Adopts processes of its user, where it is not process 1, which adopts all others (systemd --user)."""
logger = logging.getLogger(__name__)

Verdict = Literal["ended", "timed_out", "stalled", "stood_still"]


@dataclass(frozen=True)
class Ending:
    """How a launcher ended.

    ``stood_still_s`` is the longest time for which nobody watched it [s]; the verdict stood_still says that this was
    too long, and that it was ended therefore.
    """

    verdict: Verdict
    exit_status: int
    wall_s: float
    started_monotonic_s: float
    stood_still_s: float = 0.0

    @property
    def is_bad(self) -> bool:
        """Whether the ranks did not end well by themselves."""
        return self.verdict != "ended" or self.exit_status != 0


def watch(
    command: list[str],
    raw: Path,
    limits: Limits,
    environment: dict[str, str],
    on_poll: Callable[[], None] = lambda: None,
) -> Ending:
    """Start ``command``, wait for its end, end it at a limit.

    Parameters
    ----------
    command
        Launcher and program.
    raw
        Folder of the attempt: output.log goes there, and `heartbeat` is expected there.
    limits
        Longest run and longest time without a heartbeat [s].
    environment
        Added to this process's; ``HPCAI_ATTEMPT`` marks all processes of the run, so that none outlives it here.
    on_poll
        Called a few times per second, beside the watch; what it raises ends the launcher and is raised here.
    """
    all_variables = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
    started = time.monotonic()
    with (raw / "output.log").open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=all_variables,
            start_new_session=True,
            preexec_fn=_end_with(os.getpid()),  # noqa: PLW1509  it takes no lock
        )
        try:
            with _looking(_Looks(raw / "heartbeat", on_poll)) as looks:
                verdict, stood_still_s = _wait(process, looks, limits)
        finally:
            # Also when this process is interrupted: a launcher must not go on without its supervisor.
            _end(process)
            end_marked_processes(environment[ATTEMPT_VARIABLE])
    return Ending(verdict, process.wait(), time.monotonic() - started, started, stood_still_s)


def _end_with(supervisor: int) -> Callable[[], None]:
    """Return what lets a launcher be told to end when its supervisor is killed (prctl(2), PR_SET_PDEATHSIG).

    The kernel takes the thread that starts the launcher for its parent: it has to live as long as the launcher.
    """

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)

    return prepare


class _Looks:
    """Looks for signs of life in its own thread: a file system that hangs must not hold up the watch."""

    def __init__(self, heartbeat: Path, on_poll: Callable[[], None]) -> None:
        self._heartbeat, self._on_poll = heartbeat, on_poll
        self.ended = threading.Event()
        self.beats, self._seen_ns = 0, 0
        self.error: BaseException | None = None

    def go_on(self) -> None:
        """Look until told to end; what is raised is kept for the watch."""
        try:
            while not self.ended.wait(POLL_S):
                self._look()
            self._on_poll()
        except BaseException as error:
            self.error = error

    def _look(self) -> None:
        self._on_poll()
        # The file's own time only tells that it changed: wall clocks may jump.
        try:
            changed_ns = self._heartbeat.stat().st_mtime_ns
        except OSError:  # not there yet, or its file system does not answer now
            return
        if changed_ns != self._seen_ns:
            self.beats, self._seen_ns = self.beats + 1, changed_ns


@contextmanager
def _looking(looks: _Looks) -> Iterator[_Looks]:
    thread = threading.Thread(target=looks.go_on, name="looks", daemon=True)
    thread.start()
    try:
        yield looks
    finally:
        looks.ended.set()
        thread.join(timeout=KILLED_S)


def _wait(process: subprocess.Popen[bytes], looks: _Looks, limits: Limits) -> tuple[Verdict, float]:
    """Return how the wait ended, and the longest time between two looks [s]."""
    started = time.monotonic()
    # This clock goes on while the machine is suspended (clock_gettime(2)).
    looked_s, longest_s = time.clock_gettime(time.CLOCK_BOOTTIME), 0.0
    silent_s, beats = 0.0, 0
    while True:
        has_ended = process.poll() is not None
        before_s, looked_s = looked_s, time.clock_gettime(time.CLOCK_BOOTTIME)
        gap_s = looked_s - before_s
        longest_s = max(longest_s, gap_s)
        if gap_s > LATE_S:
            logger.warning("the supervisor stood still for %.0f s", gap_s)
        if gap_s > STOOD_STILL_S:
            return "stood_still", longest_s
        if has_ended:
            return "ended", longest_s
        if looks.error is not None:
            raise looks.error
        if time.monotonic() - started > limits.run_s:
            return "timed_out", longest_s
        silent_s, beats = silent_s + min(gap_s, SEEN_S) if looks.beats == beats else 0.0, looks.beats
        if silent_s > limits.stall_s:
            return "stalled", longest_s
        time.sleep(POLL_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a launcher: politely first, so that it ends its ranks."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        # Reaped here, where its exit status is noted.
        process.wait()


def end_marked_processes(attempt: str) -> list[int]:
    """Kill whatever still runs on this node for ``attempt``; return the process ids."""
    left = list(_marked(attempt))
    for process in left:
        logger.warning("process %d of attempt %s was still running and is killed", process.pid, attempt)
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=KILLED_S)
    return [process.pid for process in left]


def _marked(attempt: str) -> Iterable[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.environ().get(ATTEMPT_VARIABLE) == attempt and process.pid != os.getpid():
                yield process
        except psutil.Error:
            continue


def end_orphans() -> list[int]:
    """Kill what still runs on this node of runs whose supervisor and launcher are gone; return the process ids.

    To be called while nothing is timed here. Only a run all of whose processes here were adopted by init counts: what
    has any other parent may belong to a supervisor that lives, here or on another node that shares this one.
    """
    runs: dict[str, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        attempt = _attempt_of(process)
        if attempt:
            runs.setdefault(attempt, []).append(process)
    own = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    ended = []
    for attempt, processes in sorted(runs.items()):
        if own.isdisjoint(process.pid for process in processes) and all(map(_is_adopted, processes)):
            ended += end_marked_processes(attempt)
    return ended


def _attempt_of(process: psutil.Process) -> str:
    """Return the attempt that a process of this user belongs to; blank if it belongs to none."""
    try:
        return process.environ().get(ATTEMPT_VARIABLE, "") if process.uids().real == os.getuid() else ""
    except psutil.Error:
        return ""


def _is_adopted(process: psutil.Process) -> bool:
    """Return whether a process, or the first of those above it in its run, lost its parent."""
    try:
        attempt, parent = _attempt_of(process), process.parent()
        while parent is not None and _attempt_of(parent) == attempt:
            parent = parent.parent()
        return parent is not None and (parent.pid == 1 or parent.name() == _ADOPTER)
    except psutil.Error:
        # It ended meanwhile: the next run will see.
        return False
