"""Runs a launcher and watches it: time limits, signs of life, progress, and no process left behind."""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from hpcai.config.study import Limits

ATTEMPT_VARIABLE = "HPCAI_ATTEMPT"
POLL_S = 0.2
GRACE_S = 10.0
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
        Called a few times per second.
    """
    all_variables = {**os.environ, "PYTHONUNBUFFERED": "1", **environment}
    started = time.monotonic()
    with (raw / "output.log").open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=all_variables, start_new_session=True
        )
        try:
            verdict = _wait(process, raw / "heartbeat", limits, on_poll)
        finally:
            # Also when this process is interrupted: a launcher must not go on without its supervisor.
            _end(process)
            end_marked_processes(environment[ATTEMPT_VARIABLE])
    return Ending(verdict, process.wait(), time.monotonic() - started, started)


def _wait(
    process: subprocess.Popen[bytes], heartbeat: Path, limits: Limits, on_poll: Callable[[], None]
) -> Literal["ended", "timed_out", "stalled"]:
    started = time.monotonic()
    beat, seen = started, 0.0
    while process.poll() is None:
        time.sleep(POLL_S)
        on_poll()
        now = time.monotonic()
        # The file's own time only tells that it changed: wall clocks may jump.
        changed = heartbeat.stat().st_mtime if heartbeat.exists() else 0.0
        if changed != seen:
            beat, seen = now, changed
        if now - started > limits.run_s:
            return "timed_out"
        if now - beat > limits.stall_s:
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
        process.kill()
    psutil.wait_procs(left, timeout=GRACE_S)
    return [process.pid for process in left]


def _marked(attempt: str) -> Iterable[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.environ().get(ATTEMPT_VARIABLE) == attempt and process.pid != os.getpid():
                yield process
        except psutil.Error:
            continue
