"""CosmoFlow's training step compared with the public reference implementation's model code, interleaved in one run.

Peer: `build_model` of mlcommons/hpc, cosmoflow/models/cosmoflow.py, in float32, in a compiled step with the same loss
and optimizer. It receives the logarithm of the counts, which our step computes itself. Needs a checkout of that
repository: `git clone https://github.com/mlcommons/hpc` and `HPCAI_REFERENCE=hpc make bench`.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from plans import bench_plan

from hpcai.training.engine import Engine, configure_device
from hpcai.training.registry import workload_of
from hpcai.training.workload import seed_streams

GOALS = {"fp32": 1.0, "bf16": 1.4}
ROUNDS, BATCH, EDGE = 5, 1, 128
MISSING = "not measured: set HPCAI_REFERENCE to a checkout of https://github.com/mlcommons/hpc"


def main() -> None:
    """Print the ratios; fail if one is below its goal."""
    folder = os.environ.get("HPCAI_REFERENCE")
    if not folder:
        print(MISSING)
        return
    sys.path.insert(0, str(Path(folder) / "cosmoflow"))
    threads = len(os.sched_getaffinity(0))
    steps = _steps(threads)
    times_s: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            started_s = time.monotonic()
            step()
            times_s[name].append(time.monotonic() - started_s)
    print(f"{EDGE}^3, batch {BATCH}, {threads} threads; medians of {ROUNDS} rounds of reference, fp32, bf16, ...")
    failed = False
    for name, goal in GOALS.items():
        pairs = zip(times_s["reference"], times_s[name], strict=True)
        ratio = statistics.median(reference_s / own_s for reference_s, own_s in pairs)
        step_s, reference_s = statistics.median(times_s[name]), statistics.median(times_s["reference"])
        print(f"{name}: step {step_s:.3f} s, reference in fp32 {reference_s:.3f} s, ratio {ratio:.2f} (goal {goal})")
        failed = failed or ratio < goal
    sys.exit(failed)


def _steps(threads: int) -> dict[str, Callable[[], object]]:
    """Return the compiled steps, each run once."""
    import numpy as np
    import tensorflow as tf

    from hpcai.training import collective

    machine = {"cores_per_node": threads, "cores_per_rank": threads, "ranks_per_node": 1}
    plans = {
        precision: bench_plan("cosmoflow", {"precision": precision, "global_batch": BATCH}, machine)
        for precision in GOALS
    }
    configure_device(plans["fp32"].machine.device, threads, 0)
    collective.start()
    rng = np.random.default_rng(1)
    counts = tf.constant(rng.poisson(1.0, (BATCH, EDGE, EDGE, EDGE, 4)), tf.int16)
    targets = tf.constant(rng.uniform(-1, 1, (BATCH, 4)), tf.float32)
    reference = _reference_step(tf.math.log1p(tf.cast(counts, tf.float32)), targets)
    steps: dict[str, Callable[[], object]] = {"reference": reference}
    for precision, plan in plans.items():
        engine = Engine(workload_of(plan), seed_streams(1, 0))
        engine.warm_up()
        steps[precision] = lambda engine=engine: engine.train([(counts, targets)]).numpy()
    reference()
    return steps


def _reference_step(inputs: object, targets: object) -> Callable[[], object]:
    import keras
    import tensorflow as tf
    from models.cosmoflow import build_model  # of the reference

    model = build_model((EDGE, EDGE, EDGE, 4), 4)
    optimizer = keras.optimizers.SGD(0.001, momentum=0.9)
    optimizer.build(model.trainable_variables)

    @tf.function
    def step() -> tf.Tensor:
        variables = model.trainable_variables
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.math.squared_difference(model(inputs, training=True), targets))
        optimizer.apply(tape.gradient(loss, [variable.value for variable in variables]), variables)
        return loss

    return lambda: step().numpy()


if __name__ == "__main__":
    main()
