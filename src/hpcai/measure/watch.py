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
KILLED_S = 3.0
"""Time for killed processes to be gone."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ending:
    """How a launcher ended."""

    verdict: Literal["ended", "timed_out", "stalled"]
    exit_status: int
    wall_s: float
    started_monotonic_s: float


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
                verdict = _wait(process, looks, limits)
        finally:
            # Also when this process is interrupted: a launcher must not go on without its supervisor.
            _end(process)
            end_marked_processes(environment[ATTEMPT_VARIABLE])
    return Ending(verdict, process.wait(), time.monotonic() - started, started)


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
    """Looks for signs of life in a thread of its own: a file system that hangs must not hold up the watch."""

    def __init__(self, heartbeat: Path, on_poll: Callable[[], None]) -> None:
        self._heartbeat, self._on_poll = heartbeat, on_poll
        self.ended = threading.Event()
        self.beat_s, self._seen_ns = time.monotonic(), 0
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
            self.beat_s, self._seen_ns = time.monotonic(), changed_ns


@contextmanager
def _looking(looks: _Looks) -> Iterator[_Looks]:
    thread = threading.Thread(target=looks.go_on, name="looks", daemon=True)
    thread.start()
    try:
        yield looks
    finally:
        looks.ended.set()
        thread.join(timeout=KILLED_S)


def _wait(process: subprocess.Popen[bytes], looks: _Looks, limits: Limits) -> Literal["ended", "timed_out", "stalled"]:
    started = time.monotonic()
    while process.poll() is None:
        time.sleep(POLL_S)
        if looks.error is not None:
            raise looks.error
        now = time.monotonic()
        if now - started > limits.run_s:
            return "timed_out"
        if now - looks.beat_s > limits.stall_s:
            return "stalled"
    return "ended"


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
