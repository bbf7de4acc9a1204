"""AdamW against PyTorch's formula, written out in NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from hpcai.workloads.opencatalyst.training.optimizer import TorchAdamW

RATE, DECAY, EPSILON = 0.01, 0.1, 1e-3


def torch_adamw(weights: np.ndarray, gradients: list[np.ndarray], *, before: bool = False) -> np.ndarray:
    """torch/optim/adamw.py, _single_tensor_adamw; ``before`` adds epsilon as Keras does."""
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for step, gradient in enumerate(gradients, 1):
        weights = weights * (1 - RATE * DECAY)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        correction = np.sqrt(1 - 0.999**step)
        deviation = (np.sqrt(second) + EPSILON) / correction if before else np.sqrt(second) / correction + EPSILON
        weights = weights - RATE / (1 - 0.9**step) * first / deviation
    return weights


def trained(
    kind: type[keras.Optimizer], start: np.ndarray, gradients: list[np.ndarray], *, compiled: bool
) -> np.ndarray:
    """The weights after a step with each gradient."""
    optimizer, weight = kind(RATE, weight_decay=DECAY, epsilon=EPSILON), keras.Variable(start)
    optimizer.build([weight])

    def step(gradient: tf.Tensor) -> None:
        optimizer.apply([gradient], [weight])

    run = tf.function(step) if compiled else step
    for gradient in gradients:
        run(tf.constant(gradient, tf.float32))
    return weight.numpy()


@pytest.mark.parametrize("compiled", [False, True])
def test_it_is_pytorchs_formula_and_keras_own_is_not(compiled: bool) -> None:
    random = np.random.default_rng(1)
    start = random.normal(size=(3, 2))
    gradients = [random.normal(0, 0.01, size=(3, 2)) for _ in range(4)]
    ours = trained(TorchAdamW, start, gradients, compiled=compiled)
    keras_own = trained(keras.optimizers.AdamW, start, gradients, compiled=compiled)
    np.testing.assert_allclose(ours, torch_adamw(start, gradients), rtol=1e-5)
    np.testing.assert_allclose(keras_own, torch_adamw(start, gradients, before=True), rtol=1e-5)
    assert np.abs(ours - keras_own).max() > 1e-3


def test_decay_falls_on_every_weight_and_follows_the_rate() -> None:
    optimizer = TorchAdamW(0.5, weight_decay=0.01)
    weights = [keras.Variable(np.ones(2)), keras.Variable(np.ones((2, 2)))]
    optimizer.build(weights)
    optimizer.learning_rate.assign(0.25)
    optimizer.apply([tf.zeros(2), tf.zeros((2, 2))], weights)
    for weight in weights:
        np.testing.assert_allclose(weight.numpy(), 1 - 0.25 * 0.01, rtol=1e-6)
