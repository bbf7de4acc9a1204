"""Adam and AdamW as PyTorch, and therefore the reference, computes them (Keras places epsilon differently)."""

import tensorflow as tf

from hpcai.training.moments import MomentOptimizer


class Adam(MomentOptimizer):
    """Adam with weight decay added to the gradient (torch.optim.Adam)."""

    def _direction(self, gradient: tf.Tensor, decayed: tf.Tensor) -> tf.Tensor:
        return self._averaged(gradient + self._decay * decayed)


class AdamW(MomentOptimizer):
    """Adam with weight decay decoupled from the averages (torch.optim.AdamW)."""

    def _direction(self, gradient: tf.Tensor, decayed: tf.Tensor) -> tf.Tensor:
        return self._averaged(gradient) + self._decay * decayed
