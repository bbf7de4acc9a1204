"""Opens a window of training steps for a profiler: TensorFlow's own, a CUDA tool that waits for it, or the input's."""

import ctypes
import ctypes.util
import os
import select
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

import tensorflow as tf

from hpcai.config.study import WARM_STEPS
from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message
from hpcai.records.files import write_json
from hpcai.records.input_window import InputWindow, ReadCounters, counters_name, trace_name
from hpcai.training.chrono import monotonic_s
from hpcai.training.first_rank import CONTROL_VARIABLE

Kind = Literal["none", "tensorflow", "cuda", "input", "control"]
ANSWER_S = 10.0
"""Longest wait for a tool to acknowledge a command."""

NO_ANSWER = Message(
    "step_profiler.no_answer", "the tool around the first rank did not answer {word!r} within {seconds:g} s"
)


class StepProfiler(Protocol):
    """The training loop's interface to a profiler."""

    def before_step(self, step: int, pending: tf.Tensor | None = None) -> None:
        """Open the window before the first profiled step; steps count from 0.

        Parameters
        ----------
        step
            The next step.
        pending
            Loss of the step before it, which an accelerator may still be computing.
        """

    def close(self) -> None:
        """Close the window after the last step, even if it was never opened."""


class _Window:
    """Calls ``open_window`` before the first profiled step, and ``close_window`` at the end of its epoch's steps."""

    def __init__(
        self, open_window: Callable[[], None], close_window: Callable[[], None], first_step: int = WARM_STEPS
    ) -> None:
        self._open_window, self._close_window, self._is_open = open_window, close_window, False
        self._first_step = first_step

    def before_step(self, step: int, pending: tf.Tensor | None = None) -> None:
        if step == self._first_step:
            if pending is not None:
                float(pending)  # what the step before still launches must not count
            self._open_window()
            self._is_open = True

    def close(self) -> None:
        if self._is_open:
            self._close_window()
            self._is_open = False


def step_profiler(kind: Kind, raw: Path, rank: int) -> StepProfiler:
    """Return the profiler of a rank.

    Parameters
    ----------
    kind
        ``tensorflow`` writes the first rank's operations to ``raw``/steps.xplane.pb; ``cuda`` opens the window of
        nvprof, nsys or ncu, which were started with the profiling off, and ``control`` that of perf; ``input`` writes
        of every rank what the kernel counted and when its pipeline read (`hpcai.records.input_window`).
    raw
        Folder of the attempt.
    rank
        Number of this rank.

    Raises
    ------
    LaunchError
        If CUDA's runtime library, which opens the window, is missing.
    """
    if kind == "input":
        return _input_window(raw, rank)
    if kind == "none" or rank > 0:
        return _Window(_nothing, _nothing)
    if kind == "cuda":
        return _Window(*_cuda_profiling())
    if kind == "control":
        return _Window(lambda: _command("enable"), lambda: _command("disable"))
    return _Window(*_trace(raw / "tensorflow_profile", raw / "steps.xplane.pb"))


def _input_window(raw: Path, rank: int) -> StepProfiler:
    """Return the window of a rank's input: from before its first read to the end of the first epoch's steps."""
    start_trace, stop_trace = _trace(raw / f"input_profile{rank}", raw / trace_name(rank))
    begun: list[tuple[float, ReadCounters]] = []

    def open_window() -> None:
        start_trace()
        begun.append((monotonic_s(), ReadCounters.of_this_process()))

    def close_window() -> None:
        start_s, before = begun.pop()
        after, stop_s = ReadCounters.of_this_process(), monotonic_s()
        stop_trace()
        found = InputWindow(
            rank=rank, process_id=os.getpid(), start_s=start_s, stop_s=stop_s, before=before, after=after
        )
        write_json(found, raw / counters_name(rank))

    return _Window(open_window, close_window, first_step=0)


def _trace(folder: Path, target: Path) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what begins a trace of this process's operations, and what ends it and puts it into a file."""
    # Level 2 holds the operations; 3 adds the executor's own bookkeeping, which slows small steps down.
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)

    def stop() -> None:
        tf.profiler.experimental.stop()
        for file in folder.rglob("*.xplane.pb"):
            file.replace(target)
        shutil.rmtree(folder)

    return lambda: tf.profiler.experimental.start(str(folder), options=options), stop


def _command(word: str) -> None:
    """Give a command to each tool around this rank, and wait until it is carried out."""
    for ends in os.environ[CONTROL_VARIABLE].split():
        commands, acknowledgements = map(int, ends.split(","))
        os.write(commands, f"{word}\n".encode())
        if not select.select([acknowledgements], [], [], ANSWER_S)[0]:
            raise LaunchError(NO_ANSWER(word=word, seconds=ANSWER_S))
        os.read(acknowledgements, 64)


def _nothing() -> None:
    """Do nothing: this rank is not profiled."""


def _cuda_profiling() -> tuple[Callable[[], None], Callable[[], None]]:
    """Return what begins and ends the profiling of this process's accelerator, each after all work given to it."""
    runtime = _cuda_runtime()

    def start() -> None:
        runtime.cudaDeviceSynchronize()
        runtime.cudaProfilerStart()

    def stop() -> None:
        runtime.cudaDeviceSynchronize()
        runtime.cudaProfilerStop()

    return start, stop


def _cuda_runtime() -> ctypes.CDLL:
    for name in ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", ctypes.util.find_library("cudart")):
        with suppress(OSError):
            if name:
                return ctypes.CDLL(name)
    raise LaunchError("libcudart: not found; load CUDA's module, or install tensorflow[and-cuda], to profile kernels")
