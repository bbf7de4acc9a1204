"""LAMB as NVIDIA apex computes it (apex/optimizers/fused_lamb.py, csrc/multi_tensor_lamb.cu; You et al. 2020)."""

from collections.abc import Sequence

import tensorflow as tf
from keras import ops

from hpcai.training.backend import half_square_sum
from hpcai.training.moments import MomentOptimizer

MAX_GRADIENT_NORM = 1.0
"""Norm of all gradients together, above which they are scaled down."""


class Lamb(MomentOptimizer):
    """AdamW's direction, scaled for each variable by norm(variable) / norm(direction).

    Bias correction and gradient averaging are on. The ratio applies only with weight decay, and is 1 if one of the
    norms is 0, and for exempt variables. DeepCAM exempts none, not even batch normalisation and biases.

    Unlike in LARS, no sum here has three terms, whose order TensorFlow chooses anew in each process. So all ranks take
    equal steps without agreeing on the ratios.
    """

    def _direction(self, gradient: tf.Tensor, decayed: tf.Tensor) -> tf.Tensor:
        clipped = gradient / ops.maximum(norm(gradient) / MAX_GRADIENT_NORM, 1.0)
        # The decay is added before the ratio is taken.
        return self._averaged(clipped) + self._decay * decayed

    def _ratios(self, values: Sequence[tf.Tensor], parts: Sequence[tf.Tensor]) -> Sequence[tf.Tensor | float]:
        if not self._decay:
            return super()._ratios(values, parts)
        weights, directions = (ops.stack([norm(tensor) for tensor in tensors]) for tensors in (values, parts))
        ratios = ops.divide_no_nan(weights, directions)
        adapted = ops.unstack(ops.where(ratios > 0, ratios, ops.ones_like(ratios)))
        return [1.0 if exempt else ratio for ratio, exempt in zip(adapted, self._is_exempt, strict=True)]


def norm(tensor: tf.Tensor) -> tf.Tensor:
    """Return the Euclidean norm of all elements, a scalar."""
    return ops.sqrt(2 * half_square_sum(tensor))
