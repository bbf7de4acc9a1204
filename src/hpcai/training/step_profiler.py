"""Profile a window of a few training steps: with TensorFlow's profiler, or a CUDA tool that waits for it."""

import ctypes
import ctypes.util
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

import tensorflow as tf

from hpcai.config.study import WARM_STEPS
from hpcai.core.errors import LaunchError

Kind = Literal["none", "tensorflow", "cuda"]


class StepProfiler(Protocol):
    """The training loop's interface to a profiler."""

    def before_step(self, step: int) -> None:
        """Open the window before the first profiled step; steps count from 0."""

    def close(self) -> None:
        """Close the window after the last step, even if it was never opened."""


class _Window:
    """Calls ``open_window`` before the first profiled step, and ``close_window`` at the end of its epoch's steps."""

    def __init__(self, open_window: Callable[[], None], close_window: Callable[[], None]) -> None:
        self._open_window, self._close_window, self._is_open = open_window, close_window, False

    def before_step(self, step: int) -> None:
        if step == WARM_STEPS:
            self._open_window()
            self._is_open = True

    def close(self) -> None:
        if self._is_open:
            self._close_window()
            self._is_open = False


def step_profiler(kind: Kind, raw: Path, active: bool) -> StepProfiler:
    """Return the profiler of this rank.

    Parameters
    ----------
    kind
        ``tensorflow`` writes the rank's operations to ``raw``/steps.xplane.pb; ``cuda`` opens the window of nvprof,
        nsys or ncu, which were started with profiling off.
    raw
        Folder of the attempt.
    active
        Whether this rank is profiled.

    Raises
    ------
    LaunchError
        If CUDA's runtime library, which opens the window, is missing.
    """
    if kind == "none" or not active:
        return _Window(_nothing, _nothing)
    if kind == "cuda":
        runtime = _cuda_runtime()
        return _Window(runtime.cudaProfilerStart, runtime.cudaProfilerStop)
    folder = raw / "tensorflow_profile"
    # Level 2 records the operations; 3 adds the executor's own bookkeeping, which slows small steps down.
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)

    def close() -> None:
        tf.profiler.experimental.stop()
        for file in folder.rglob("*.xplane.pb"):
            file.replace(raw / "steps.xplane.pb")
        shutil.rmtree(folder)

    return _Window(lambda: tf.profiler.experimental.start(str(folder), options=options), close)


def _nothing() -> None:
    """Do nothing: this rank is not profiled."""


def _cuda_runtime() -> ctypes.CDLL:
    for name in ("libcudart.so.12", "libcudart.so.11.0", ctypes.util.find_library("cudart")):
        with suppress(OSError):
            if name:
                return ctypes.CDLL(name)
    raise LaunchError("libcudart: not found; load CUDA's module, or install tensorflow[and-cuda], to profile kernels")
