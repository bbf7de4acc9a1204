"""Common base of LAMB, AdamW and Adam: bias-corrected moving averages of the gradients, for all variables at once."""

from abc import abstractmethod
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

EPSILON = 1e-6
"""Fixed by the rules (reference, utils/optimizer_helpers.py)."""


class MomentOptimizer(keras.optimizers.Optimizer):  # type: ignore[misc]
    """Keeps the moving averages of all gradients and of their squares, each in one long vector.

    Apart from a few norms, the reference's formulas are element-wise. Separate operations for hundreds of small
    variables would cost more than the arithmetic and take seconds to compile.

    Parameters
    ----------
    learning_rate
        Learning rate of the first step.
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
        """Update all variables; replaces Keras' loop over them."""
        values = [variable.value for variable in trainable_variables]
        parts = tf.split(self._direction(_joined(grads), _joined(values)), self._sizes)
        rates = [self.learning_rate.value * ratio for ratio in self._ratios(values, parts)]
        for variable, value, part, rate in zip(trainable_variables, values, parts, rates, strict=True):
            variable.assign(value - rate * tf.reshape(part, value.shape))
        self.iterations.assign_add(1)

    @abstractmethod
    def _direction(self, gradient: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """Return what to subtract, times the learning rate; all arguments are vectors of all variables."""

    def _ratios(self, values: Sequence[tf.Tensor], parts: Sequence[tf.Tensor]) -> Sequence[tf.Tensor | float]:  # noqa: ARG002
        """Return a factor of the learning rate for each variable."""
        return [1.0] * len(parts)

    def _averaged(self, gradient: tf.Tensor) -> tf.Tensor:
        """Update the averages; return m / (sqrt(v) + epsilon) of the bias-corrected averages."""
        steps = tf.cast(self.iterations.value + 1, tf.float64)
        corrected = []
        for average, beta, value in zip(
            (self._mean, self._square), self._betas, (gradient, tf.square(gradient)), strict=True
        ):
            updated = beta * average.value + (1 - beta) * value
            average.assign(updated)
            # In float64: 1 - 0.999 would lose four digits in float32.
            corrected.append(updated / tf.cast(1 - tf.pow(tf.constant(beta, tf.float64), steps), tf.float32))
        mean, square = corrected
        return mean / (tf.sqrt(square) + EPSILON)


def _joined(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], axis=0)
