"""Training steps of all benchmarks as a fraction of the machine's measured GEMM rate, interleaved in one run.

Peer: the faster of NumPy's and TensorFlow's matrix products before and after each step. The step is that of the
training loop, including its optimizer, on one rank with all cores, on samples from the input pipeline. Its work is
counted layer by layer: `computed` counts the actual work in convolutions and dense layers; `6x forward` also counts
an input gradient of the first layer, which is never needed.
"""

import os
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from plans import OFFICIAL_DATA, Case, bench_plan, dataset_of

from hpcai.machine.ceilings.gemm import products, square
from hpcai.machine.ceilings.sampling import Sample, Way, time_way
from hpcai.training.engine import Engine, configure_device
from hpcai.training.registry import workload_of
from hpcai.training.work import computed_flop, sixfold_flop
from hpcai.training.workload import seed_streams

GOALS = {"cosmoflow": 0.85, "resnet50": 0.60, "extreme_weather": 0.60, "deepcam": 0.60}
GEMM_SIZE = 2048
CASES = (
    Case("resnet50", "fp32", batch=16, rounds=5, steps=1, data=OFFICIAL_DATA["resnet50"]),
    Case("extreme_weather", "fp32", batch=1, rounds=3, steps=1, data=OFFICIAL_DATA["extreme_weather"]),
    Case("cosmoflow", "fp32", batch=1, rounds=5, steps=1, data=OFFICIAL_DATA["cosmoflow"]),
    Case("cosmoflow", "bf16", batch=1, rounds=5, steps=1, data=OFFICIAL_DATA["cosmoflow"]),
    Case("deepcam", "fp32", batch=1, rounds=3, steps=1, data=OFFICIAL_DATA["deepcam"]),
    Case("opencatalyst", "fp32", batch=8, rounds=5, steps=2, data=OFFICIAL_DATA["opencatalyst"]),
    Case("resnet50_tiny", "fp32", batch=8, rounds=7, steps=10),
    Case("extreme_weather_tiny", "fp32", batch=4, rounds=7, steps=5),
    Case("cosmoflow_tiny", "fp32", batch=4, rounds=7, steps=20),
    Case("deepcam_tiny", "fp32", batch=2, rounds=7, steps=5),
    Case("opencatalyst_tiny", "fp32", batch=4, rounds=7, steps=10),
)


def main() -> None:
    """Print a row per case, or for those named on the command line; fail if a goal is missed."""
    threads = len(os.sched_getaffinity(0))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(threads))
    print(f"threads {threads}; medians over rounds of GEMM, step, GEMM, step, ..., GEMM")
    print(
        "benchmark            precision batch rounds  step_ms samples_per_s gemm_gflop_per_s computed  6x forward  goal"
    )
    failed = False
    chosen = [case for case in CASES if not sys.argv[1:] or case.benchmark in sys.argv[1:]]
    for number, case in enumerate(chosen):
        with tempfile.TemporaryDirectory() as folder:
            reached = _run(case, Path(folder), threads, first=number == 0)
        failed |= case.precision == "fp32" and reached < GOALS.get(case.benchmark, 0.0)
    sys.exit(failed)


def _run(case: Case, folder: Path, threads: int, *, first: bool) -> float:
    """Time one case; return the median ratio of computed work to the GEMM rate."""
    from hpcai.training import collective

    machine = {"cores_per_node": threads, "cores_per_rank": threads, "ranks_per_node": 1}
    plan = bench_plan(case.benchmark, {"precision": case.precision, "global_batch": case.batch}, machine, case.data)
    if first:
        configure_device(plan.machine.device, threads, 0)
        collective.start()
    dataset = dataset_of(plan, folder, threads)
    workload = workload_of(plan, dataset.statistics)
    engine = Engine(workload, seed_streams(1, 0))
    engine.warm_up()
    engine.set_learning_rate(workload.learning_rate(0))
    batch = _first_batch(workload, dataset, case.batch, threads)
    ways = products((case.precision,), (square(GEMM_SIZE),))
    for way in ways:
        way.run()
    engine.train([batch]).numpy()
    gemms, steps_s = [_best(ways, threads)], []
    for _ in range(case.rounds):
        started_s = time.monotonic()
        for _ in range(case.steps):
            loss = engine.train([batch])
        loss.numpy()
        steps_s.append((time.monotonic() - started_s) / case.steps)
        gemms.append(_best(ways, threads))
    return _print(case, workload, steps_s, [sample.value for sample in gemms])


def _first_batch(workload: Any, dataset: Any, batch: int, threads: int) -> tuple[Any, ...]:  # noqa: ANN401
    from hpcai.training.input import Reading, Schedule, train_batches

    reading = Reading(workload.parse, workload.collate, batch, threads)
    return next(iter(train_batches(dataset.samples("train"), reading, Schedule(1, 1, batch))))


def _best(ways: list[Way], threads: int) -> Sample:
    return max((time_way(way, threads) for way in ways), key=lambda sample: sample.value)


def _print(case: Case, workload: Any, steps_s: list[float], gemm_flop_per_s: list[float]) -> float:  # noqa: ANN401
    """Print one row; each step is compared with the better of the products before and after it."""
    layers = workload.layers()
    ceilings = [max(pair) for pair in pairwise(gemm_flop_per_s)]
    timed = list(zip(steps_s, ceilings, strict=True))
    ratios = [
        statistics.median(count(layers, case.batch) / step_s / roof for step_s, roof in timed)
        for count in (computed_flop, sixfold_flop)
    ]
    step_s = statistics.median(steps_s)
    goal = f"{GOALS[case.benchmark]:.2f}" if case.precision == "fp32" and case.benchmark in GOALS else "-"
    print(
        f"{case.benchmark:20} {case.precision:9} {case.batch:5} {case.rounds:6} {step_s * 1e3:8.1f} "
        f"{case.batch / step_s:13.2f} {statistics.median(gemm_flop_per_s) / 1e9:16.0f} "
        f"{ratios[0]:8.2f} {ratios[1]:11.2f}  {goal:>4}",
        flush=True,
    )
    return ratios[0]


if __name__ == "__main__":
    main()
