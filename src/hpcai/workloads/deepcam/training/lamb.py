"""LAMB as NVIDIA apex computes it (apex/optimizers/fused_lamb.py, csrc/multi_tensor_lamb.cu; You et al. 2020)."""

from collections.abc import Sequence

import tensorflow as tf

from hpcai.workloads.deepcam.training.moments import MomentOptimizer

MAX_GRADIENT_NORM = 1.0
"""Norm of all gradients together, above which they are scaled down."""


class Lamb(MomentOptimizer):
    """AdamW's direction, scaled for each variable by norm(variable) / norm(direction).

    Bias correction and gradient averaging are on. The ratio applies only with weight decay, and is 1 if one of the
    norms is 0. All variables are treated alike, including batch normalisation and biases.
    """

    def _direction(self, gradient: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        clipped = gradient / tf.maximum(_norm(gradient) / MAX_GRADIENT_NORM, 1.0)
        # The decay is added before the ratio is taken.
        return self._averaged(clipped) + self._decay * values

    def _ratios(self, values: Sequence[tf.Tensor], parts: Sequence[tf.Tensor]) -> Sequence[tf.Tensor | float]:
        if not self._decay:
            return super()._ratios(values, parts)
        weights, directions = (tf.stack([_norm(tensor) for tensor in tensors]) for tensors in (values, parts))
        ratios = tf.math.divide_no_nan(weights, directions)
        return list(tf.unstack(tf.where(ratios > 0, ratios, tf.ones_like(ratios))))


def _norm(tensor: tf.Tensor) -> tf.Tensor:
    return tf.sqrt(2 * tf.nn.l2_loss(tensor))
