"""Sustained rates of one device: `python -m hpcai.machine.ceilings.sustained`, a line of JSON per repetition.

A ceiling is the best of short calls, which a throttled or shared device still reaches between its pauses. Here every
repetition fills a given time with calls of one method, the fastest of those that give ceilings.
"""

import argparse
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from hpcai.core.errors import LaunchError
from hpcai.machine.ceilings.gemm import products, square
from hpcai.machine.ceilings.sampling import Precision, Sample, Way, time_way
from hpcai.machine.subprocess_measure import DeviceKind, Options, run_process, settle_tensorflow

MODULE = "hpcai.machine.ceilings.sustained"
SHAPES = {"cpu": square(1024), "gpu": square(4096)}
PRECISIONS: dict[DeviceKind, tuple[Precision, ...]] = {"cpu": ("fp32",), "gpu": ("fp32", "bf16")}
TRIALS = 3
"""Repetitions that choose the fastest method."""


def measure_sustained(options: Options, window_s: float, limit_s: float, **variables: str) -> list[Sample]:
    """Return the repetitions of the fastest method of each kind and precision.

    Parameters
    ----------
    options
        Threads, device and repetitions.
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
    command += ["--repeats", str(options.repeats), "--window-s", str(window_s)]
    ended = run_process(command, limit_s, OPENBLAS_NUM_THREADS=str(options.threads), **variables)
    if ended.status != 0:
        raise LaunchError(f"{MODULE}: {ended.ending}: {ended.errors.strip()[-500:]}")
    return [Sample.model_validate_json(line) for line in ended.output.splitlines()]


def sustain(ways: Iterable[Way], threads: int, repeats: int, window_s: float) -> Iterator[Sample]:
    """Yield the repetitions of the fastest method of each kind and precision, all of them in turn."""
    chosen = _fastest(ways, threads)
    calls = [replace(way, calls=max(1, math.ceil(window_s / call_s))) for way, call_s in chosen]
    for _ in range(repeats):
        for way in calls:
            yield time_way(way, threads)


def _fastest(ways: Iterable[Way], threads: int) -> Sequence[tuple[Way, float]]:
    """Return the fastest method of each kind and precision, with the time of one call [s]."""
    best: dict[tuple[str, str], tuple[float, Way, float]] = {}
    for way in ways:
        try:
            way.wait(way.run())
            sample = max((time_way(way, threads) for _ in range(TRIALS)), key=lambda one: one.value)
        except Exception:  # noqa: S112  a library without this method raises one of many types; another method counts
            continue
        key = (way.kind, way.precision)
        if key not in best or sample.value > best[key][0]:
            best[key] = (sample.value, way, sample.duration_s / way.calls)
    return [(way, call_s) for _, way, call_s in best.values()]


def main() -> None:
    """Measure as a process of its own."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="Print one JSON line per repetition.")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--device", choices=("cpu", "gpu"), required=True)
    parser.add_argument("--repeats", type=int, required=True)
    parser.add_argument("--window-s", type=float, required=True)
    asked = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.threads])
    settle_tensorflow(Options(asked.threads, asked.device, asked.repeats))
    ways = products(PRECISIONS[asked.device], (SHAPES[asked.device],), asked.device)
    if asked.device == "gpu":
        from hpcai.machine.ceilings.memory import accelerator_streams

        ways += accelerator_streams("gpu")
    for sample in sustain(ways, asked.threads, asked.repeats, asked.window_s):
        print(sample.model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
