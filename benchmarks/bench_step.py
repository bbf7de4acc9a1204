"""CosmoFlow training steps as a fraction of the machine's measured GEMM rate, interleaved in one run.

Peer: the fastest of NumPy's and TensorFlow's matrix products before and after each step. The step is the one of the
training loop, with its optimizer, on one rank that has all cores. Its work is counted layer by layer: `computed`
counts what is really done, `6x forward` also an input gradient of the first layer that nobody needs.
"""

import os
import statistics
import sys
import time
from dataclasses import dataclass
from itertools import pairwise

from plans import bench_plan

from hpcai.characterise.gemm import GemmSample, Product, products, time_product
from hpcai.config.machine import Precision
from hpcai.config.runs import RunPlan
from hpcai.training.engine import Engine, configure_device
from hpcai.training.registry import workload_of
from hpcai.training.work import computed_flop, cosmoflow_layers, sixfold_flop
from hpcai.training.workload import seed_streams

GOAL_RATIO = 0.85
GEMM_SIZE = 2048


@dataclass(frozen=True)
class Case:
    """One benchmark file in one precision; ``steps`` are timed together so that a short step is not only noise."""

    benchmark: str
    precision: Precision
    batch: int
    rounds: int
    steps: int


CASES = (
    Case("cosmoflow", "fp32", batch=1, rounds=5, steps=1),
    Case("cosmoflow", "bf16", batch=1, rounds=5, steps=1),
    Case("cosmoflow_tiny", "fp32", batch=4, rounds=9, steps=20),
    Case("cosmoflow_tiny", "bf16", batch=4, rounds=9, steps=20),
)


def main() -> None:
    """Print a row for each case; fail if the goal at 128^3 in fp32 is missed."""
    threads = len(os.sched_getaffinity(0))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(threads))
    print(f"threads {threads}; medians over rounds of GEMM, step, GEMM, step, ..., GEMM")
    print("benchmark       precision batch rounds  step_ms  samples_per_s  gemm_gflop_per_s  computed  6x forward")
    reached = {}
    for number, case in enumerate(CASES):
        reached[case.benchmark, case.precision] = _run(case, threads, first=number == 0)
    ratio = reached["cosmoflow", "fp32"]
    print(f"goal: at least {GOAL_RATIO:.2f} of the GEMM rate at 128^3 in fp32, computed work; reached {ratio:.2f}")
    sys.exit(ratio < GOAL_RATIO)


def _run(case: Case, threads: int, *, first: bool) -> float:
    """Time one case; return the median ratio of computed work to the GEMM rate."""
    import numpy as np
    import tensorflow as tf

    from hpcai.training import collective

    machine = {"cores_per_node": threads, "cores_per_rank": threads, "ranks_per_node": 1}
    plan = bench_plan(case.benchmark, {"precision": case.precision, "global_batch": case.batch}, machine)
    if first:
        configure_device(plan.machine.device, threads, 0)
        collective.start()
    workload = workload_of(plan)
    engine = Engine(workload, seed_streams(1, 0))
    engine.warm_up()
    counts, targets = (spec.shape for spec in workload.batch_spec())
    rng = np.random.default_rng(1)
    batch = (tf.constant(rng.poisson(1.0, counts), tf.int16), tf.constant(rng.uniform(-1, 1, targets), tf.float32))
    ways = products((case.precision,), (GEMM_SIZE,))
    for way in ways:
        way.run()
    gemms, steps_s = [_best(ways, threads)], []
    for _ in range(case.rounds):
        started_s = time.monotonic()
        for _ in range(case.steps):
            loss = engine.train(*batch)
        loss.numpy()
        steps_s.append((time.monotonic() - started_s) / case.steps)
        gemms.append(_best(ways, threads))
    return _print(case, plan, steps_s, [sample.rate_flop_per_s for sample in gemms])


def _best(ways: list[Product], threads: int) -> GemmSample:
    return max((time_product(way, threads) for way in ways), key=lambda sample: sample.rate_flop_per_s)


def _print(case: Case, plan: RunPlan, steps_s: list[float], gemm_flop_per_s: list[float]) -> float:
    """Print one row; each step is compared with the better of the products before and after it."""
    layers = cosmoflow_layers(plan.benchmark)
    ceilings = [max(pair) for pair in pairwise(gemm_flop_per_s)]
    timed = list(zip(steps_s, ceilings, strict=True))
    ratios = [
        statistics.median(count(layers, case.batch) / step_s / roof for step_s, roof in timed)
        for count in (computed_flop, sixfold_flop)
    ]
    step_s = statistics.median(steps_s)
    print(
        f"{case.benchmark:15} {case.precision:9} {case.batch:5} {case.rounds:6} {step_s * 1e3:8.1f} "
        f"{case.batch / step_s:14.1f} {statistics.median(gemm_flop_per_s) / 1e9:17.0f} "
        f"{ratios[0]:9.2f} {ratios[1]:11.2f}",
        flush=True,
    )
    return ratios[0]


if __name__ == "__main__":
    main()
