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


Padding = str | list[list[int]]
"""SAME, VALID, or the zeros before and after each axis."""


FEWEST_STRIDED_INPUTS = 8
"""With fewer (6 and below), oneDNN of TensorFlow 2.18.1 computes a wrong gradient of the kernel of a strided 1x1
convolution and overwrites memory, on processors with AVX2 but without AVX-512. Networks of official width have more."""


def convolve(
    values: tf.Tensor, kernel: tf.Tensor, stride: int = 1, padding: Padding = "VALID", dilation: int = 1
) -> tf.Tensor:
    """Return the convolution of (batch, height, width, inputs) with a kernel (edge, edge, inputs, filters)."""
    if is_tensorflow():
        if stride > 1 and kernel.shape[0] == 1 and kernel.shape[2] < FEWEST_STRIDED_INPUTS:
            values, stride = values[:, ::stride, ::stride], 1
        return tf.nn.conv2d(values, kernel, [1, stride, stride, 1], padding, dilations=dilation)
    values, padding = _padded(values, padding)
    return ops.conv(values, kernel, stride, padding, dilation_rate=dilation)


def convolve_each(
    values: tf.Tensor, kernel: tf.Tensor, stride: int = 1, padding: Padding = "VALID", dilation: int = 1
) -> tf.Tensor:
    """Return the convolution of each channel with a kernel of its own, (edge, edge, channels, 1)."""
    if is_tensorflow():
        strides, dilations = [1, stride, stride, 1], [dilation, dilation]
        return tf.nn.depthwise_conv2d(values, kernel, strides, padding, dilations=dilations)
    values, padding = _padded(values, padding)
    return ops.depthwise_conv(values, kernel, stride, padding, dilation_rate=dilation)


def _padded(values: tf.Tensor, padding: Padding) -> tuple[tf.Tensor, str]:
    """Return values with the zeros around them, and how to pad what is left; Keras knows no explicit paddings."""
    return (values, padding.lower()) if isinstance(padding, str) else (ops.pad(values, padding), "valid")


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
        variance, seed = self.scale / max(1.0, fans[self.mode]), _tensorflow_seed(self.seed)
        if self.distribution == "uniform":
            limit = math.sqrt(3 * variance)
            values = tf.random.stateless_uniform(shape, seed, -limit, limit)
        else:
            values = tf.random.stateless_truncated_normal(shape, seed, 0.0, math.sqrt(variance) / TRUNCATION)
        return ops.convert_to_tensor(values.numpy(), dtype)


@keras.saving.register_keras_serializable(package="hpcai")
class RandomNormal(keras.initializers.RandomNormal):  # type: ignore[misc]
    """Keras' initializer, with TensorFlow's random numbers on every backend."""

    def __call__(self, shape: Sequence[int], dtype: str | None = None) -> tf.Tensor:
        """Return initial weights."""
        if is_tensorflow():
            return super().__call__(shape, dtype)
        values = tf.random.stateless_normal(shape, _tensorflow_seed(self.seed), self.mean, self.stddev)
        return ops.convert_to_tensor(values.numpy(), dtype)


@keras.saving.register_keras_serializable(package="hpcai")
class RandomUniform(keras.initializers.RandomUniform):  # type: ignore[misc]
    """Keras' initializer, with TensorFlow's random numbers on every backend."""

    def __call__(self, shape: Sequence[int], dtype: str | None = None) -> tf.Tensor:
        """Return initial weights."""
        if is_tensorflow():
            return super().__call__(shape, dtype)
        values = tf.random.stateless_uniform(shape, _tensorflow_seed(self.seed), self.minval, self.maxval)
        return ops.convert_to_tensor(values.numpy(), dtype)


def _tensorflow_seed(seed: int) -> list[int]:
    """Return the seed that Keras gives TensorFlow's generator."""
    return [seed % LARGEST_SEED, 0]


def glorot_uniform(seed: int) -> VarianceScaling:
    """Return Glorot's initializer with a uniform distribution."""
    return VarianceScaling(1.0, "fan_avg", "uniform", seed=seed)
