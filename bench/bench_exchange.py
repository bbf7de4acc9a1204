"""The engines compared on two ranks of this node: training steps, and an allreduce of 10 MB.

Interleaved: each round starts the engines in sequence with the same launcher (`spawn`), so Horovod uses Gloo. Ratios
are medians over the rounds, with the smallest and largest; above 1 an engine is slower than horovod. Command:
python bench/bench_exchange.py [BENCHMARK ...]; of the named benchmarks only, with the allreduce.
"""

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from plans import ENGINE_COLUMNS, ENGINES, bench_plan, compare_engines, launch_ranks, prepared, time_step

from hpcai.config.base import Engine
from hpcai.core.errors import HpcaiError
from hpcai.machine.ceilings.allreduce import measure_allreduce

ROUNDS, RANKS = 3, 2
MESSAGE_BYTES = 10_000_000
BATCHES = {"cosmoflow_tiny": 8, "resnet50_tiny": 16, "deepcam_tiny": 4}
"""Global batches of the benchmarks that all engines train."""


def main() -> None:
    """Print a row for each engine; exit with 1 if something could not be measured."""
    print(f"{RANKS} ranks, {len(os.sched_getaffinity(0))} cores; medians over {ROUNDS} interleaved rounds")
    print(f"{'what':34} {ENGINE_COLUMNS}")
    _compare(f"allreduce of {MESSAGE_BYTES / 1e6:g} MB", lambda engine, _: _allreduce_s(engine))
    for benchmark in sys.argv[1:] or BATCHES:
        with tempfile.TemporaryDirectory() as folder:
            _compare_steps(benchmark, Path(folder))


def _compare_steps(benchmark: str, folder: Path) -> None:
    data = prepared(_plan(benchmark, "horovod"), folder / "data")

    def step_s(engine: Engine, number: int) -> float:
        return time_step(_plan(benchmark, engine), data, folder / f"{engine}{number}")[0]

    _compare(f"step of {benchmark}, batch {BATCHES[benchmark]}", step_s)


def _compare(what: str, measure: Callable[[Engine, int], float]) -> None:
    """Measure something by all engines in turn, in seconds, and print their rows."""
    times_s: dict[Engine, list[float]] = {engine: [] for engine in ENGINES}
    for number in range(ROUNDS):
        for engine in ENGINES:
            times_s[engine].append(measure(engine, number))
    for row in compare_engines(times_s):
        print(f"{what:34} {row}", flush=True)


def _allreduce_s(engine: Engine) -> float:
    options = ("--sizes", str(MESSAGE_BYTES), "--repeats", "20")
    report = measure_allreduce([*launch_ranks(RANKS), sys.executable], 1, engine=engine, options=options)
    if not report.samples:
        raise HpcaiError(f"{engine}: {'; '.join(report.not_measured)}")
    return statistics.median(sample.duration_s for sample in report.samples)


def _plan(benchmark: str, engine: Engine):  # noqa: ANN202  a plan
    point = {"engine": engine, "ranks_per_node": RANKS, "global_batch": BATCHES[benchmark]}
    return bench_plan(benchmark, point, {"cores_per_rank": 1, "ranks_per_node": RANKS})


if __name__ == "__main__":
    main()
