"""Memory bandwidth of this machine: copies of arrays far larger than all caches, by one core and by all."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hpcai.core.machine_lock import machine_to_itself
from hpcai.core.text import say_bytes
from hpcai.machine.ceilings.agreement import further_rounds
from hpcai.machine.ceilings.free_memory import free_memory
from hpcai.machine.ceilings.sampling import CeilingReport, NotMeasured, Sample, Way, report_of
from hpcai.machine.subprocess_measure import (
    THIS_PYTHON,
    DeviceKind,
    measure_apart,
    parse_options,
    say_lacking_cores,
    serve,
)

logger = logging.getLogger(__name__)
MODULE = "hpcai.machine.ceilings.memory"
REPEATS = 8
CACHES = Path("/sys/devices/system/cpu")
UNKNOWN_CACHE_BYTES = 64 << 20
"""Least last-level cache assumed for cores whose cache the kernel does not report [byte]: few cores may share it."""
UNKNOWN_CORE_CACHE_BYTES = 16 << 20
"""The same for each of many such cores [byte]: more than nearly all processors have per core."""
TIMES_CACHE = 4
"""Ratio of array size to total cache size (STREAM's rule: McCalpin, FAQ)."""
SMALLEST_ARRAY_BYTES = 64 << 20
MEMORY_SHARE = 0.5
"""Share of the free memory (`free_memory`) for all arrays together."""
ARRAY_BYTES_GPU = 1 << 30


@dataclass(frozen=True)
class Stream:
    """One access pattern; bytes are counted as in STREAM: what a program reads and writes.

    A cache that fetches a line before overwriting it moves more bytes than counted.
    """

    name: str
    arrays: int
    run: Callable[[Sequence[NDArray[np.float64]]], object]


STREAMS = (
    Stream("copy", 2, lambda arrays: np.copyto(arrays[0], arrays[1])),
    Stream("add", 3, lambda arrays: np.add(arrays[1], arrays[2], out=arrays[0])),
)


def measure_memory(
    threads: Iterable[int],
    device: DeviceKind = "cpu",
    repeats: int = REPEATS,
    array_bytes: int | None = None,
    *,
    python: Sequence[str] = THIS_PYTHON,
) -> CeilingReport:
    """Measure memory bandwidth.

    Parameters
    ----------
    threads
        Numbers of cores, each with a pinned thread and its own arrays (NumPy releases Python's lock).
    device
        Device of the ranks: an accelerator's own memory is measured through TensorFlow.
    repeats
        Timed repetitions.
    array_bytes
        Size of one array; by default chosen from caches and free memory.
    python
        Python command for measuring an accelerator; this process measures a processor's memory itself.

    Returns
    -------
    CeilingReport
        Includes the reasons for missing measurements.
    """
    if device == "gpu":
        return measure_apart("memory", MODULE, threads, device, repeats, python=python)
    with machine_to_itself(logger.info) as watch:
        report = _measure_here(sorted(set(threads)), repeats, array_bytes)
    return report.model_copy(update={"disturbance": watch.disturbance})


def _measure_here(threads: Sequence[int], repeats: int, array_bytes: int | None) -> CeilingReport:
    cores = sorted(os.sched_getaffinity(0))
    samples: list[Sample] = []
    missing: list[NotMeasured] = []
    for count in threads:
        own_bytes, problem = array_bytes or 0, say_lacking_cores(count)
        if not array_bytes and not problem:
            own_bytes, problem = _array_bytes(count, cores)
        if problem:
            missing.append(NotMeasured(kind="memory", backend="numpy", threads=count, reason=problem))
            continue
        try:
            samples += _time_until_settled(cores[:count], own_bytes // 8, repeats)
        except MemoryError as error:
            missing.append(NotMeasured(kind="memory", backend="numpy", threads=count, reason=f"no memory: {error}"))
    return report_of(samples, missing)


def _time_until_settled(cores: Sequence[int], numbers: int, repeats: int) -> list[Sample]:
    samples = _time_streams(cores, numbers, repeats)
    for _ in further_rounds(lambda: samples):
        samples.extend(_time_streams(cores, numbers, repeats))
    return samples


def _array_bytes(threads: int, cores: Iterable[int]) -> tuple[int, str]:
    """Return the size of one array, or why there is none."""
    most = max(stream.arrays for stream in STREAMS)
    cache_bytes = last_level_cache_bytes(cores)
    wanted = max(SMALLEST_ARRAY_BYTES, TIMES_CACHE * cache_bytes // threads)
    free = free_memory()
    room = int(MEMORY_SHARE * free.size_bytes) // (most * threads)
    if room * threads < 2 * cache_bytes:
        return 0, (
            f"half of the free memory ({say_bytes(free.size_bytes)}, limited by {free.limited_by}) gives each of "
            f"{threads} threads arrays of {say_bytes(room)}: too little beside {say_bytes(cache_bytes)} of cache"
        )
    return min(wanted, room) // 4096 * 4096, ""


def last_level_cache_bytes(cores: Iterable[int], caches: Path = CACHES) -> int:
    """Return the total size of the cores' last-level caches [byte]; assumed for a core whose cache is not reported."""
    found: dict[str, int] = {}
    unknown = 0
    for core in cores:
        levels: list[tuple[int, str, int]] = []
        for folder in (caches / f"cpu{core}" / "cache").glob("index*"):
            try:
                level, size, shared = ((folder / name).read_text().strip() for name in _CACHE_FILES)
                levels.append((int(level), shared, int(size.removesuffix("K")) << 10))
            except (OSError, ValueError):
                continue
        if levels:
            _, shared, size_bytes = max(levels)
            found[shared] = size_bytes
        else:
            unknown += 1
    assumed_bytes = max(UNKNOWN_CACHE_BYTES, unknown * UNKNOWN_CORE_CACHE_BYTES) if unknown else 0
    return sum(found.values()) + assumed_bytes


_CACHE_FILES = ("level", "size", "shared_cpu_list")


def _time_streams(cores: Sequence[int], numbers: int, repeats: int) -> list[Sample]:
    """Run one pinned thread per core concurrently and repeatedly; the slowest thread ends a repetition."""
    barrier = threading.Barrier(len(cores))
    with ThreadPoolExecutor(len(cores)) as pool:
        workers = [pool.submit(_stream_on, core, numbers, repeats, barrier) for core in cores]
        spans = np.array([worker.result() for worker in workers])
    samples: list[Sample] = []
    for place, stream in enumerate(STREAMS):
        moved = 8 * numbers * stream.arrays * len(cores)
        for repetition in range(repeats):
            starts_s, ends_s = spans[:, place, repetition].T
            samples.append(
                Sample(
                    kind="memory",
                    backend=f"numpy {stream.name}",
                    setting=_say_size(8 * numbers),
                    threads=len(cores),
                    work=moved,
                    unit="B/s",
                    duration_s=float(ends_s.max() - starts_s.min()),
                )
            )
    return samples


def _say_size(array_bytes: int) -> str:
    return f"arrays of {array_bytes >> 20} MiB"


def _stream_on(core: int, numbers: int, repeats: int, barrier: threading.Barrier) -> list[list[tuple[float, float]]]:
    """Return start and end of every repetition of every stream, on one core."""
    try:
        os.sched_setaffinity(0, {core})  # affects only this thread (sched_setaffinity(2)), which ends with its pool
        # Each thread writes its arrays first: on NUMA machines this places them in its own memory.
        arrays = [np.full(numbers, float(place)) for place in range(max(stream.arrays for stream in STREAMS))]
        spans: list[list[tuple[float, float]]] = []
        for stream in STREAMS:
            stream.run(arrays)
            spans.append([_span(stream, arrays, barrier) for _ in range(repeats)])
    except BaseException:
        barrier.abort()  # so that the others do not wait for this one
        raise
    return spans


def _span(stream: Stream, arrays: Sequence[NDArray[np.float64]], barrier: threading.Barrier) -> tuple[float, float]:
    barrier.wait()
    started_s = time.monotonic()
    stream.run(arrays)
    return started_s, time.monotonic()


def accelerator_streams(device: DeviceKind, array_bytes: int = ARRAY_BYTES_GPU) -> list[Way]:
    """Return TensorFlow's streaming method for a device's memory: one array read, one written."""
    import tensorflow as tf

    from hpcai.machine.ceilings.tensors import backend_of, call_with, calls_of, random_tensors, wait_for

    rows = array_bytes // 4 >> 20
    # Repeat a small random block over the array: drawing all of it would take longer than measuring.
    (block,) = random_tensors([(1, 1 << 20)], "fp32")()
    array = tf.tile(block, [rows, 1])
    run = call_with(lambda values: 2.0 * values, lambda: [array], "fp32")
    backend, moved = f"{backend_of(device)} scale", 2 * 4 * rows << 20
    return [
        Way("memory", "", backend, _say_size(array_bytes), moved, run, calls=calls_of(device), wait=wait_for),
    ]


if __name__ == "__main__":
    serve(parse_options(MODULE), accelerator_streams)
