"""Batch normalisation against its definition."""

import numpy as np
import pytest
import tensorflow as tf

from hpcai.training.batch_norm import BatchNormalization, normalised

RANDOM = np.random.default_rng(1)
INPUTS = RANDOM.normal(3, 2, (4, 5, 6, 3)).astype(np.float32)


def layer(dtype: str = "float32", **settings: float) -> BatchNormalization:
    return BatchNormalization(1, **{"momentum": 0.9, "epsilon": 1e-5, **settings}, dtype=dtype)


def test_outputs_and_moving_statistics() -> None:
    norm = layer()
    outputs = norm(INPUTS, training=True).numpy()
    mean, variance = INPUTS.mean((0, 1, 2)), INPUTS.var((0, 1, 2))
    np.testing.assert_allclose(outputs, (INPUTS - mean) / np.sqrt(variance + 1e-5), atol=1e-4)
    np.testing.assert_allclose(norm.moving_mean.numpy(), 0.1 * mean, rtol=1e-5)
    count = INPUTS[..., 0].size
    np.testing.assert_allclose(norm.moving_variance.numpy(), 0.9 + 0.1 * variance * count / (count - 1), rtol=1e-4)


def test_evaluation_uses_the_moving_statistics_and_leaves_them() -> None:
    norm = layer()
    norm(INPUTS, training=True)
    before = [weight.numpy() for weight in norm.weights]
    gamma, beta, mean, variance = before
    outputs = norm(INPUTS, training=False).numpy()
    np.testing.assert_allclose(outputs, gamma * (INPUTS - mean) / np.sqrt(variance + 1e-5) + beta, atol=1e-4)
    for weight, value in zip(norm.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


def test_scale_and_shift_are_trained_and_statistics_are_not() -> None:
    norm = layer()
    norm.build(INPUTS.shape)
    assert [weight.name for weight in norm.trainable_weights] == ["gamma", "beta"]
    assert [weight.name for weight in norm.non_trainable_weights] == ["moving_mean", "moving_variance"]


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision_keeps_statistics_in_float32(dtype: str) -> None:
    norm = layer(dtype)

    @tf.function
    def step(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            outputs = norm(values, training=True)
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) ** 2)
        return outputs, tape.gradient(loss, norm.gamma.value)

    low = tf.cast(INPUTS, dtype.removeprefix("mixed_"))
    outputs, gradient = step(low)
    assert outputs.dtype == low.dtype
    assert gradient.dtype == tf.float32
    np.testing.assert_allclose(norm.moving_mean.numpy(), 0.1 * INPUTS.mean((0, 1, 2)), rtol=1e-2)


def test_the_closed_gradient_is_that_of_the_definition() -> None:
    inputs, upstream = (tf.constant(RANDOM.normal(3, 2, (4, 5, 6, 3))) for _ in range(2))
    gamma, beta = (tf.constant(RANDOM.normal(1, 1, 3)) for _ in range(2))

    def by_definition() -> tf.Tensor:
        mean, variance = tf.nn.moments(inputs, (0, 1, 2))
        return gamma * (inputs - mean) / tf.sqrt(variance + 1e-3) + beta

    def closed() -> tf.Tensor:
        mean, variance = (tf.stop_gradient(one) for one in tf.nn.moments(inputs, (0, 1, 2)))
        return normalised(inputs, gamma, beta, mean, variance + 1e-3)

    found = []
    for function in (closed, by_definition):
        with tf.GradientTape() as tape:
            tape.watch([inputs, gamma, beta])
            outputs = function()
        found.append([outputs, *tape.gradient(outputs, [inputs, gamma, beta], upstream)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
