"""LARS as MLPerf's reference computes it (mlcommons/training: image_classification/tensorflow2/lars_optimizer.py)."""

from collections.abc import Sequence

import keras
import tensorflow as tf
from keras import ops

from hpcai.training.lamb import norm

EPSILON = 1e-7
"""Keras' own, which the reference takes where it is given none."""


class Lars(keras.optimizers.Optimizer):  # type: ignore[misc]
    """v <- momentum v + rate ratio (g + decay w); w <- w - v (You, Gitman and Ginsburg 2017).

    The ratio is ``trust |w| / (|g| + decay |w| + epsilon)`` for each variable, and 1 if one of the norms is 0. What
    :func:`is_scale_or_shift` tells has no weight decay, and the ratio 1.

    Parameters
    ----------
    learning_rate
        Of the first step.
    momentum
        Share of the velocity that a step keeps.
    weight_decay
        Of kernels.
    trust
        The reference's ``eeta``.
    """

    def __init__(self, learning_rate: float, momentum: float, weight_decay: float, trust: float) -> None:
        super().__init__(learning_rate)
        self._momentum, self._decay, self._trust = momentum, weight_decay, trust

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the velocities."""
        if self.built:
            return
        super().build(variables)
        self._velocities = [self.add_variable_from_reference(one, name="velocity") for one in variables]

    def apply(self, grads: Sequence[tf.Tensor], trainable_variables: Sequence[keras.Variable]) -> None:
        """Change all variables; replaces Keras' loop over them."""
        rate = self.learning_rate.value
        for gradient, variable, velocity in zip(grads, trainable_variables, self._velocities, strict=True):
            value, step = variable.value, gradient
            if not is_scale_or_shift(variable):
                step = self._ratio(value, gradient) * (gradient + self._decay * value)
            moved = self._momentum * velocity.value + rate * step
            velocity.assign(moved)
            variable.assign(value - moved)
        self.iterations.assign_add(1)

    def _ratio(self, value: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        weight, slope = norm(value), norm(gradient)
        ratio = self._trust * weight / (slope + self._decay * weight + EPSILON)
        return ops.where(ops.logical_and(weight > 0, slope > 0), ratio, ops.ones_like(ratio))


def is_scale_or_shift(variable: keras.Variable) -> bool:
    """Return whether a variable is a scale or shift of batch normalisation, or a bias: it has one axis.

    LARS and LAMB as large batches are trained with leave these out of weight decay and layer-wise rates (the
    reference's ``skip_list`` of image classification: batch_normalization, bias).
    """
    return len(variable.shape) < 2
