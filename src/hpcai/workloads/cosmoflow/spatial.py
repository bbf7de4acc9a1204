"""Spatial parallelism for CosmoFlow: ranks split cubes, exchange halos before convolutions, then gather.

All ranks of a replica hold equal parts of its samples, cut along depth and rows (`CosmoFlowBenchmark.part_grid`). Pools
never cross a boundary, because each part has an even number of planes and rows at every pool
(`CosmoFlowBenchmark.refuse_parts`).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from hpcai.training import collective
from hpcai.training.backend import is_tensorflow
from hpcai.training.workload import Batch
from hpcai.workloads.cosmoflow.data.sample import TARGETS, Counts, Targets
from hpcai.workloads.cosmoflow.data.slab import read_slab
from hpcai.workloads.cosmoflow.settings import PartGrid

HALO_NAME = "halo"
"""Prefix of the names of halo exchanges in timelines."""
GATHER_NAME = "gather_parts"
DEPTH, ROWS = 1, 2
"""Axes of a batch along which cubes are cut."""
NAMES = {DEPTH: "planes", ROWS: "rows"}


def part_at(shape: tuple[int, int, int, int], grid: PartGrid, path: tf.Tensor, offset_bytes: tf.Tensor) -> Batch:
    """Return counts and targets of this rank's part of the sample at an offset of a plain file."""
    whole = (grid.depth * shape[0], grid.rows * shape[1], *shape[2:])

    def read(name: bytes, offset: np.int64) -> tuple[Counts, Targets]:
        return read_slab(Path(os.fsdecode(name)), int(offset), whole, collective.part_of(grid.parts), grid)

    counts, targets = tf.numpy_function(read, [path, offset_bytes], [tf.int16, tf.float32])
    return tf.ensure_shape(counts, shape), tf.ensure_shape(targets, [TARGETS])


def with_halos(values: tf.Tensor, kernel: int, grid: PartGrid, name: str) -> tf.Tensor:
    """Return values padded with everything that a SAME convolution reads beyond them.

    That is planes, then rows, from the parts before and behind (zeros at the ends of the cube), and zeros around what
    is not cut. The rows are those of the joined planes, so corners come with them. A kernel of even size needs one more
    plane behind than before, which matches TensorFlow's padding.

    Parameters
    ----------
    values : (batch, depth, rows, edge, channels)
        This rank's part.
    kernel
        Edge of the kernel.
    grid
        How cubes are cut.
    name
        Name of the exchanges, unique in the network.

    Returns
    -------
    (batch, depth + kernel - 1, rows + kernel - 1, edge + kernel - 1, channels)
    """
    around = ((kernel - 1) // 2, kernel // 2)
    paddings = [(0, 0), around, around, around, (0, 0)]
    for axis, parts in enumerate(grid, DEPTH):
        if parts > 1:
            values, paddings[axis] = _joined(values, axis, around, grid, name), (0, 0)
    if not is_tensorflow():
        return ops.pad(values, paddings)
    # Not tf.pad: the graph optimiser of TensorFlow 2.18 fuses it with the convolution, fails, and damages the graph.
    return tf.raw_ops.PadV2(input=values, paddings=paddings, constant_values=tf.zeros((), values.dtype))


def _joined(values: tf.Tensor, axis: int, around: tuple[int, int], grid: PartGrid, name: str) -> tf.Tensor:
    """Return this rank's part between what lies before and behind it along an axis; zeros at the ends of the cube."""
    pairs = grid.neighbours(axis)
    if not is_tensorflow():
        return collective.join_neighbours(values, axis, around, pairs)
    before, behind = around
    part = collective.part_of(grid.parts)
    sent, received = [0] * grid.parts, [0] * grid.parts
    for earlier, later in pairs:
        if later == part:
            sent[earlier], received[earlier] = behind, before
        if earlier == part:
            sent[later], received[later] = before, behind
    # All ranks build the same operations, even those with nothing to exchange.
    (to_previous, to_next), (of_previous, of_next) = ((sum(n[:part]), sum(n[part:])) for n in (sent, received))
    own = tf.concat([_between(values, axis, 0, to_previous), _last(values, axis, to_next)], axis)
    swapped = [axis, *(0 if place == axis else place for place in range(1, 5))]
    given = collective.exchange_in_group(tf.transpose(own, swapped), sent, received, f"{name}.{NAMES[axis]}")
    found = tf.transpose(given, swapped)
    zeros = tf.zeros_like(_between(values, axis, 0, max(around)))
    joined = [
        _between(zeros, axis, 0, before - of_previous),
        _between(found, axis, 0, of_previous),
        values,
        _last(found, axis, of_next),
        _between(zeros, axis, 0, behind - of_next),
    ]
    return tf.concat(joined, axis)


def _between(values: tf.Tensor, axis: int, begin: int, end: int) -> tf.Tensor:
    """Return planes (axis 1) or rows (axis 2) from one to before another."""
    return values[(*[slice(None)] * axis, slice(begin, end))]


def _last(values: tf.Tensor, axis: int, count: int) -> tf.Tensor:
    return _between(values, axis, values.shape[axis] - count, values.shape[axis])


@keras.saving.register_keras_serializable(package="hpcai")
class HaloConv3D(layers.Conv3D):  # type: ignore[misc]
    """Conv3D with SAME padding and no bias over a whole cube, computed on this rank's part."""

    def __init__(self, filters: int, kernel_size: int, *, grid: Sequence[int], **keywords: Any) -> None:  # noqa: ANN401  Keras'
        super().__init__(filters, kernel_size, **keywords)
        self._grid = PartGrid(*grid)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return this rank's part of the convolution."""
        padded = with_halos(inputs, self.kernel_size[0], self._grid, f"{HALO_NAME}.{self.name}")
        kernel = ops.cast(self.kernel, inputs.dtype)
        if is_tensorflow():
            return tf.nn.conv3d(padded, kernel, [1] * 5, "VALID")
        return ops.conv(padded, kernel, padding="valid", data_format="channels_last")

    def get_config(self) -> dict[str, Any]:
        """Return the layer's configuration."""
        return {**super().get_config(), "grid": self._grid}


@keras.saving.register_keras_serializable(package="hpcai")
class GatherParts(layers.Layer):  # type: ignore[misc]
    """Gathers whole samples on every rank that holds a part of them."""

    def __init__(self, grid: Sequence[int], **keywords: Any) -> None:  # noqa: ANN401  Keras'
        super().__init__(**keywords)
        self._grid = PartGrid(*grid)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return (batch, edge, edge, edge, channels)."""
        shape = inputs.shape
        gathered = collective.gather_in_group(inputs, self._grid.parts, GATHER_NAME)
        split = ops.transpose(ops.reshape(gathered, (*self._grid, *shape)), (2, 0, 3, 1, 4, 5, 6))
        return ops.reshape(split, self.compute_output_shape(shape))

    def compute_output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of whole samples."""
        batch, depth, rows, *others = input_shape
        return (batch, self._grid.depth * depth, self._grid.rows * rows, *others)

    def get_config(self) -> dict[str, Any]:
        """Return the layer's configuration."""
        return {**super().get_config(), "grid": self._grid}
