"""The compiled training and evaluation steps of one rank."""

import hashlib
import os
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray
from tensorflow.python.eager import context

from hpcai.config.machine import Device
from hpcai.config.runs import RunPlan
from hpcai.core.errors import LaunchError
from hpcai.training import collective
from hpcai.training.accelerators import NO_ACCELERATOR, own_place
from hpcai.training.workload import Batch, Streams, Workload


def configure_device(device: Device, threads: int, local_rank: int) -> str:
    """Configure threads and devices before TensorFlow starts; return the name of this rank's device.

    Raises
    ------
    LaunchError
        If the machine file declares an accelerator and this rank sees none.
    """
    # Number devices like the driver and Slurm; the runtime's own order begins with the fastest.
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    _let_idle_threads_sleep()
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1 if device.kind == "cpu" else threads)
    accelerators = tf.config.list_physical_devices("GPU")
    if device.kind == "cpu":
        tf.config.set_visible_devices([], "GPU")
        return device.model or "cpu"
    if not accelerators:
        raise LaunchError(NO_ACCELERATOR(local_rank=local_rank, host=socket.gethostname()))
    own = accelerators[own_place(os.environ, local_rank).index]
    tf.config.set_visible_devices(own, "GPU")
    tf.config.experimental.set_memory_growth(own, True)
    return str(tf.config.experimental.get_device_details(own).get("device_name", own.name))


def _let_idle_threads_sleep() -> None:
    """Keep TensorFlow's idle threads from spinning on the core that Horovod's threads need to exchange gradients.

    With one core per rank a spinning thread holds it to the end of its time slice: several milliseconds per exchange.
    TensorFlow has the option only in its session configuration, without a public interface for eager execution.
    """
    settings = tf.compat.v1.ConfigProto()
    settings.experimental.disable_thread_spinning = True
    context.context()._config = settings


def _let_accelerators_multiply_in_tf32(plan: RunPlan) -> None:
    """Allow TF32 in float32 products on accelerators, or forbid it: TensorFlow itself always takes it where it can.

    Only fp32 forbids it. bf16 and fp16 leave little work in float32, which the engine jax computes in TF32, too.
    """
    if plan.machine.device.kind == "gpu":
        tf.config.experimental.enable_tensor_float_32_execution(plan.point.precision != "fp32")


