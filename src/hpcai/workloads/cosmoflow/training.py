"""CosmoFlow: a 3-D convolutional network estimates four cosmological parameters (MLPerf HPC reference, cosmoflow/)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from mlperf_logging.mllog import constants
from numpy.typing import NDArray

from hpcai.config.machine import Precision
from hpcai.training import collective
from hpcai.training.backend import add_bias, glorot_uniform, half_square_sum
from hpcai.training.schedules import scaled_rate, warmup_and_decay, warmup_and_line
from hpcai.training.work import LayerWork
from hpcai.training.workload import Batch, Streams, Workload
from hpcai.workloads.cosmoflow.mlperf import MLPERF
from hpcai.workloads.cosmoflow.pooled import FirstMaximum3D, PooledConv3D
from hpcai.workloads.cosmoflow.settings import CosmoFlowBenchmark, PartGrid
from hpcai.workloads.cosmoflow.spatial import GatherParts, HaloConv3D, part_at

TARGETS = 4
LEAKY_SLOPE = 0.3
"""Keras' default, which the reference relies on (cosmoflow/models/cosmoflow.py)."""
SMALLEST_BF16_EDGE = 4
"""oneDNN of TensorFlow 2.18.1 computes wrong bfloat16 gradients of 3^3 kernels on an edge of 2 (it adds memory next
to the data; the gradient test shows it). The official network has no edge below 8."""
BY_BLOCKS: Mapping[Precision, int] = {"bf16": 2, "tf32": 1}
"""How many of the first convolutions the engine jax computes by blocks on GPUs, where that is faster; measured on an
H200. Not in fp32, which has no tensor cores for the additional products, nor where ranks share samples: blocks would
need halos of their own."""
OUTPUT_SCALE = 1.2
"""The output layer is 1.2 tanh: targets lie in [-1, 1] (cosmoflow/models/cosmoflow.py)."""


@keras.saving.register_keras_serializable(package="hpcai")
class LogOfCounts(layers.Layer):  # type: ignore[misc]
    """ln(1 + x) of int16 particle counts, on the device: the transfer takes two bytes per voxel instead of four."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the transformed counts in the layer's compute type."""
        return ops.cast(ops.log1p(ops.cast(inputs, "float32")), self.compute_dtype)


