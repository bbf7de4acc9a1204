"""Run Snakemake in its own session: output goes to a file, and each signal is delivered exactly once."""

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from hpcai.core.extras import missing_extra
from hpcai.core.programs import shell_status

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HURRY_S = 2.0
"""After a second signal, Snakemake has this long to release its lock."""


class Child:
    """One Snakemake process at a time; signals to this process are forwarded to it and its jobs.

    A terminal's Ctrl-C would reach all of them directly, and again when forwarded. In their own session they receive
    only the forwarded signal, once. It goes to all of them, because Snakemake waits for its jobs to end by themselves.
    """

    def __init__(self) -> None:
        self.signals: list[int] = []
        """Signals received, in order."""
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Catch signals instead of exiting; a signal that the caller ignores (nohup) stays ignored."""
        before = {number: signal.getsignal(number) for number in SIGNALS}
        taken = {number: old for number, old in before.items() if old != signal.SIG_IGN}
        for number in taken:
            signal.signal(number, self._take)
        try:
            yield
        finally:
            for number, old in taken.items():
                signal.signal(number, old)

    def _take(self, number: int, _: FrameType | None) -> None:
        self.signals.append(number)
        self._pass_on(number if len(self.signals) == 1 else signal.SIGTERM)

    def _pass_on(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def call(self, command: Sequence[str], log: Path, environment: Mapping[str, str], look: Callable[[], float]) -> int:
        """Run a command to its end, and return its exit status in shell convention.

        Parameters
        ----------
        command
            The command and its arguments.
        log
            Receives its output.
        environment
            Its variables.
        look
            Called while the command runs; returns the time until the next call [s].
        """
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
            )
        ended: int | None = None
        try:
            ended = _open_process(self._process.pid)
            if self.signals:  # it arrived during the start
                self._pass_on(self.signals[0])
            while not self.is_hurried and not _is_ended(self._process, ended, look()):
                pass
            if self.is_hurried and not _is_ended(self._process, ended, HURRY_S):
                self._process.kill()
            status = self._process.wait()
        except BaseException:  # it must not continue unsupervised
            self._pass_on(signal.SIGINT)
            self._process.wait()
            raise
        finally:
            if ended is not None:
                os.close(ended)
            self._process = None
        return shell_status(status)

    @property
    def is_hurried(self) -> bool:
        """Whether a second signal arrived: remaining jobs are then not awaited."""
        return len(self.signals) > 1


def _open_process(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a process ends; None where the kernel has none (before 5.3)."""
    with suppress(OSError, AttributeError):
        return os.pidfd_open(pid)
    return None


def _is_ended(process: subprocess.Popen[bytes], descriptor: int | None, longest_s: float) -> bool:
    """Wait for a process to end, without polling where there is a descriptor, and return whether it did."""
    if descriptor is not None:
        ready, _, _ = select.select([descriptor], [], [], longest_s)
        return bool(ready)
    with suppress(subprocess.TimeoutExpired):
        process.wait(longest_s)
    return process.returncode is not None


def snakemake_program() -> str:
    """Return the path of this environment's Snakemake.

    Raises
    ------
    MissingExtraError
        If it is not installed.
    """
    own = Path(sys.executable).with_name("snakemake")
    found = str(own) if own.exists() else shutil.which("snakemake")
    if found is None:
        raise missing_extra("snakemake")
    return found
