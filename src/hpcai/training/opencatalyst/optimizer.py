"""AdamW as PyTorch defines it, which the reference relies on."""

import keras
import tensorflow as tf


class TorchAdamW(keras.optimizers.AdamW):  # type: ignore[misc]
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv:1711.05101) on every weight.

    w <- (1 - rate decay) w; then w <- w - rate / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps). Keras adds eps before
    it corrects the bias of v, which makes eps up to 30 times larger in the first steps (torch/optim/adamw.py;
    keras/src/optimizers/adam.py). The decay, which Keras applies first, is the same in both.
    """

    def update_step(self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        """Update one weight, by TensorFlow's fused kernel; it has Keras' eps, so eps is scaled for it."""
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations.value + 1, variable.dtype)
        first_power, second_power = self.beta_1**step, self.beta_2**step
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=first_power,
            beta2_power=second_power,
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon * tf.sqrt(1 - second_power),
            grad=tf.cast(gradient, variable.dtype),
            use_locking=False,
        )
