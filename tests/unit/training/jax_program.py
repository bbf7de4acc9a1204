"""A few steps of one rank with an engine, in a separate process: Keras chooses its backend at import."""

import json
import os
import sys

ENGINE = sys.argv[1]
os.environ["KERAS_BACKEND"] = "jax" if ENGINE == "jax" else "tensorflow"

import numpy as np  # noqa: E402
from unit.training.training_plans import make_plan  # noqa: E402

from hpcai.training import collective  # noqa: E402
from hpcai.training.engines import steps_of  # noqa: E402
from hpcai.training.workload import Streams  # noqa: E402
from hpcai.workloads.cosmoflow.training import CosmoFlow  # noqa: E402

SEEDS = Streams(weights=1, order=2, dropout=3)
SMALL = {"conv_layers": 1, "base_filters": 2}


def main() -> None:
    """Print losses, evaluation rows and digests as JSON."""
    random = np.random.default_rng(2)
    plan = make_plan(model=SMALL, recipe={"weight_decay": 0.01}, point={"global_batch": 4, "engine": ENGINE})
    modules = steps_of(ENGINE)
    modules.configure_device(plan.machine.device, 1, 0)
    collective.start(plan.point, ENGINE)
    engine = modules.Engine(CosmoFlow(plan), SEEDS)
    fresh = engine.digest()
    engine.synchronise()
    engine.warm_up()
    warm = engine.digest()
    engine.set_learning_rate(0.01)
    losses = []
    for _ in range(5):
        counts = random.poisson(1, (4, 16, 16, 16, 4)).astype(np.int16)
        targets = random.uniform(-1, 1, (4, 4)).astype(np.float32)
        losses.append(float(engine.train([(counts, targets)])))
    engine.synchronise_statistics()
    rows = np.asarray(engine.evaluate((counts, targets, np.array([1, 1, 1, 0], np.float32))))
    found = {
        "losses": losses,
        "rows": rows.tolist(),
        "type": str(rows.dtype),
        "digests": [fresh, warm, engine.digest()],
    }
    print(json.dumps(found | {"parameters": engine.parameters}))


main()
