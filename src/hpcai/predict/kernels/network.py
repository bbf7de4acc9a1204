"""Train the regressor's network with Keras, one compiled call per epoch.

An epoch of 640 cases takes milliseconds of arithmetic. Starting it step by step from Python takes 20 times as long as a
compiled epoch, so we do not use ``Model.fit``. The two rules between epochs are those of Keras'
``ReduceLROnPlateau`` and ``EarlyStopping``, where any improvement counts.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hpcai.predict.kernels.regressor import HIDDEN_LAYERS, HIDDEN_WIDTH

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

LEARNING_RATE = 1e-3
LEARNING_RATE_FACTOR = 0.1
REDUCE_AFTER_EPOCHS, STOP_AFTER_EPOCHS = 15, 20
"""Epochs without improvement on the validation cases: Barrachina et al. (2023), section 3."""
BATCH_CASES = 16
"""Our choice; the source gives none."""
MOST_EPOCHS = 2000
"""Never reached in practice; training ends after 20 epochs without improvement."""
Floats = NDArray[np.float32]
Arrays = tuple[Floats, Floats]
"""Inputs, shape (cases, inputs), and targets, shape (cases,); both scaled, float32."""


@dataclass(frozen=True)
class TrainedNetwork:
    """The best weights of a training, and its course."""

    weights: tuple[Floats, ...]
    epochs: int
    validation_loss: float


def use_one_thread() -> None:
    """Make TensorFlow use one thread, if it has not started computing; results do not depend on it."""
    import tensorflow as tf

    with suppress(RuntimeError):  # it has started: its threads can no longer change
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def software_versions() -> dict[str, str]:
    """Return the versions of the training packages."""
    import keras
    import tensorflow as tf

    return {"keras": keras.__version__, "tensorflow": tf.__version__, "numpy": np.__version__}


class NetworkTrainer:
    """A network of one shape that is trained repeatedly from new starts, compiled once.

    Parameters
    ----------
    inputs
        Number of sizes.
    """

    def __init__(self, inputs: int) -> None:
        import keras

        widths = [keras.layers.Dense(HIDDEN_WIDTH, activation="relu") for _ in range(HIDDEN_LAYERS)]
        self._model = keras.Sequential([keras.Input((inputs,)), *widths, keras.layers.Dense(1)])
        self._optimizer = keras.optimizers.Adam(LEARNING_RATE)
        self._optimizer.build(self._model.trainable_variables)
        self._fresh = [variable.numpy() for variable in self._optimizer.variables]
        self._run_epoch = _compile_epoch(self._model, self._optimizer)

    def train(self, training: Arrays, validation: Arrays, seed: int) -> TrainedNetwork:
        """Train from a random start until the validation cases stop improving."""
        import tensorflow as tf

        self._restart(seed)
        cases = len(training[1])
        batch = min(BATCH_CASES, cases)
        generator = np.random.default_rng(seed)
        constants = [tf.constant(part) for arrays in (training, validation) for part in arrays]
        best, best_loss, stale, epoch = self._model.get_weights(), math.inf, 0, 0
        while epoch < MOST_EPOCHS and stale < STOP_AFTER_EPOCHS:
            epoch += 1
            # Cases left over from the last batch wait for the next epoch, which has another order.
            order = generator.permutation(cases)[: cases // batch * batch].reshape(-1, batch)
            loss = float(self._run_epoch(tf.constant(order, tf.int32), *constants))
            if loss < best_loss:
                best, best_loss, stale = self._model.get_weights(), loss, 0
                continue
            stale += 1
            if stale == REDUCE_AFTER_EPOCHS:
                self._optimizer.learning_rate.assign(self._optimizer.learning_rate * LEARNING_RATE_FACTOR)
        return TrainedNetwork(tuple(best), epoch, best_loss)

    def _restart(self, seed: int) -> None:
        """Reset the network to a random start (Glorot, Keras' default) and clear the optimizer's state."""
        import keras

        for number, layer in enumerate(self._model.layers):
            start = keras.initializers.GlorotUniform(seed=seed * len(self._model.layers) + number)
            layer.kernel.assign(start(layer.kernel.shape))
            layer.bias.assign(np.zeros(layer.bias.shape, "float32"))
        for variable, value in zip(self._optimizer.variables, self._fresh, strict=True):
            variable.assign(value)


def _compile_epoch(model: "keras.Model", optimizer: "keras.Optimizer") -> "Callable[..., tf.Tensor]":
    """Return a function that trains one epoch, batch by batch, and returns the validation loss."""
    import tensorflow as tf

    def run_epoch(order: tf.Tensor, *cases: tf.Tensor) -> tf.Tensor:
        inputs, targets, validation_inputs, validation_targets = cases
        for step in tf.range(tf.shape(order)[0]):
            batch = tf.gather(order, step)
            with tf.GradientTape() as tape:
                outputs = model(tf.gather(inputs, batch), training=True)[:, 0]
                loss = tf.reduce_mean(tf.square(outputs - tf.gather(targets, batch)))
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return tf.reduce_mean(tf.square(model(validation_inputs)[:, 0] - validation_targets))

    compiled: Callable[..., tf.Tensor] = tf.function(run_epoch, jit_compile=True)
    return compiled