class Engine:
    """Model, optimizer and compiled steps.

    An optimizer step takes one micro-batch, or adds up the gradients of several.
    """

    def __init__(self, workload: Workload[Any], seeds: Streams) -> None:
        self._workload = workload
        self._point = workload.plan.point
        _let_accelerators_multiply_in_tf32(workload.plan)
        self.model = workload.build_model(seeds)
        self.optimizer = self._build_optimizer()
        self._rate: float | None = None
        self._seed = tf.constant([seeds.dropout, 0], tf.int32)
        self._micro_step = tf.Variable(0, dtype=tf.int32, trainable=False)
        self._sums = self._zeros() if self._point.accumulation > 1 else []
        self._specs, self._evaluation_specs = workload.batch_spec(), workload.evaluation_spec()
        weights = tf.TensorSpec([workload.plan.evaluation_batch], tf.float32)
        # Without AutoGraph, which no workload needs, tracing a large model takes less than half the time.
        compile_step = partial(tf.function, autograph=False)
        self._accumulate_compiled = compile_step(self._accumulate, input_signature=(self._specs,))
        self._train_compiled = compile_step(self._train, input_signature=(self._specs,))
        self._evaluate_compiled = compile_step(self._evaluate, input_signature=(self._evaluation_specs, weights))

    def _build_optimizer(self) -> keras.optimizers.Optimizer:
        optimizer = self._workload.build_optimizer()
        if self._point.precision == "fp16":
            # Gradients below 6e-8 vanish in half precision; a step with an overflow is skipped on all ranks.
            optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(self.model.trainable_variables)
        return optimizer

    def _zeros(self) -> list[tf.Variable]:
        """Return sums over micro-batches: for each gradient, and for the numbers of `_gradients`."""
        shapes = [variable.shape for variable in self.model.trainable_variables]
        numbers = (2 if self._workload.weighted else 1,)
        return [tf.Variable(tf.zeros(shape), trainable=False) for shape in (*shapes, numbers)]

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""
        return int(sum(np.prod(variable.shape) for variable in self.model.trainable_variables))

    @property
    def skipped_steps(self) -> int:
        """Steps so far that changed no weight: gradient skipping or loss scaling left them out."""
        optimizer = self.optimizer
        if self._point.precision == "fp16":
            optimizer = optimizer.inner_optimizer
        taken = int(self._micro_step.numpy()) // self._point.accumulation
        return taken - int(optimizer.iterations.numpy())  # it counts the steps that it applies

    def train(self, batches: Sequence[Batch]) -> tf.Tensor:
        """Take one optimizer step on all ranks; return the mean loss of the global batch before it.

        Parameters
        ----------
        batches
            As many micro-batches as the plan accumulates.
        """
        for batch in batches[:-1]:
            self._accumulate_compiled(batch)
        return self._train_compiled(batches[-1])

    def evaluate(self, batch: Batch) -> tf.Tensor:
        """Return the rows (k, m) of one batch, whose last tensor holds the sample weights."""
        return self._evaluate_compiled(batch[:-1], batch[-1])

    def _gradients(self, batch: Batch) -> tuple[list[tf.Tensor], tf.Tensor]:
        """Return this rank's gradients of one micro-batch, scaled if the optimizer scales the loss, and its numbers.

        The numbers are its loss and, if the workload has weights, its weight.
        """
        seed = tf.random.experimental.stateless_fold_in(self._seed, self._micro_step)
        self._micro_step.assign_add(1)
        variables = [variable.value for variable in self.model.trainable_variables]
        with tf.GradientTape() as tape:
            loss = self._workload.loss(self.model, batch, seed)
            scaled = self.optimizer.scale_loss(loss) if self._point.precision == "fp16" else loss
        numbers = [loss, self._workload.weight(batch)] if self._workload.weighted else [loss]
        return tape.gradient(scaled, variables), tf.stack(numbers)

    def _accumulate(self, batch: Batch) -> None:
        gradients, numbers = self._gradients(batch)
        for total, part in zip(self._sums, (*gradients, numbers), strict=True):
            total.assign_add(part / self._point.accumulation)

    def _train(self, batch: Batch) -> tf.Tensor:
        gradients, numbers = self._gradients(batch)
        if self._sums:
            parts = zip(self._sums, (*gradients, numbers), strict=True)
            *gradients, numbers = [total + part / self._point.accumulation for total, part in parts]
            for total in self._sums:
                total.assign(tf.zeros_like(total))
        groups = self._point.gradient_groups if self._point.fusion_bytes is None else 0
        means, numbers = collective.mean_of_gradients(gradients, numbers, self._point.compression, groups)
        if self._workload.weighted:
            weight = tf.where(numbers[1] > 0, numbers[1], 1.0)  # 0 only when warming up on zeros
            means, numbers = [mean / weight for mean in means], numbers / weight
        self._apply(means)
        return numbers[0]

    def _apply(self, means: list[tf.Tensor]) -> None:
        """Change the weights, unless the recipe skips gradients as large as these; all ranks have the same."""
        limit = self._workload.plan.benchmark.recipe.skip_gradient_norm
        if limit:
            is_small = tf.linalg.global_norm(means) <= limit
            tf.cond(is_small, lambda: self._applied(means), lambda: tf.constant(False))
        else:
            self._applied(means)

    def _applied(self, means: list[tf.Tensor]) -> tf.Tensor:
        self.optimizer.apply(means, self.model.trainable_variables)
        return tf.constant(True)

    def _evaluate(self, batch: Batch, weights: tf.Tensor) -> tf.Tensor:
        return self._workload.evaluate(self.model, batch, weights)

    def set_learning_rate(self, rate: float) -> None:
        """Use a learning rate from the next step on."""
        if rate != self._rate:
            self.optimizer.learning_rate.assign(rate)
            self._rate = rate

    def _state(self) -> list[keras.Variable | tf.Variable]:
        """All state that a step changes: weights, optimizer state, random streams and sums."""
        return [*self.model.variables, *self.optimizer.variables, self._micro_step, *self._sums]

    def warm_up(self) -> None:
        """Compile all steps and run them once on zeros, outside the timed run; restores all state.

        All ranks must call this together, because the step exchanges gradients.
        """
        before = [variable.numpy() for variable in self._state()]
        zeros = tuple(tf.zeros(spec.shape, spec.dtype) for spec in self._specs)
        self.train([zeros] * self._point.accumulation).numpy()
        zeros = tuple(tf.zeros(spec.shape, spec.dtype) for spec in self._evaluation_specs)
        self.no_rows = self.evaluate((*zeros, tf.zeros(self._workload.plan.evaluation_batch))).numpy()[:0]
        for variable, value in zip(self._state(), before, strict=True):
            variable.assign(value)

    def synchronise(self) -> None:
        """Copy the weights and the optimizer state of rank 0 to all ranks."""
        shared = [*self.model.weights, *self.optimizer.variables]
        collective.broadcast_variables([variable.value for variable in shared])

    def synchronise_statistics(self) -> None:
        """Set the moving statistics for evaluation on all ranks, as the workload defines: rank 0's, or their mean."""
        statistics = [variable.value for variable in self.model.non_trainable_weights]
        if self._workload.moving_statistics == "mean":
            collective.average_variables(statistics)
        elif statistics:
            collective.broadcast_variables(statistics)

    def digest(self) -> str:
        """Return the SHA-256 of all weights."""
        return weights_digest([variable.numpy() for variable in self.model.weights])


def weights_digest(weights: Sequence[NDArray[np.generic]]) -> str:
    """Return the SHA-256 of arrays in order; all NaN payloads count as equal."""
    digest = hashlib.sha256()
    for array in weights:
        digest.update(np.where(np.isnan(array), np.nan, array).astype(array.dtype).tobytes())
    return digest.hexdigest()
