"""Measuring process for one family's kernels: one thread on one core, one line of the draft per case.

A time is the median CPU time of single calls of TensorFlow's operation on the same operands, so caches are as warm as
their size allows. CPU time covers all threads of the process; wall time is useless on shared machines. Each call
includes 5 to 10 microseconds for starting an operation from Python; a compiled step starts its operations faster.
"""

import argparse
import ctypes
import math
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from hpcai.config.machine import Device
from hpcai.config.prediction import KernelFamily
from hpcai.core.processor import processor_facts
from hpcai.machine.kernels.draft import Fingerprint, Started, TimedCase, append_line, resume_draft
from hpcai.machine.subprocess_measure import say_error
from hpcai.predict.kernels.cases import FAMILIES, sample_cases

if TYPE_CHECKING:
    from hpcai.machine.kernels.operations import Operation

MODULE = "hpcai.machine.kernels.process"
THREADS = 1
REPETITIONS = 3
MOST_REPETITIONS = 101
KNOWN_CASES = 20
"""Number of cases per kernel in the fingerprint, which identifies the list of cases."""
MALLOC_OPTIONS = {-1: 2**31 - 1, -2: 64 * 2**20, -3: 32 * 2**20}
"""M_TRIM_THRESHOLD, M_TOP_PAD and M_MMAP_THRESHOLD of mallopt(3) [B]: the first and last as large as they may be.

Threads have heaps of 64 MiB. One that is empty goes back to the kernel whatever M_TRIM_THRESHOLD says, unless M_TOP_PAD
is as large as a heap (glibc, malloc/arena.c, heap_trim).
"""
ENOUGH_S = 4e-3
"""Total time for calls of a short operation [s]: a single call is not meaningful."""


def main() -> None:
    """Measure all cases of a family that are missing in the draft."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--family", choices=tuple(FAMILIES), required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--run", required=True, help="name of this process in the draft")
    asked = parser.parse_args()
    settle()
    done = resume_draft(asked.draft, _fingerprint(asked.family, asked.seed))
    cases = [case for case in list_cases(asked.family, asked.samples, asked.seed) if case[:2] not in done]
    append_line(asked.draft, Started(run=asked.run))
    for kernel, index, case in cases:
        append_line(asked.draft, time_case(kernel, index, case))


def list_cases(family: KernelFamily, samples: int, seed: int) -> Iterator[tuple[str, int, dict[str, int]]]:
    """Return kernel, index and sizes of all cases in measuring order: alternating between the kernels."""
    tables = {kernel: sample_cases(kernel, samples, seed) for kernel in FAMILIES[family]}
    for index in range(samples):
        for kernel, cases in tables.items():
            yield kernel, index, {str(name): int(size) for name, size in cases.iloc[index].items()}


def settle() -> None:
    """Configure core, threads and libraries like a training rank with one core; call it before TensorFlow starts."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    keep_freed_memory()
    from hpcai.training.engine import configure_device

    configure_device(Device(kind="cpu"), threads=THREADS, local_rank=0)


def keep_freed_memory() -> None:
    """Let memory that is freed stay with the process, as it does in a training, where the same sizes come again.

    Where calls of different sizes take turns, the C library may give much of it back after each of them, and the next
    one meets page faults: VGG11's step took 160 ms with 27,000 of them, and 95 ms without. It also does where a buffer
    of each call is the only one in its thread's last heap, which depends on all that was taken before: in four of
    28 processes VGG11's step met 20,745 faults, and took 141 to 151 ms.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):  # the GNU C library's
        for option, most_bytes in MALLOC_OPTIONS.items():
            library.mallopt(option, most_bytes)


def _fingerprint(family: KernelFamily, seed: int) -> Fingerprint:
    first = "".join(sample_cases(kernel, KNOWN_CASES, seed).to_csv() for kernel in FAMILIES[family])
    return Fingerprint(
        processor=processor_model(),
        software=software_versions(),
        onednn=os.environ.get("TF_ENABLE_ONEDNN_OPTS", "default"),
        threads=THREADS,
        seed=seed,
        cases=f"{zlib.crc32(first.encode()):08x}",
    )


def software_versions() -> str:
    """Return the versions of the computing libraries; TensorFlow is imported."""
    import keras
    import tensorflow as tf

    return f"TensorFlow {tf.__version__}, Keras {keras.__version__}"


def processor_model() -> str:
    """Return the processor's name from the kernel."""
    return processor_facts().get("model name", "unknown")


def time_case(kernel: str, index: int, case: Mapping[str, int]) -> TimedCase:
    """Return the time of one case, or why there is none."""
    from hpcai.machine.kernels.operations import operation

    try:
        times = time_operation(operation(kernel, case))
    except Exception as error:  # libraries raise many types for unsupported cases
        return TimedCase(kernel=kernel, index=index, reason=say_error(error))
    return TimedCase(
        kernel=kernel,
        index=index,
        cpu_time_s=median(times),
        cpu_time_min_s=min(times),
        repetitions=len(times),
    )


def time_operation(operation: "Operation") -> list[float]:
    """Return the times of warm calls: :data:`ENOUGH_S` in total, but at least :data:`REPETITIONS` calls."""

    def call() -> object:
        return operation.compute(*operation.operands)

    call()  # generates oneDNN's code for these shapes
    call()
    first_s = cpu_time_s(call)
    count = min(MOST_REPETITIONS, max(REPETITIONS, math.ceil(ENOUGH_S / max(first_s, 1e-9))))
    return [first_s, *(cpu_time_s(call) for _ in range(count - 1))]


def cpu_time_s(call: Callable[..., object], *arguments: object) -> float:
    """Return the CPU time of one call over all threads of this process [s]."""
    started_s = time.process_time()
    call(*arguments)
    return time.process_time() - started_s


if __name__ == "__main__":
    main()
