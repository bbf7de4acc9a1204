"""Run a launcher and watch it: time limits, heartbeats, progress, and no process left behind."""

import ctypes
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from hpcai.config.study import Limits
from hpcai.core.programs import END_LIMIT_S

ATTEMPT_VARIABLE = "HPCAI_ATTEMPT"
POLL_S = 0.2
GRACE_S = END_LIMIT_S + 2.0
"""Time for a launcher to end its ranks and itself; Slurm kills 30 s after its first signal (KillWait)."""
SEEN_S = 1.0
"""Largest time between two checks that counts as silence of the ranks; beyond it, nobody was watching."""
LATE_S = 5.0
"""A check delayed by more than this is logged."""
STOOD_STILL_S = 30.0
"""A supervisor without a check for this long was stopped, and so was its run (scontrol suspend, a suspended virtual
machine): the run's times include the pause. On a busy node checks, due every 0.2 s, are only seconds late."""
KILLED_S = 3.0
"""Time for killed processes to disappear."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
_ADOPTER = "systemd"
"""Adopts processes of its user where it is not process 1, which adopts all others (systemd --user)."""
logger = logging.getLogger(__name__)

Verdict = Literal["ended", "timed_out", "stalled", "stood_still"]


@dataclass(frozen=True)
class Ending:
    """How a launcher ended.

    ``stood_still_s`` is the longest time without supervision [s]; the verdict stood_still means that it was too long,
    and that the launcher was ended for this reason.
    """

    verdict: Verdict
    exit_status: int
    wall_s: float
    started_monotonic_s: float
    stood_still_s: float = 0.0

    @property
    def is_bad(self) -> bool:
        """Whether the ranks failed or did not end by themselves."""
        return self.verdict != "ended" or self.exit_status != 0


def watch(
    command: list[str],
    raw: Path,
    limits: Limits,
    environment: dict[str, str],
    on_poll: Callable[[], None] = lambda: None,
) -> Ending:
    """Start ``command``, wait for its end, and end it at a limit.

    Parameters
    ----------
    command
        Launcher and program.
    raw
        Folder of the attempt: receives output.log, and `heartbeat` is expected there.
    limits
        Longest run and longest time without a heartbeat [s].
    environment
        Added to this process's environment; ``HPCAI_ATTEMPT`` marks all processes of the run, so that none outlives it
        here.
    on_poll
        Called a few times per second during the watch; an exception ends the launcher and is raised here.
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
            # Even if this process is interrupted: no launcher may outlive its supervisor.
            _end(process)
            end_marked_processes(environment[ATTEMPT_VARIABLE])
    return Ending(verdict, process.wait(), time.monotonic() - started, started, stood_still_s)


def _end_with(supervisor: int) -> Callable[[], None]:
    """Return a hook that makes the kernel signal a launcher when its supervisor dies (prctl(2), PR_SET_PDEATHSIG).

    The kernel treats the thread that starts the launcher as its parent, so that thread must live as long as the
    launcher.
    """

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != supervisor:
            os._exit(1)

    return prepare


class _Looks:
    """Checks heartbeats in its own thread: a hanging file system must not delay the watch."""

    def __init__(self, heartbeat: Path, on_poll: Callable[[], None]) -> None:
        self._heartbeat, self._on_poll = heartbeat, on_poll
        self.ended = threading.Event()
        self.beats, self._seen_ns = 0, 0
        self.error: BaseException | None = None

    def go_on(self) -> None:
        """Check until told to stop; exceptions are kept for the watch."""
        try:
            while not self.ended.wait(POLL_S):
                self._look()
            self._on_poll()
        except BaseException as error:
            self.error = error

    def _look(self) -> None:
        self._on_poll()
        # Only changes of the file's time matter: wall clocks may jump.
        try:
            changed_ns = self._heartbeat.stat().st_mtime_ns
        except OSError:  # missing, or its file system does not answer now
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
    """Return how the wait ended, and the longest time between two checks [s]."""
    started = time.monotonic()
    # This clock continues while the machine is suspended (clock_gettime(2)).
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
    """End a launcher, first with a signal that lets it end its ranks."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        # Reaped here, where its exit status is recorded.
        process.wait()


def end_marked_processes(*attempts: str) -> list[int]:
    """Kill all remaining processes of the attempts on this node; return the process ids."""
    left = dict(_marked(attempts))
    for process, attempt in left.items():
        logger.warning("process %d of attempt %s was still running and is killed", process.pid, attempt)
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=KILLED_S)
    return [process.pid for process in left]


def _marked(attempts: Collection[str]) -> Iterable[tuple[psutil.Process, str]]:
    # All attempts in one pass, because reading every process's environment is what takes the time.
    for process in psutil.process_iter():
        try:
            attempt = process.environ().get(ATTEMPT_VARIABLE)
        except psutil.Error:
            continue
        if attempt and attempt in attempts and process.pid != os.getpid():
            yield process, attempt


def end_orphans() -> list[int]:
    """Kill processes on this node whose supervisor and launcher are gone; return the process ids.

    Call this only while nothing is timed here. Only runs whose processes here were all adopted by init count: any other
    parent may belong to a live supervisor, here or on another node that shares this one.
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
    """Return the attempt of a process of this user; blank without one."""
    try:
        return process.environ().get(ATTEMPT_VARIABLE, "") if process.uids().real == os.getuid() else ""
    except psutil.Error:
        return ""


def _is_adopted(process: psutil.Process) -> bool:
    """Return whether a process, or its topmost ancestor within the run, lost its parent."""
    try:
        attempt, parent = _attempt_of(process), process.parent()
        while parent is not None and _attempt_of(parent) == attempt:
            parent = parent.parent()
        return parent is not None and (parent.pid == 1 or parent.name() == _ADOPTER)
    except psutil.Error:
        # It ended meanwhile; the next run will check again.
        return False
