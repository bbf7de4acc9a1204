"""Compute results in another process and receive them in order; the receiver learns if one never comes."""

import mmap
import os
import pickle
import signal
import socket
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

MOST_WORKERS = 3
"""Maximum number of workers; beyond it the collecting process is the bottleneck."""
PATIENCE_S = 60.0
"""Time limit per result [s]; results take milliseconds, so a process silent for longer is stuck and is abandoned."""
ROOMS, ROOM_BYTES = 8, 1 << 20
"""Number of queued results, and shared array memory of each [byte]; unused memory costs nothing."""
_ALIGNED = 64


def usable_cores() -> int:
    """Return the number of cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A forked copy of this process that returns results; it ends with the `with` block at the latest.

    A copy needs neither imports nor arguments, so it starts in milliseconds, even inside a Snakemake script.

    Parameters
    ----------
    results
        Iterable evaluated only in the other process; its items must be picklable, and arrays are cheap.
    """

    def __init__(self, results: Iterable[object]) -> None:
        self._memory = mmap.mmap(-1, ROOMS * ROOM_BYTES)
        self._taken = 0
        here, there = socket.socketpair()
        try:
            self._process = os.fork()
        except OSError:  # no more processes allowed: nothing will arrive
            self._process = 0
        else:
            if self._process == 0:
                here.close()
                _send_all(results, there, self._memory)
        there.close()
        here.settimeout(PATIENCE_S)
        self._socket, self._stream = here, here.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def receive(self) -> object | None:
        """Return the next result, or None if the process failed, was killed or is stuck."""
        if self._stream.closed:
            return None
        try:
            packed, sizes = pickle.load(self._stream)  # noqa: S301  written by our own copy
            start = self._taken % ROOMS * ROOM_BYTES
            room = memoryview(bytearray(memoryview(self._memory)[start : start + sum(map(_aligned, sizes))]))
            self._socket.send(b"\0")
        except (OSError, EOFError, pickle.UnpicklingError):
            self._end()
            return None
        self._taken += 1
        buffers, at = [], 0
        for size in sizes:
            buffers.append(room[at : at + size])
            at += _aligned(size)
        result: object = pickle.loads(packed, buffers=buffers)  # noqa: S301
        return result

    def _end(self) -> None:
        """End the process unconditionally; nothing more arrives."""
        self._stream.close()
        self._socket.close()
        if self._process:
            with suppress(ProcessLookupError):
                os.kill(self._process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self._process, 0)
            self._process = 0


def _aligned(size_bytes: int) -> int:
    return -(-size_bytes // _ALIGNED) * _ALIGNED


def _send_all(results: Iterable[object], connection: socket.socket, memory: mmap.mmap) -> None:
    """Send results and exit without the clean-up that belongs to the parent process."""
    try:
        stream = connection.makefile("wb")
        for number, result in enumerate(results):
            if number >= ROOMS and not connection.recv(1):
                break
            _send(result, stream, memoryview(memory)[number % ROOMS * ROOM_BYTES :][:ROOM_BYTES])
        while connection.recv(_ALIGNED):  # closing a socket with unread bytes discards sent data
            pass
    finally:
        os._exit(0)


def _send(result: object, stream: IO[bytes], room: memoryview) -> None:
    """Copy the arrays of a result into a shared slot if they fit, and send the rest."""
    buffers: list[pickle.PickleBuffer] = []
    packed = pickle.dumps(result, protocol=5, buffer_callback=buffers.append)
    sizes = [buffer.raw().nbytes for buffer in buffers]
    if sum(map(_aligned, sizes)) > len(room):
        packed, sizes = pickle.dumps(result, protocol=5), []
    at = 0
    for buffer, size in zip(buffers, sizes, strict=False):
        room[at : at + size] = buffer.raw()
        at += _aligned(size)
    pickle.dump((packed, sizes), stream, protocol=5)
    stream.flush()
