"""Batch normalisation with the statistics of one rank, or of a group of ranks."""

import math

import keras
import tensorflow as tf
from keras import ops

from hpcai.config.runs import RunPlan
from hpcai.training import collective
from hpcai.training.backend import is_tensorflow


def batch_norm(
    plan: RunPlan,
    *,
    momentum: float,
    epsilon: float,
    gamma_initializer: str = "ones",
    name: str | None = None,
    dtype: str | None = None,
) -> "BatchNormalization":
    """Return a layer that normalises over all axes but the last, in the precision of ``dtype``.

    Parameters
    ----------
    plan
        Its ``point.batchnorm_group`` ranks share their statistics; 1: each rank uses its own.
    momentum
        Fraction of the old moving statistics kept by a step (Keras' meaning, 1 - PyTorch's).
    epsilon
        Added to the variance.
    gamma_initializer
        Initial scale.
    name, dtype
        As for any Keras layer.
    """
    return BatchNormalization(
        plan.point.batchnorm_group,
        momentum=momentum,
        epsilon=epsilon,
        gamma_initializer=gamma_initializer,
        name=name,
        dtype=dtype,
    )


@keras.saving.register_keras_serializable(package="hpcai")
class BatchNormalization(keras.layers.Layer):  # type: ignore[misc]
    """Scale and shift to zero mean and unit variance over a batch; channels last, rank 4.

    Uses TensorFlow's fused operation, which on a processor is several times faster than Keras' separate ones. The
    moving variance is unbiased, as in that operation, TensorFlow 1's fused layers and PyTorch.
    """

    def __init__(
        self, group: int, *, momentum: float, epsilon: float, gamma_initializer: str = "ones", **keywords: object
    ) -> None:
        super().__init__(**keywords)
        self._group, self._momentum, self._epsilon = group, momentum, epsilon
        self._gamma_initializer = gamma_initializer

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the trainable scale and shift, and the moving statistics."""
        # Scale and statistics stay float32 in mixed precision.
        shared = {"shape": (input_shape[-1],), "autocast": False}
        self.gamma = self.add_weight(name="gamma", initializer=self._gamma_initializer, **shared)
        self.beta = self.add_weight(name="beta", initializer="zeros", **shared)
        kept = {**shared, "trainable": False}
        self.moving_mean = self.add_weight(name="moving_mean", initializer="zeros", **kept)
        self.moving_variance = self.add_weight(name="moving_variance", initializer="ones", **kept)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return the normalised inputs; same shape and type."""
        if training and (self._group > 1 or not is_tensorflow()):
            return self._normalise_with_group(inputs)
        if not is_tensorflow():
            return self._scaled(inputs, self.moving_mean.value, self.moving_variance.value)
        outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=self.gamma.value,
            offset=self.beta.value,
            mean=self.moving_mean.value,
            variance=self.moving_variance.value,
            epsilon=self._epsilon,
            exponential_avg_factor=1 - self._momentum,
            is_training=training,
        )
        if training:
            self.moving_mean.value.assign(mean)
            self.moving_variance.value.assign(variance)
        return outputs

    def _normalise_with_group(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalise with the statistics of the group, which the fused operation would treat as constants.

        Backends without that operation use this for a single rank too.
        """
        mean, variance = self._group_moments(inputs)
        count = math.prod(inputs.shape[:-1]) * self._group
        self._move(self.moving_mean, mean)
        self._move(self.moving_variance, variance * (count / max(count - 1, 1)))
        if self._group > 1:
            return self._scaled(inputs, mean, variance)
        statistics = ops.stop_gradient(mean), ops.stop_gradient(variance + self._epsilon)
        return normalised(inputs, self.gamma.value, self.beta.value, *statistics)

    def _scaled(self, inputs: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        """Normalise inputs with given statistics, in the inputs' type."""
        scale = self.gamma.value * ops.rsqrt(variance + self._epsilon)
        return _scaled_and_shifted(inputs, mean, scale, self.beta.value)

    def _group_moments(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return mean and variance over the equally large batches of the group's ranks."""
        values = ops.cast(inputs, self.variable_dtype)
        axes = tuple(range(len(inputs.shape) - 1))
        mean = ops.mean(values, axes)
        if self._group == 1:
            return mean, ops.mean(ops.square(values - mean), axes)
        own = ops.stack([mean, ops.mean(ops.square(values), axes)])
        mean, square = ops.unstack(collective.mean_over_group(own, self.name), axis=0)
        # Rounding must not make the variance of nearly equal values negative.
        return mean, ops.relu(square - ops.square(mean))

    def _move(self, moving: keras.Variable, statistic: tf.Tensor) -> None:
        moving.assign(moving.value * self._momentum + ops.stop_gradient(statistic) * (1 - self._momentum))

    def compute_output_shape(self, input_shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        """Return the shape of the inputs."""
        return input_shape


def _scaled_and_shifted(inputs: tf.Tensor, mean: tf.Tensor, scale: tf.Tensor, shift: tf.Tensor) -> tf.Tensor:
    # The difference comes first: a channel of equal values is shifted to exactly beta, as by the fused operation.
    return ops.cast((ops.cast(inputs, mean.dtype) - mean) * scale + shift, inputs.dtype)


def normalised(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
    """Return a batch normalised with its own statistics, whose gradients are part of that of the inputs.

    The gradient is the closed form (Ioffe and Szegedy 2015, section 3). It reads inputs and upstream twice; what JAX
    derives from the formulas of the statistics reads the inputs once more.

    Parameters
    ----------
    inputs : (..., channels)
        The batch.
    gamma, beta, mean, variance : (channels,)
        Scale, shift and statistics of the inputs; the variance with what is added to it. Statistics get no gradient.
    """
    axes, count = tuple(range(len(inputs.shape) - 1)), math.prod(inputs.shape[:-1])

    @ops.custom_gradient  # type: ignore[untyped-decorator]
    def of_batch(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> object:
        inverse = ops.rsqrt(variance)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            given, centred = ops.cast(upstream, mean.dtype), ops.cast(inputs, mean.dtype) - mean
            of_beta, of_gamma = ops.sum(given, axes), ops.sum(given * centred, axes) * inverse
            shared = (of_beta + centred * (inverse * of_gamma)) / count
            of_inputs = ops.cast(gamma * inverse * (given - shared), inputs.dtype)
            return of_inputs, of_gamma, of_beta, ops.zeros_like(mean), ops.zeros_like(variance)

        return _scaled_and_shifted(inputs, mean, gamma * inverse, beta), gradient

    return of_batch(inputs, gamma, beta, mean, variance)
