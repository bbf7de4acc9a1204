"""What LAMB, AdamW and Adam share: bias-corrected moving averages of the gradients, for all variables at once."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from itertools import accumulate

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from hpcai.training.backend import is_tensorflow

EPSILON = 1e-6
"""Fixed by the rules (reference, utils/optimizer_helpers.py)."""


class MomentOptimizer(keras.optimizers.Optimizer):  # type: ignore[misc]
    """Keeps the moving averages of all gradients and of their squares, each in one long vector.

    The reference's formulas go element by element but for a few norms. Hundreds of small variables, each with its own
    operations, would cost more than the arithmetic, and seconds to compile.

    Parameters
    ----------
    learning_rate
        Of the first step.
    betas
        Share of the old averages that a step keeps.
    weight_decay
        Applied to all variables alike.
    """

    def __init__(self, learning_rate: float, betas: tuple[float, float], weight_decay: float) -> None:
        super().__init__(learning_rate)
        self._betas, self._decay = betas, weight_decay

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the averages."""
        if self.built:
            return
        super().build(variables)
        self._sizes = [int(np.prod(variable.shape)) for variable in variables]
        self._mean, self._square = (
            self.add_variable((sum(self._sizes),), name=name) for name in ("gradient_mean", "gradient_square")
        )

    def apply(self, grads: Sequence[tf.Tensor], trainable_variables: Sequence[keras.Variable]) -> None:
        """Change all variables; replaces Keras' loop over them."""
        values = [variable.value for variable in trainable_variables]
        parts = _split(self._direction(_joined(grads), _joined(values)), self._sizes)
        rates = [self.learning_rate.value * ratio for ratio in self._ratios(values, parts)]
        for variable, value, part, rate in zip(trainable_variables, values, parts, rates, strict=True):
            variable.assign(value - rate * ops.reshape(part, value.shape))
        self.iterations.assign_add(1)

    @abstractmethod
    def _direction(self, gradient: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Return what to subtract, times the learning rate; all arguments are vectors of all variables."""

    def _ratios(self, values: Sequence[tf.Tensor], parts: Sequence[tf.Tensor]) -> Sequence[tf.Tensor | float]:  # noqa: ARG002
        """Return a factor of the learning rate for each variable."""
        return [1.0] * len(parts)

    def _averaged(self, gradient: tf.Tensor) -> tf.Tensor:
        """Update the averages; return m / (sqrt(v) + epsilon) of the averages without their bias towards zero."""
        corrected = []
        for average, beta, value in zip(
            (self._mean, self._square), self._betas, (gradient, ops.square(gradient)), strict=True
        ):
            updated = beta * average.value + (1 - beta) * value
            average.assign(updated)
            corrected.append(updated / _share_of_new(beta, self.iterations.value + 1))
        mean, square = corrected
        return mean / (ops.sqrt(square) + EPSILON)


def _share_of_new(beta: float, steps: tf.Tensor) -> tf.Tensor | float:
    """Return 1 - beta^steps, float32, to all its digits: 1 - 0.999 would lose four in float32."""
    if is_tensorflow():
        return tf.cast(1 - tf.pow(tf.constant(beta, tf.float64), tf.cast(steps, tf.float64)), tf.float32)
    # Not every backend has double precision.
    return -ops.expm1(ops.cast(steps, "float32") * math.log(beta)) if beta else 1.0


def _joined(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return ops.concatenate([ops.reshape(tensor, [-1]) for tensor in tensors], axis=0)


def _split(values: tf.Tensor, sizes: Sequence[int]) -> Sequence[tf.Tensor]:
    """Return the parts of a vector; a graph of TensorFlow keeps their sizes only if it is told them."""
    parts: Sequence[tf.Tensor] = tf.split(values, sizes) if is_tensorflow() else ops.split(values, _ends(sizes))
    return parts


def _ends(sizes: Sequence[int]) -> list[int]:
    """Return where each part but the last ends."""
    return list(accumulate(sizes))[:-1]
