"""Sustained rates of one device: `python -m hpcai.machine.ceilings.sustained`, a line of JSON per repetition.

A ceiling is the best of short calls, which a throttled or shared device still reaches between its pauses. Here every
repetition fills a given time with calls of one method. Rates of different nodes are compared, so the method is the same
everywhere: the fastest of short trials would be NumPy on one node and TensorFlow on another.
"""

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hpcai.core.errors import LaunchError
from hpcai.core.programs import last_words
from hpcai.machine.ceilings.gemm import products, square
from hpcai.machine.ceilings.sampling import Precision, Sample, Way, time_way
from hpcai.machine.subprocess_measure import ENDED_BADLY, DeviceKind, Options, run_process, settle_tensorflow
from hpcai.metrics.statistics.fleet import standard_error

MODULE = "hpcai.machine.ceilings.sustained"
SHAPES = {"cpu": square(1024), "gpu": square(4096)}
PRECISIONS: dict[DeviceKind, tuple[Precision, ...]] = {"cpu": ("fp32",), "gpu": ("fp32", "bf16")}
TRIALS = 3
"""Repetitions that tell how many calls fill the time."""
PREFERRED = "tensorflow"
"""Beginning of the name of the method that training uses; another one counts only where it does not work."""


@dataclass(frozen=True)
class Repeats:
    """When a measurement was repeated often enough.

    Attributes
    ----------
    least
        Rounds at least.
    precision_ratio
        Standard error of the median that ends them, relative.
    longest_s
        Time after which no further round begins [s].
    """

    least: int
    precision_ratio: float
    longest_s: float

    def rounds(
        self, seen: Callable[[], Iterable[Sequence[float]]], clock: Callable[[], float] = time.monotonic
    ) -> Iterator[int]:
        """Yield the numbers of rounds until all that was seen is precise, or time is up."""
        until_s, number = clock() + self.longest_s, 0
        while number < self.least or (
            clock() < until_s and any(standard_error(values) > self.precision_ratio for values in seen())
        ):
            yield number
            number += 1


def measure_sustained(
    options: Options, repeats: Repeats, window_s: float, limit_s: float, **variables: str
) -> list[Sample]:
    """Return the repetitions of one method of each kind and precision.

    Parameters
    ----------
    options
        Threads and device.
    repeats
        When they end.
    window_s
        Length of a repetition [s].
    limit_s
        Time limit [s].
    variables
        Added to the environment, such as the visible accelerator.

    Raises
    ------
    LaunchError
        If the process fails.
    """
    command = [sys.executable, "-m", MODULE, "--threads", str(options.threads), "--device", options.device]
    command += ["--repeats", str(repeats.least), "--precision", str(repeats.precision_ratio)]
    command += ["--longest-s", str(repeats.longest_s), "--window-s", str(window_s)]
    ended = run_process(command, limit_s, OPENBLAS_NUM_THREADS=str(options.threads), **variables)
    if ended.status != 0:
        raise LaunchError(ENDED_BADLY(module=MODULE, ending=ended.ending, error=last_words(ended.errors)))
    return [Sample.model_validate_json(line) for line in ended.output.splitlines()]


def sustain(ways: Iterable[Way], threads: int, repeats: Repeats, window_s: float) -> Iterator[Sample]:
    """Yield the repetitions of one method of each kind and precision, all of them in turn."""
    chosen = _same_everywhere(ways, threads)
    calls = [replace(way, calls=max(1, math.ceil(window_s / call_s))) for way, call_s in chosen]
    rates: list[list[float]] = [[] for _ in calls]
    for _ in repeats.rounds(lambda: rates):
        for way, own in zip(calls, rates, strict=True):
            sample = time_way(way, threads)
            own.append(sample.value)
            yield sample


def _same_everywhere(ways: Iterable[Way], threads: int) -> Sequence[tuple[Way, float]]:
    """Return the preferred method of each kind and precision that works, with the time of one call [s]."""
    chosen: dict[tuple[str, str], tuple[Way, float]] = {}
    for way in sorted(ways, key=lambda way: not way.backend.startswith(PREFERRED)):
        if (way.kind, way.precision) in chosen:
            continue
        try:
            way.wait(way.run())
            call_s = min(time_way(way, threads).duration_s for _ in range(TRIALS)) / way.calls
        except Exception:  # noqa: S112  a library without this method raises one of many types; another method counts
            continue
        chosen[way.kind, way.precision] = (way, call_s)
    return list(chosen.values())


def main() -> None:
    """Measure as a process of its own."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="Print one JSON line per repetition.")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "gpu"), required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--precision", type=float, required=True)
    parser.add_argument("--longest-s", type=float, required=True)
    parser.add_argument("--window-s", type=float, required=True)
    asked = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.threads])
    settle_tensorflow(Options(asked.threads, asked.device, asked.repeats))
    ways = products(PRECISIONS[asked.device], (SHAPES[asked.device],), asked.device)
    if asked.device == "gpu":
        from hpcai.machine.ceilings.memory import accelerator_streams

        ways += accelerator_streams("gpu")
    repeats = Repeats(asked.repeats, asked.precision, asked.longest_s)
    for sample in sustain(ways, asked.threads, repeats, asked.window_s):
        print(sample.model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
