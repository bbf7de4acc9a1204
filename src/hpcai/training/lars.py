"""LARS as MLPerf's reference computes it (mlcommons/training: image_classification/tensorflow2/lars_optimizer.py)."""

from collections.abc import Sequence

import keras
import tensorflow as tf
from keras import ops

from hpcai.training import collective
from hpcai.training.backend import is_tensorflow
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
        rates = self.learning_rate.value * self._ratios(grads, trainable_variables)
        for place, (gradient, variable) in enumerate(zip(grads, trainable_variables, strict=True)):
            decayed = gradient if is_scale_or_shift(variable) else gradient + self._decay * variable.value
            self._move(variable, self._velocities[place], rates[place] * decayed)
        self.iterations.assign_add(1)

    def _ratios(self, grads: Sequence[tf.Tensor], variables: Sequence[keras.Variable]) -> tf.Tensor:
        """Return the ratio of each variable, (variables,).

        Ranks agree on them, in one small message a step: TensorFlow's arithmetic optimizer adds the three terms below
        the fraction in an order that differs between processes. Unless they agreed, weights differed in one of nine
        steps; without that optimizer, or with two terms, in none of 500.
        """
        ratios = ops.stack(
            [
                ops.ones(()) if is_scale_or_shift(variable) else self._ratio(variable.value, gradient)
                for gradient, variable in zip(grads, variables, strict=True)
            ]
        )
        return collective.agree(ratios, "lars_ratios") if is_tensorflow() else ratios

    def _move(self, variable: keras.Variable, velocity: keras.Variable, step: tf.Tensor) -> None:
        """Change velocity and variable; on TensorFlow by the fused kernel of the reference's first version."""
        if is_tensorflow():
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.value.handle,
                accum=velocity.value.handle,
                lr=tf.constant(1.0, variable.dtype),
                grad=step,
                momentum=tf.constant(self._momentum, variable.dtype),
            )
            return
        velocity.assign(self._momentum * velocity.value + step)
        variable.assign(variable.value - velocity.value)

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
