"""Spatial parallelism for CosmoFlow: ranks split the depth, exchange halos before convolutions, then gather.

All ranks of a replica hold equal shares of its samples' planes. Pools never cross a boundary, because each part has an
even number of planes at every pool (`CosmoFlowBenchmark.refuse_parts`).
"""

import os
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

HALO_NAME = "halo"
"""Prefix of the names of halo exchanges in timelines."""
GATHER_NAME = "gather_parts"
_SWAP_BATCH_AND_DEPTH = (1, 0, 2, 3, 4)


def part_at(shape: tuple[int, int, int, int], parts: int, path: tf.Tensor, offset_bytes: tf.Tensor) -> Batch:
    """Return counts and targets of this rank's part of the sample at an offset of a plain file."""
    whole = (parts * shape[0], *shape[1:])

    def read(name: bytes, offset: np.int64) -> tuple[Counts, Targets]:
        return read_slab(Path(os.fsdecode(name)), int(offset), whole, collective.part_of(parts), parts)

    counts, targets = tf.numpy_function(read, [path, offset_bytes], [tf.int16, tf.float32])
    return tf.ensure_shape(counts, shape), tf.ensure_shape(targets, [TARGETS])


def with_halos(values: tf.Tensor, kernel: int, parts: int, name: str) -> tf.Tensor:
    """Return values padded with everything that a SAME convolution reads beyond them.

    That is planes from the parts before and behind (zeros at the ends of the cube), and zeros around rows and columns.
    A kernel of even size needs one more plane behind than before, which matches TensorFlow's padding.

    Parameters
    ----------
    values : (batch, depth, edge, edge, channels)
        This rank's planes.
    kernel
        Edge of the kernel.
    parts
        Ranks that share a sample.
    name
        Name of the exchange, unique in the network.

    Returns
    -------
    (batch, depth + kernel - 1, edge + kernel - 1, edge + kernel - 1, channels)
    """
    before, behind = (kernel - 1) // 2, kernel // 2
    if not is_tensorflow():
        joined = collective.join_neighbours(values, before, behind, parts)
        return ops.pad(joined, [(0, 0), (0, 0), (before, behind), (before, behind), (0, 0)])
    joined, ends = _joined_planes(values, (before, behind), parts, name)
    paddings = [[0, 0], ends, [before, behind], [before, behind], [0, 0]]
    # Not tf.pad: the graph optimiser of TensorFlow 2.18 fuses it with the convolution, fails, and damages the graph.
    return tf.raw_ops.PadV2(input=joined, paddings=paddings, constant_values=tf.zeros((), joined.dtype))


def _joined_planes(
    values: tf.Tensor, around: tuple[int, int], parts: int, name: str
) -> tuple[tf.Tensor, tuple[int, int]]:
    """Return this rank's planes between its neighbours', and how many are missing before and behind them."""
    before, behind = around
    part, depth = collective.part_of(parts), values.shape[1]
    has_previous, has_next = part > 0, part < parts - 1
    sent, received = [0] * parts, [0] * parts
    if has_previous:
        sent[part - 1], received[part - 1] = behind, before
    if has_next:
        sent[part + 1], received[part + 1] = before, behind
    # All ranks build the same operations, even those with no planes to exchange.
    first, last = behind * has_previous, before * has_next
    own = tf.concat([values[:, :first], values[:, depth - last :]], axis=1)
    planes = collective.exchange_in_group(tf.transpose(own, _SWAP_BATCH_AND_DEPTH), sent, received, name)
    found = tf.transpose(planes, _SWAP_BATCH_AND_DEPTH)
    of_previous = before * has_previous
    joined = tf.concat([found[:, :of_previous], values, found[:, of_previous:]], axis=1)
    return joined, (before * (not has_previous), behind * (not has_next))


@keras.saving.register_keras_serializable(package="hpcai")
class HaloConv3D(layers.Conv3D):  # type: ignore[misc]
    """Conv3D with SAME padding and no bias over a whole cube, computed on this rank's part."""

    def __init__(self, filters: int, kernel_size: int, *, parts: int, **keywords: Any) -> None:  # noqa: ANN401  Keras'
        super().__init__(filters, kernel_size, **keywords)
        self._parts = parts

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return this rank's planes of the convolution."""
        padded = with_halos(inputs, self.kernel_size[0], self._parts, f"{HALO_NAME}.{self.name}")
        kernel = ops.cast(self.kernel, inputs.dtype)
        if is_tensorflow():
            return tf.nn.conv3d(padded, kernel, [1] * 5, "VALID")
        return ops.conv(padded, kernel, padding="valid", data_format="channels_last")

    def get_config(self) -> dict[str, Any]:
        """Return the layer's configuration."""
        return {**super().get_config(), "parts": self._parts}


@keras.saving.register_keras_serializable(package="hpcai")
class GatherParts(layers.Layer):  # type: ignore[misc]
    """Gathers all planes of the samples on every rank that holds a part of them."""

    def __init__(self, parts: int, **keywords: Any) -> None:  # noqa: ANN401  Keras'
        super().__init__(**keywords)
        self._parts = parts

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return (batch, parts depth, edge, edge, channels)."""
        planes = ops.transpose(inputs, _SWAP_BATCH_AND_DEPTH)
        return ops.transpose(collective.gather_in_group(planes, self._parts, GATHER_NAME), _SWAP_BATCH_AND_DEPTH)

    def compute_output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of whole samples."""
        return (input_shape[0], self._parts * input_shape[1], *input_shape[2:])

    def get_config(self) -> dict[str, Any]:
        """Return the layer's configuration."""
        return {**super().get_config(), "parts": self._parts}
