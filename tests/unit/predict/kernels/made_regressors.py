"""Regressors with made-up weights, for tests of quantities computed from them."""

from itertools import pairwise

import numpy as np

from hpcai.predict.kernels.cases import KERNELS
from hpcai.predict.kernels.regressor import (
    HIDDEN_LAYERS,
    HIDDEN_WIDTH,
    DenseLayer,
    InputScale,
    KernelRegressor,
)


def make_regressor(kernel, smallest=1.0, largest=1e9):
    """Return a regressor of the full shape with random weights."""
    names = KERNELS[kernel].inputs
    generator = np.random.default_rng(5)
    widths = [len(names), *[HIDDEN_WIDTH] * HIDDEN_LAYERS, 1]
    layers = [
        DenseLayer(weights=generator.normal(0, before**-0.5, (before, after)), biases=generator.normal(0, 0.1, after))
        for before, after in pairwise(widths)
    ]
    return _describe(kernel, layers, smallest, largest)


def make_constant_regressor(kernel, time_s):
    """Return a regressor that estimates the same time for any size."""
    widths = [len(KERNELS[kernel].inputs), 1]
    layer = DenseLayer(weights=np.zeros(widths), biases=np.zeros(1))
    return _describe(kernel, [layer], 1.0, 1e12, time_s)


def _describe(kernel, layers, smallest, largest, time_s=1e-4):
    scales = [
        InputScale(name=name, log_mean=3.0, log_deviation=2.0, smallest=smallest, largest=largest)
        for name in KERNELS[kernel].inputs
    ]
    return KernelRegressor(
        kernel=kernel,
        inputs=scales,
        time_log_mean=np.log(time_s),
        time_log_deviation=1.5,
        layers=layers,
        n_training=64,
        n_validation=16,
        n_test=20,
        seed=1,
        restarts=1,
        epochs=10,
        validation_loss=0.01,
        data_sha256="0" * 64,
        software={"keras": "3"},
    )
