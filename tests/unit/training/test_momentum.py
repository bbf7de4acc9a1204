"""Momentum against its formula."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from hpcai.training.momentum import MomentumSGD

GRADIENTS = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


def train(optimizer: keras.optimizers.Optimizer, rates: list[float]) -> np.ndarray:
    variable = keras.Variable(np.ones(3, np.float32))
    optimizer.build([variable])
    for rate, gradient in zip(rates, GRADIENTS, strict=True):
        optimizer.learning_rate.assign(rate)
        optimizer.apply([tf.constant(gradient)], [variable])
    return np.asarray(variable.numpy())


def test_a_changed_rate_acts_on_the_whole_velocity() -> None:
    rates = [0.1, 0.1, 0.4, 0.02, 0.3]
    weights, velocity = np.ones(3), np.zeros(3)
    for rate, gradient in zip(rates, GRADIENTS, strict=True):
        velocity = 0.875 * velocity + gradient
        weights = weights - rate * velocity
    found = train(MomentumSGD(0.0, momentum=0.875), rates)
    np.testing.assert_allclose(found, weights, rtol=1e-5)
    assert np.abs(train(keras.optimizers.SGD(0.0, momentum=0.875), rates) - found).max() > 1e-2


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_with_a_constant_rate_it_is_keras_own(momentum: float) -> None:
    ours, keras_own = (train(kind(0.1, momentum=momentum), [0.1] * 5) for kind in (MomentumSGD, keras.optimizers.SGD))
    np.testing.assert_allclose(ours, keras_own, rtol=1e-5)
