"""The compiled training and evaluation steps of one rank."""

import hashlib
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.eager import context

from hpcai.config.machine import Device
from hpcai.errors import LaunchError
from hpcai.training import collective
from hpcai.training.workload import Streams, Workload


def configure_device(device: Device, threads: int, local_rank: int) -> str:
    """Settle threads and devices, before TensorFlow starts; return the name of what this rank computes on.

    Raises
    ------
    LaunchError
        If the machine file promises an accelerator that this rank does not have.
    """
    _let_idle_threads_sleep()
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1 if device.kind == "cpu" else threads)
    accelerators = tf.config.list_physical_devices("GPU")
    if device.kind == "cpu":
        tf.config.set_visible_devices([], "GPU")
        return device.model or "cpu"
    if local_rank >= len(accelerators):
        raise LaunchError(
            f"local rank {local_rank}: TensorFlow found {len(accelerators)} accelerators on this node, expected at "
            f"least {local_rank + 1}; correct ranks_per_node of the machine file or the job's request"
        )
    own = accelerators[local_rank]
    tf.config.set_visible_devices(own, "GPU")
    tf.config.experimental.set_memory_growth(own, True)
    return str(tf.config.experimental.get_device_details(own).get("device_name", own.name))


def _let_idle_threads_sleep() -> None:
    """Keep TensorFlow's idle threads from spinning on the core that Horovod's threads need to exchange gradients.

    With one core per rank a spinning thread holds it to the end of its time slice: several milliseconds per exchange.
    TensorFlow has the option in its session configuration only, which has no public way in when executing eagerly.
    """
    settings = tf.compat.v1.ConfigProto()
    settings.experimental.disable_thread_spinning = True
    context.context()._config = settings


class Engine:
    """Model, optimizer and compiled steps."""

    def __init__(self, workload: Workload, seeds: Streams) -> None:
        self._workload = workload
        self.model = workload.build_model(seeds)
        self.optimizer = workload.build_optimizer()
        self.optimizer.build(self.model.trainable_variables)
        features, targets = workload.batch_spec()
        weights = tf.TensorSpec([targets.shape[0]], tf.float32)
        self._specs = (features, targets, weights)
        self.train = tf.function(self._train, input_signature=(features, targets))
        self.evaluate = tf.function(self._evaluate, input_signature=self._specs)

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""
        return int(sum(np.prod(variable.shape) for variable in self.model.trainable_variables))

    def _train(self, features: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Take one optimizer step on all ranks; return the mean loss of the global batch before it."""
        variables = self.model.trainable_variables
        with tf.GradientTape() as tape:
            loss = self._workload.loss(self.model, targets, self.model(features, training=True))
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        means, mean_loss = collective.mean_of_gradients(gradients, loss, self._workload.plan.point.compression)
        self.optimizer.apply(means, variables)
        return mean_loss

    def _evaluate(self, features: tf.Tensor, targets: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return the quality sums of one batch."""
        return self._workload.quality_sums(targets, self.model(features, training=False), weights)

    def set_learning_rate(self, rate: float) -> None:
        """Use a learning rate from the next step on."""
        self.optimizer.learning_rate.assign(rate)

    def _state(self) -> list[keras.Variable]:
        """All that a step changes: weights, optimizer state and the dropout streams."""
        layers_seeds = [
            generator.state for layer in self.model.layers for generator in getattr(layer, "_seed_generators", [])
        ]
        return [*self.model.weights, *self.optimizer.variables, *layers_seeds]

    def warm_up(self) -> None:
        """Compile both steps and run them once on zeros, so that no run pays for it; leaves no trace.

        All ranks must call this together, because the step exchanges gradients.
        """
        before = [variable.numpy() for variable in self._state()]
        zeros = [tf.zeros(spec.shape, spec.dtype) for spec in self._specs]
        self.train(*zeros[:2]).numpy()
        self.no_sums = np.zeros_like(self.evaluate(*zeros).numpy())
        for variable, value in zip(self._state(), before, strict=True):
            variable.assign(value)

    def synchronise(self) -> None:
        """Give all ranks the weights and the optimizer state of rank 0."""
        shared = [*self.model.weights, *self.optimizer.variables]
        collective.broadcast_variables([variable.value for variable in shared])

    def digest(self) -> str:
        """Return the SHA-256 of all weights."""
        return weights_digest([variable.numpy() for variable in self.model.weights])


def weights_digest(weights: Sequence[NDArray[np.generic]]) -> str:
    """Return the SHA-256 of arrays in their order; all NaN count as one, whatever their payload."""
    digest = hashlib.sha256()
    for array in weights:
        digest.update(np.where(np.isnan(array), np.nan, array).astype(array.dtype).tobytes())
    return digest.hexdigest()
