"""The rank program with initial weights that are a little off: `perturbed_program.py RELATIVE SEED ...`.

What a training makes of that tells how much it amplifies rounding.
"""

import runpy
import sys

import numpy as np

from hpcai.training.engine import Engine

relative, seed = float(sys.argv.pop(1)), int(sys.argv.pop(1))
real = Engine.synchronise


def synchronise(engine: Engine) -> None:
    """Change the weights of all ranks alike before they become those of rank 0."""
    random = np.random.default_rng(seed)
    for variable in engine.model.trainable_variables:
        values = variable.numpy()
        variable.assign(values * (1 + relative * random.standard_normal(values.shape)).astype(values.dtype))
    real(engine)


Engine.synchronise = synchronise
runpy.run_module("hpcai.training", run_name="__main__")
