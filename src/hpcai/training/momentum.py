"""Stochastic gradient descent with momentum as in TensorFlow 1, where both benchmarks of HPC AI500 come from."""

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="hpcai")
class MomentumSGD(keras.optimizers.SGD):  # type: ignore[misc]
    """v <- momentum v + g; w <- w - rate v (tf.train.MomentumOptimizer).

    Keras' own SGD has the rate inside the velocity, v <- momentum v - rate g, so that a change of the rate acts only by
    and by; with a constant rate the two are the same.
    """

    def update_step(self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor) -> None:
        """Update one variable and its velocity."""
        velocity = self.momentums[self._get_variable_index(variable)]
        self.assign(velocity, velocity * self.momentum + tf.cast(gradient, velocity.dtype))
        self.assign_sub(variable, velocity * tf.cast(learning_rate, variable.dtype))