@keras.saving.register_keras_serializable(package="hpcai")
class BiasAndLeakyReLU(layers.Layer):  # type: ignore[misc]
    """max(z, slope z) of z = x + bias; one bias per channel, initially zero."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Create the bias."""
        self.bias = self.add_weight(name="bias", shape=(input_shape[-1],), initializer="zeros")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the activations; same shape as the inputs."""
        return ops.leaky_relu(add_bias(inputs, ops.cast(self.bias, inputs.dtype)), LEAKY_SLOPE)


class CosmoFlow(Workload[CosmoFlowBenchmark]):
    """CosmoFlow at the size set in its benchmark file."""

    mlperf_name: ClassVar[str] = MLPERF.name
    quality_metric: ClassVar[str] = MLPERF.quality_metric
    higher_is_better: ClassVar[bool] = False
    quality_key: ClassVar[str] = "eval_error"

    @property
    def cube(self) -> tuple[int, int, int, int]:
        """Shape of this rank's part of one sample."""
        edge, grid = self.benchmark.data.edge, self._grid
        return (edge // grid.depth, edge // grid.rows, edge, self.benchmark.data.channels)

    @property
    def _grid(self) -> PartGrid:
        return self.benchmark.part_grid(self.plan.point.spatial_parts)

    def batch_spec(self) -> tuple[tf.TensorSpec, tf.TensorSpec]:
        """Return int16 counts (batch, depth, rows, edge, channels) of parts and float32 targets (batch, 4)."""
        batch = self.plan.micro_batch
        return tf.TensorSpec([batch, *self.cube], tf.int16), tf.TensorSpec([batch, TARGETS], tf.float32)

    def parse(self, record: tf.Tensor, seed: tf.Tensor | None) -> Batch:
        """Return counts and targets of one tf.train.Example with `x` (raw int16) and `y` (4 floats).

        The reference augments nothing; a recipe may turn and mirror whole training cubes.
        """
        features = {"x": tf.io.FixedLenFeature([], tf.string), "y": tf.io.FixedLenFeature([TARGETS], tf.float32)}
        example = tf.io.parse_single_example(record, features)
        counts = tf.io.decode_raw(example["x"], tf.int16, little_endian=True)
        (depth, *plane), grid = self.cube, self._grid
        parts = tf.reshape(counts, (grid.depth, depth, grid.rows, *plane))
        along_depth, along_rows = grid.place(collective.part_of(grid.parts))
        own = parts[along_depth, :, along_rows]
        if seed is not None and self.benchmark.recipe.augmentation == "symmetries":
            own = random_symmetry(own, seed)  # of a whole cube (hpcai.config.execution)
        return own, example["y"]

    @property
    def read_part(self) -> Callable[[tf.Tensor, tf.Tensor], Batch] | None:
        """Function that reads only this rank's part of a sample; None for whole samples."""
        return partial(part_at, self.cube, self._grid) if self._grid.parts > 1 else None

    def build_model(self, seeds: Streams) -> keras.Model:
        """Return the network in the precision of the plan; variables and outputs are float32.

        A block of the reference is Conv3D with bias, LeakyReLU, MaxPool3D. Bias and LeakyReLU are monotonic, so they
        commute exactly with the maximum. Here the pool comes first: the rest then touches an eighth of the voxels.
        """
        settings = self.benchmark.model
        inputs = keras.Input(self.cube, batch_size=self.plan.micro_batch, dtype="int16")
        weight_seeds = iter(np.random.SeedSequence(seeds.weights).generate_state(settings.conv_layers + 3))
        dropout_seeds = iter(np.random.SeedSequence(seeds.dropout).generate_state(len(settings.dense)))

        def glorot() -> keras.initializers.Initializer:
            return glorot_uniform(_int31(next(weight_seeds)))

        values = LogOfCounts(dtype=self._dtype(0))(inputs)
        for block in range(settings.conv_layers):
            for layer in self._pooled_convolution(block, glorot()):
                values = layer(values)
            values = BiasAndLeakyReLU(dtype=self._dtype(block))(values)
        dtype = self.policy
        if self._grid.parts > 1:
            values = GatherParts(self._grid, dtype=dtype)(values)
        values = layers.Flatten(dtype=dtype)(values)
        for number, units in enumerate(settings.dense):
            values = layers.Dense(units, kernel_initializer=glorot(), dtype=dtype, name=f"hidden_{number}")(values)
            values = layers.LeakyReLU(negative_slope=LEAKY_SLOPE, dtype=dtype)(values)
            values = layers.Dropout(settings.dropout, seed=_int31(next(dropout_seeds)), dtype=dtype)(values)
        values = layers.Dense(TARGETS, activation="tanh", kernel_initializer=glorot(), dtype="float32")(values)
        return keras.Model(inputs, layers.Rescaling(OUTPUT_SCALE, dtype="float32")(values))

    def _pooled_convolution(self, block: int, initializer: keras.initializers.Initializer) -> list[layers.Layer]:
        """Return the layers of a block before its bias."""
        settings, dtype = self.benchmark.model, self._dtype(block)
        given = {"padding": "same", "use_bias": False, "kernel_initializer": initializer, "dtype": dtype}
        given |= {"filters": settings.base_filters * 2**block, "kernel_size": settings.kernel}
        by_xla_on_gpus = self.plan.point.engine == "jax" and self.plan.machine.device.kind == "gpu"
        is_whole = self._grid.parts == 1
        if by_xla_on_gpus and is_whole and block < BY_BLOCKS.get(self.plan.point.precision, 0):
            return [PooledConv3D(**given)]
        convolution = layers.Conv3D(**given) if is_whole else HaloConv3D(**given, grid=self._grid)
        return [convolution, FirstMaximum3D(dtype=dtype) if by_xla_on_gpus else layers.MaxPooling3D(2, dtype=dtype)]

    def _dtype(self, block: int) -> str:
        """Return the Keras type policy of a block's layers."""
        wrong = self.plan.point.precision == "bf16" and self.benchmark.data.edge >> block < SMALLEST_BF16_EDGE
        return "float32" if wrong else self.policy

    def build_optimizer(self) -> keras.optimizers.Optimizer:
        """Return SGD with momentum."""
        return keras.optimizers.SGD(self.learning_rate(0), momentum=self.benchmark.recipe.momentum)

    @property
    def peak_rate(self) -> float:
        """Learning rate after the warm-up."""
        recipe = self.benchmark.recipe
        return scaled_rate(recipe.base_learning_rate, self.plan.global_batch, recipe.base_batch, recipe.scaling)

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of a step; it is constant within an epoch."""
        recipe = self.benchmark.recipe
        if recipe.schedule == "linear":
            epoch, rates = step // self.plan.epoch_steps, (recipe.base_learning_rate, self.peak_rate)
            return warmup_and_line(epoch, *rates, recipe.warmup_epochs, recipe.max_epochs)
        decays = list(zip(recipe.decay_epochs, recipe.decay_factors, strict=True))
        epoch = step // self.plan.epoch_steps
        return warmup_and_decay(epoch, recipe.base_learning_rate, self.peak_rate, recipe.warmup_epochs, decays)

    def loss(self, model: keras.Model, batch: Batch, seed: tf.Tensor) -> tf.Tensor:  # noqa: ARG002  Keras' own dropout
        """Return the mean squared error over batch and targets, plus the L2 penalty on the hidden dense kernels."""
        counts, targets = batch
        error = ops.mean(ops.square(model(counts, training=True) - targets))
        weight_decay = self.benchmark.recipe.weight_decay
        if weight_decay == 0:
            return error
        kernels = [model.get_layer(f"hidden_{n}").kernel.value for n in range(len(self.benchmark.model.dense))]
        # Keras' L2 is the plain sum of squares.
        return error + weight_decay * sum(2 * half_square_sum(kernel) for kernel in kernels)

    def evaluate(self, model: keras.Model, batch: Batch, weights: tf.Tensor) -> tf.Tensor:
        """Return the number of samples and the sum of their absolute errors over the targets, (1, 2)."""
        counts, targets = batch
        return absolute_errors(targets, model(counts, training=False), weights)

    def quality(self, rows: NDArray[np.float64]) -> float:
        """Return the mean absolute error over all samples and targets."""
        samples, error = rows.sum(axis=0)
        return float(error / (samples * TARGETS))

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyper-parameters that MLPerf HPC's rules for CosmoFlow name."""
        recipe = self.benchmark.recipe
        return {
            constants.OPT_NAME: recipe.optimizer,
            "sgd_opt_momentum": recipe.momentum,
            constants.OPT_BASE_LR: self.peak_rate,
            constants.OPT_LR_WARMUP_EPOCHS: recipe.warmup_epochs,
            constants.OPT_LR_WARMUP_FACTOR: self.peak_rate / recipe.base_learning_rate,
            **self._decay(),
            constants.OPT_WEIGHT_DECAY: recipe.weight_decay,
            "dropout": self.benchmark.model.dropout,
        }

    def _decay(self) -> dict[str, Any]:
        recipe = self.benchmark.recipe
        if recipe.schedule == "linear":
            return {"learning_rate_schedule": recipe.schedule}
        return {
            constants.OPT_LR_DECAY_BOUNDARY_EPOCHS: list(recipe.decay_epochs),
            constants.OPT_LR_DECAY_FACTOR: list(recipe.decay_factors),
        }

    def layers(self) -> tuple[LayerWork, ...]:
        """Return the layers that multiply.

        A convolution of kernel k with SAME padding on an edge e does e^3 k^3 c_in c_out multiply-adds, counting padding
        as data (34.43e9 for the official size; MLPerf HPC reference, cosmoflow/models/cosmoflow.py).
        """
        settings = self.benchmark.model
        edge: int = self.benchmark.data.edge
        channels: int = self.benchmark.data.channels
        counted: list[LayerWork] = []
        for block in range(settings.conv_layers):
            filters = settings.base_filters * 2**block
            mac = edge**3 * settings.kernel**3 * channels * filters
            counted.append(LayerWork(f"convolution {block + 1}", mac, needs_input_gradient=block > 0))
            edge, channels = edge // 2, filters
        units = edge**3 * channels
        for number, wider in enumerate((*settings.dense, TARGETS), 1):
            counted.append(LayerWork(f"dense {number}", units * wider))
            units = wider
        return tuple(counted)


def random_symmetry(counts: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Return a cube (edge, edge, edge, channels) after one of its 48 turns and reflections.

    The statistics of a universe have no direction, so that its parameters stay the same.

    Parameters
    ----------
    counts
        The cube.
    seed
        Shape (2,) int32.
    """
    order_seed, mirror_seed = tf.unstack(tf.random.split(seed, 2))
    order = tf.random.experimental.stateless_shuffle(tf.range(3), order_seed)
    turned = tf.transpose(counts, tf.concat([order, [3]], axis=0))
    mirrored = tf.random.stateless_uniform([3], mirror_seed, 0, 2, tf.int32)
    return tf.ensure_shape(tf.reverse(turned, tf.where(mirrored > 0)[:, 0]), counts.shape)


def absolute_errors(targets: tf.Tensor, predictions: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Return the number of samples and the sum of their absolute errors over the targets, (1, 2) float64.

    Parameters
    ----------
    targets, predictions : (batch, 4)
        Of each sample.
    weights : (batch,)
        0 for padding, whose error must not count even if it is not finite.
    """
    errors = ops.sum(ops.abs(ops.cast(predictions, "float64") - ops.cast(targets, "float64")), axis=1)
    counted = ops.where(weights > 0, errors, ops.zeros_like(errors))
    return ops.stack([ops.sum(ops.cast(weights, "float64")), ops.sum(counted)])[None]


def _int31(value: np.uint32) -> int:
    """Return a seed that fits a signed 32-bit integer, as Keras requires."""
    return int(value) % (2**31 - 1)
