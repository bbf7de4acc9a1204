"""The engine tensorflow compared with Horovod on two ranks of this node: a training step, and an allreduce of 10 MB.

Interleaved: each round starts both engines in sequence with the same launcher, so Horovod uses Gloo. The ratio is
the median over the rounds; above 1 the engine tensorflow is slower.
"""

import os
import statistics
import sys
import tempfile
from pathlib import Path

from plans import bench_plan, launch_ranks, prepared, time_step

from hpcai.config.base import Engine
from hpcai.core.errors import HpcaiError
from hpcai.machine.ceilings.allreduce import measure_allreduce

ENGINES: tuple[Engine, ...] = ("horovod", "tensorflow")
ROUNDS = 5
MESSAGE_BYTES = 10_000_000
BENCHMARK, BATCH, RANKS = "cosmoflow_tiny", 8, 2


def main() -> None:
    """Print a row for each; exit with 1 if something could not be measured."""
    print(f"{RANKS} ranks, {len(os.sched_getaffinity(0))} cores; medians over {ROUNDS} interleaved rounds")
    print("what                                horovod_ms tensorflow_ms  ratio  smallest   largest")
    with tempfile.TemporaryDirectory() as folder:
        data = prepared(_plan("horovod"), Path(folder) / "data")
        ways = {
            f"allreduce of {MESSAGE_BYTES / 1e6:g} MB": lambda engine, _: _allreduce_s(engine),
            f"step of {BENCHMARK}, batch {BATCH}": lambda engine, place: time_step(
                _plan(engine), data, Path(folder) / place
            )[0],
        }
        for what, measure in ways.items():
            rounds = [[measure(engine, f"{engine}{number}") for engine in ENGINES] for number in range(ROUNDS)]
            _print(what, rounds)


def _allreduce_s(engine: Engine) -> float:
    options = ("--sizes", str(MESSAGE_BYTES), "--repeats", "20")
    report = measure_allreduce([*launch_ranks(RANKS), sys.executable], 1, engine=engine, options=options)
    if not report.samples:
        raise HpcaiError(f"{engine}: {'; '.join(report.not_measured)}")
    return statistics.median(sample.duration_s for sample in report.samples)


def _plan(engine: Engine):  # noqa: ANN202  a plan
    point = {"engine": engine, "ranks_per_node": RANKS, "global_batch": BATCH}
    return bench_plan(BENCHMARK, point, {"cores_per_rank": 1, "ranks_per_node": RANKS})


def _print(what: str, rounds: list[list[float]]) -> None:
    horovod_s, tensorflow_s = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratios = [other / peer for peer, other in rounds]
    print(
        f"{what:34} {horovod_s * 1e3:11.2f} {tensorflow_s * 1e3:13.2f} {statistics.median(ratios):6.2f} "
        f"{min(ratios):9.2f} {max(ratios):9.2f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
