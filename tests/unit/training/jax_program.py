"""A few steps of one rank with an engine; for JAX in a separate process: Keras chooses its backend at import."""

import json
import os
from typing import Any

if __name__ == "__main__":
    os.environ["KERAS_BACKEND"] = "jax"

import numpy as np
from unit.training.training_plans import make_plan

from hpcai.config.machine import Device
from hpcai.config.runs import RunPlan
from hpcai.training import collective
from hpcai.training.engines import steps_of
from hpcai.training.workload import Streams
from hpcai.workloads.cosmoflow.training import CosmoFlow

SEEDS = Streams(weights=1, order=2, dropout=3)
SMALL = {"conv_layers": 1, "base_filters": 2}


def plan_for(engine: str) -> RunPlan:
    return make_plan(model=SMALL, recipe={"weight_decay": 0.01}, point={"global_batch": 4, "engine": engine})


def take_steps(engine: str) -> dict[str, Any]:
    """Return losses, evaluation rows and digests; `collective` must have been started."""
    random = np.random.default_rng(2)
    plan = plan_for(engine)
    # XLA must know the options of GPUs, which it ignores on a processor.
    machine = plan.machine.model_copy(update={"device": Device(kind="gpu")})
    steps = steps_of(engine).Engine(CosmoFlow(plan.model_copy(update={"machine": machine})), SEEDS)
    fresh = steps.digest()
    steps.synchronise()
    steps.warm_up()
    warm = steps.digest()
    steps.set_learning_rate(0.01)
    losses = []
    for _ in range(5):
        counts = random.poisson(1, (4, 16, 16, 16, 4)).astype(np.int16)
        targets = random.uniform(-1, 1, (4, 4)).astype(np.float32)
        losses.append(float(steps.train([(counts, targets)])))
    steps.synchronise_statistics()
    rows = np.asarray(steps.evaluate((counts, targets, np.array([1, 1, 1, 0], np.float32))))
    return {
        "losses": losses,
        "rows": rows.tolist(),
        "type": str(rows.dtype),
        "digests": [fresh, warm, steps.digest()],
        "parameters": steps.parameters,
    }


def main() -> None:
    """Join as a rank with JAX, and print its steps as JSON."""
    plan = plan_for("jax")
    steps_of("jax").configure_device(plan.machine.device, 1, 0)
    collective.start(plan.point, "jax")
    print(json.dumps(take_steps("jax")))


if __name__ == "__main__":
    main()
