"""The engine tensorflow compared with Horovod on two ranks of this node: a training step, and an allreduce of 10 MB.

Interleaved: each round starts both engines in sequence with the same launcher, so Horovod uses Gloo. The ratio is
the median over the rounds; above 1 the engine tensorflow is slower.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
from plans import bench_plan, prepared

from hpcai.config.base import Engine
from hpcai.config.load import write_plan
from hpcai.core.errors import HpcaiError
from hpcai.machine.ceilings.allreduce import measure_allreduce

ENGINES: tuple[Engine, ...] = ("horovod", "tensorflow")
ROUNDS, WARM_STEPS, STEPS = 5, 5, 60
MESSAGE_BYTES = 10_000_000
BENCHMARK, BATCH, RANKS = "cosmoflow_tiny", 8, 2
LAUNCH = (sys.executable, "-m", "hpcai.training.spawn", "-np", str(RANKS))


def main() -> None:
    """Print a row for each; exit with 1 if something could not be measured."""
    print(f"{RANKS} ranks, {len(os.sched_getaffinity(0))} cores; medians over {ROUNDS} interleaved rounds")
    print("what                                horovod_ms tensorflow_ms  ratio  smallest   largest")
    with tempfile.TemporaryDirectory() as folder:
        data = prepared(_plan("horovod"), Path(folder) / "data")
        ways = {
            f"allreduce of {MESSAGE_BYTES / 1e6:g} MB": lambda engine, _: _allreduce_s(engine),
            f"step of {BENCHMARK}, batch {BATCH}": lambda engine, place: _step_s(engine, data, Path(folder) / place),
        }
        for what, measure in ways.items():
            rounds = [[measure(engine, f"{engine}{number}") for engine in ENGINES] for number in range(ROUNDS)]
            _print(what, rounds)


def _allreduce_s(engine: Engine) -> float:
    options = ("--sizes", str(MESSAGE_BYTES), "--repeats", "20")
    report = measure_allreduce([*LAUNCH, sys.executable], 1, engine=engine, options=options)
    if not report.samples:
        raise HpcaiError(f"{engine}: {'; '.join(report.not_measured)}")
    return statistics.median(sample.duration_s for sample in report.samples)


def _plan(engine: Engine):  # noqa: ANN202  a plan
    point = {"engine": engine, "ranks_per_node": RANKS, "global_batch": BATCH}
    plan = bench_plan(BENCHMARK, point, {"cores_per_rank": 1, "ranks_per_node": RANKS})
    return plan.model_copy(update={"kind": "profiled", "max_steps": WARM_STEPS + STEPS})


def _step_s(engine: Engine, data: tuple[Path, Path], raw: Path) -> float:
    raw.mkdir()
    write_plan(_plan(engine), raw / "plan.json")
    program = [sys.executable, "-m", "hpcai.training", "--plan", raw / "plan.json", "--raw", raw]
    program += ["--manifest", data[0], "--pack", data[1], "--scratch", raw / "scratch", "--page-cache", "kept"]
    done = subprocess.run([*LAUNCH, *map(str, program)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HpcaiError(f"{engine}: exit status {done.returncode}: {done.stderr[-500:]}")
    return float(pd.read_csv(raw / "steps.csv")["step_time_s"].iloc[WARM_STEPS:].median())


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
