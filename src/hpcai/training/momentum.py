"""Stochastic gradient descent with momentum as in TensorFlow 1, the origin of both HPC AI500 benchmarks."""

from collections.abc import Sequence

import keras
import tensorflow as tf

from hpcai.training.backend import is_tensorflow


@keras.saving.register_keras_serializable(package="hpcai")
class MomentumSGD(keras.optimizers.SGD):  # type: ignore[misc]
    """v <- momentum v + g; w <- w - rate v (tf.train.MomentumOptimizer).

    Keras' own SGD includes the rate in the velocity, v <- momentum v - rate g, so that a change of the rate takes
    effect gradually; with a constant rate both are equal. Without momentum they are the same, and Keras keeps no
    velocities.
    """

    def apply(self, grads: Sequence[tf.Tensor], trainable_variables: Sequence[keras.Variable]) -> None:
        """Update all variables; on TensorFlow with one fused kernel each, instead of Keras' eight operations."""
        if not self.momentum:
            super().apply(grads, trainable_variables)
            return
        for gradient, variable, velocity in zip(grads, trainable_variables, self.momentums, strict=True):
            if not is_tensorflow():
                velocity.assign(velocity.value * self.momentum + gradient)
                variable.assign(variable.value - self.learning_rate.value * velocity.value)
                continue
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.value.handle,
                accum=velocity.value.handle,
                lr=tf.cast(self.learning_rate.value, variable.dtype),
                grad=tf.cast(gradient, variable.dtype),
                momentum=tf.constant(self.momentum, variable.dtype),
            )
        self.iterations.assign_add(1)
