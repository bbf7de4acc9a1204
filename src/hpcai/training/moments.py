"""Common base of LAMB, AdamW and Adam: bias-corrected moving averages of the gradients, for all variables at once."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import accumulate

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from hpcai.training.backend import is_tensorflow

EPSILON = 1e-6
"""Fixed by DeepCAM's rules (reference, utils/optimizer_helpers.py); LAMB's in You et al. 2020 as well."""


class MomentOptimizer(keras.optimizers.Optimizer):  # type: ignore[misc]
    """Keeps the moving averages of all gradients and of their squares, each in one long vector.

    Apart from a few norms, the formulas are element-wise. Separate operations for hundreds of small variables would
    cost more than the arithmetic and take seconds to compile.

    Parameters
    ----------
    learning_rate
        Learning rate of the first step.
    betas
        Share of the old averages that a step keeps.
    weight_decay
        Of all variables that are not exempt.
    exempt
        Tells which variables have no weight decay; None: all have it.
    """

    def __init__(
        self,
        learning_rate: float,
        betas: tuple[float, float],
        weight_decay: float,
        exempt: Callable[[keras.Variable], bool] | None = None,
    ) -> None:
        super().__init__(learning_rate)
        self._betas, self._decay, self._exempt = betas, weight_decay, exempt

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Create the averages."""
        if self.built:
            return
        super().build(variables)
        self._is_exempt = [self._exempt is not None and self._exempt(variable) for variable in variables]
        self._ends = list(accumulate(int(np.prod(variable.shape)) for variable in variables))
        self._mean, self._square = (
            self.add_variable((self._ends[-1],), name=name) for name in ("gradient_mean", "gradient_square")
        )

    def apply(self, grads: Sequence[tf.Tensor], trainable_variables: Sequence[keras.Variable]) -> None:
        """Update all variables; replaces Keras' loop over them."""
        values = [variable.value for variable in trainable_variables]
        decayed = [
            ops.zeros_like(value) if exempt else value for value, exempt in zip(values, self._is_exempt, strict=True)
        ]
        direction = self._direction(_joined(grads), _joined(decayed))
        parts = ops.split(direction, self._ends[:-1]) if len(self._ends) > 1 else [direction]
        rates = [self.learning_rate.value * ratio for ratio in self._ratios(values, parts)]
        for variable, value, part, rate in zip(trainable_variables, values, parts, rates, strict=True):
            variable.assign(value - rate * ops.reshape(part, variable.shape))
        self.iterations.assign_add(1)

    @abstractmethod
    def _direction(self, gradient: tf.Tensor, decayed: tf.Tensor) -> tf.Tensor:
        """Return what to subtract, times the learning rate; all are vectors of all variables.

        ``decayed`` are the values that the weight decay pulls on: 0 for exempt variables.
        """

    def _ratios(self, values: Sequence[tf.Tensor], parts: Sequence[tf.Tensor]) -> Sequence[tf.Tensor | float]:  # noqa: ARG002
        """Return a factor of the learning rate for each variable."""
        return [1.0] * len(parts)

    def _averaged(self, gradient: tf.Tensor) -> tf.Tensor:
        """Update the averages; return m / (sqrt(v) + epsilon) of the bias-corrected averages."""
        corrected = []
        for average, beta, value in zip(
            (self._mean, self._square), self._betas, (gradient, ops.square(gradient)), strict=True
        ):
            updated = beta * average.value + (1 - beta) * value
            average.assign(updated)
            corrected.append(updated / _weight_of_averages(beta, self.iterations.value + 1))
        mean, square = corrected
        return mean / (ops.sqrt(square) + EPSILON)


def _weight_of_averages(beta: float, steps: tf.Tensor) -> tf.Tensor:
    """Return 1 - beta^steps as float32; computed in float32, 1 - 0.999 would lose four digits."""
    if is_tensorflow():
        kept = tf.pow(tf.constant(beta, tf.float64), tf.cast(steps, tf.float64))
        return tf.cast(1 - kept, tf.float32)
    # JAX has no float64 here.
    return -ops.expm1(math.log(beta) * ops.cast(steps, "float32")) if beta > 0 else 1.0


def _joined(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return ops.concatenate([ops.reshape(tensor, (-1,)) for tensor in tensors])
