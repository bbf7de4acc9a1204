"""AdamW as PyTorch defines it, which the reference relies on."""

from collections.abc import Sequence

import keras
import tensorflow as tf


class TorchAdamW(keras.optimizers.AdamW):  # type: ignore[misc]
    """Adam with decoupled weight decay (Loshchilov and Hutter, arXiv:1711.05101) on every weight.

    w <- (1 - rate decay) w; then w <- w - rate / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps). Keras adds eps before
    it corrects the bias of v, which makes eps up to 30 times larger in the first steps (torch/optim/adamw.py;
    keras/src/optimizers/adam.py). The decay, which Keras applies first, is the same in both.
    """

    def apply(self, grads: Sequence[tf.Tensor], trainable_variables: Sequence[keras.Variable]) -> None:
        """Update all weights with TensorFlow's fused kernel; replaces Keras' loop, which is slow to trace and to run.

        The kernel applies epsilon as Keras does, so epsilon is scaled.
        """
        dtype = trainable_variables[0].dtype
        step, rate = tf.cast(self.iterations.value + 1, dtype), tf.cast(self.learning_rate.value, dtype)
        first_power, second_power = self.beta_1**step, self.beta_2**step
        epsilon = self.epsilon * tf.sqrt(1 - second_power)
        if not self.built:
            self.build(trainable_variables)
        for gradient, weight, mean, square in zip(
            grads, trainable_variables, self._momentums, self._velocities, strict=True
        ):
            weight.value.assign_sub(weight.value * self.weight_decay * rate)
            tf.raw_ops.ResourceApplyAdam(
                var=weight.value.handle,
                m=mean.value.handle,
                v=square.value.handle,
                beta1_power=first_power,
                beta2_power=second_power,
                lr=rate,
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=epsilon,
                grad=tf.cast(gradient, dtype),
            )
        self.iterations.assign_add(1)
