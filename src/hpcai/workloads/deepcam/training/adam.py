"""Adam and AdamW as PyTorch computes them, which is what the reference uses (Keras has another place for epsilon)."""

import tensorflow as tf

from hpcai.training.moments import MomentOptimizer


class Adam(MomentOptimizer):
    """Adam, whose weight decay is part of the gradient (torch.optim.Adam)."""

    def _direction(self, gradient: tf.Tensor, decayed: tf.Tensor) -> tf.Tensor:
        return self._averaged(gradient + self._decay * decayed)


class AdamW(MomentOptimizer):
    """Adam, whose weight decay is apart from the averages (torch.optim.AdamW)."""

    def _direction(self, gradient: tf.Tensor, decayed: tf.Tensor) -> tf.Tensor:
        return self._averaged(gradient) + self._decay * decayed
