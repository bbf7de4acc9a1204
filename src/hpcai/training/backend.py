"""Differences between Keras' backends: fused kernels that only TensorFlow has, and initial weights.

Models and losses are written with Keras' layers and ``keras.ops``, which run on TensorFlow and JAX.
"""

import math
from collections.abc import Sequence

import keras
import tensorflow as tf
from keras import ops

LARGEST_SEED = 2**31 - 2
"""Keras takes seeds for TensorFlow's generator modulo this number (keras/src/backend/tensorflow/random.py)."""
TRUNCATION = 0.87962566103423978
"""Standard deviation of a normal distribution truncated at two standard deviations (keras, VarianceScaling)."""


def is_tensorflow() -> bool:
    """Return whether Keras computes with TensorFlow."""
    return bool(keras.backend.backend() == "tensorflow")


def add_bias(values: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Return values (..., channels) plus a bias (channels,)."""
    return tf.nn.bias_add(values, bias) if is_tensorflow() else values + bias


def half_square_sum(values: tf.Tensor) -> tf.Tensor:
    """Return half the sum of squares, a scalar."""
    return tf.nn.l2_loss(values) if is_tensorflow() else ops.sum(ops.square(values)) / 2


@keras.saving.register_keras_serializable(package="hpcai")
class VarianceScaling(keras.initializers.VarianceScaling):  # type: ignore[misc]
    """Keras' initializer with TensorFlow's random numbers on every backend: equal seeds give equal weights."""

    def __call__(self, shape: Sequence[int], dtype: str | None = None) -> tf.Tensor:
        """Return initial weights whose last two axes are inputs and outputs."""
        if is_tensorflow():
            return super().__call__(shape, dtype)
        field = math.prod(shape[:-2])
        inputs, outputs = field * shape[-2], field * shape[-1]
        fans = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}
        variance, seed = self.scale / max(1.0, fans[self.mode]), [self.seed % LARGEST_SEED, 0]
        if self.distribution == "uniform":
            limit = math.sqrt(3 * variance)
            values = tf.random.stateless_uniform(shape, seed, -limit, limit)
        else:
            values = tf.random.stateless_truncated_normal(shape, seed, 0.0, math.sqrt(variance) / TRUNCATION)
        return ops.convert_to_tensor(values.numpy(), dtype)


def glorot_uniform(seed: int) -> VarianceScaling:
    """Return Glorot's initializer with a uniform distribution."""
    return VarianceScaling(1.0, "fan_avg", "uniform", seed=seed)
