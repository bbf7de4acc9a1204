"""Results computed in another process and handed back in order; whoever asks for one that never comes is told so."""

import fcntl
import os
import pickle
import select
import signal
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

MOST_WORKERS = 3
"""Beyond that the process that collects the results is the slowest."""
PATIENCE_S = 60.0
"""A result takes milliseconds; a process that says nothing for so long is stuck, and is given up."""
_SIZE_BYTES = 8
_PIPE_BYTES = 1 << 20


def usable_cores() -> int:
    """Return the number of cores on which this process may run."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A forked copy of this process that sends results through a pipe; it ends with the `with` block at the latest.

    A copy needs neither imports nor arguments, so it starts in milliseconds, also within a script that Snakemake runs.

    Parameters
    ----------
    results
        What is iterated in the other process only.
    """

    def __init__(self, results: Iterable[object]) -> None:
        self._pipe, sending = os.pipe()
        try:
            self._process = os.fork()
        except OSError:  # no more processes: nothing will ever arrive
            self._process = 0
        else:
            if self._process == 0:
                os.close(self._pipe)
                _send_all(results, sending)
        with suppress(AttributeError, OSError):  # other systems and small allowances: the sender waits more often
            fcntl.fcntl(sending, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.close(sending)
        self._poll = select.poll()
        self._poll.register(self._pipe, select.POLLIN)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._pipe)
        self._end()

    def receive(self) -> object | None:
        """Return the next result, or None if the process failed, was killed or is stuck."""
        size = self._read(_SIZE_BYTES)
        packed = self._read(int.from_bytes(size, "little")) if size else None
        if packed is None:
            self._end()
            return None
        result: object = pickle.loads(packed)  # noqa: S301  written by our own copy
        return result

    def _read(self, size_bytes: int) -> bytearray | None:
        buffer, at = bytearray(size_bytes), 0
        while at < size_bytes:
            ready = self._poll.poll(PATIENCE_S * 1000)
            count = os.readv(self._pipe, [memoryview(buffer)[at:]]) if ready else 0
            if count == 0:
                return None
            at += count
        return buffer

    def _end(self) -> None:
        """End the process, whatever it does; nothing more arrives."""
        if self._process:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._process, 0)
            self._process = 0


def _send_all(results: Iterable[object], pipe: int) -> None:
    """Send results and end this process, without any of the clean-up that belongs to the one it is a copy of."""
    try:
        with open(pipe, "wb") as stream:
            for result in results:
                packed = pickle.dumps(result, protocol=pickle.HIGHEST_PROTOCOL)
                stream.write(len(packed).to_bytes(_SIZE_BYTES, "little"))
                stream.write(packed)
                stream.flush()
    finally:
        os._exit(0)
