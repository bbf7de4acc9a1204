"""CosmoFlow's convolutions and pools in the form that is fast on GPUs: values and gradients are those of Keras' layers.

On GPUs a convolution of few channels is slow, and so is the gradient of a pool, which XLA scatters. The 2^3 voxels of a
block that is pooled become channels here. So a first layer of 4 to 32 channels has 32 to 256, and a pool is a choice
among eight channels, whose gradient is a choice too.
"""

from collections.abc import Iterator, Sequence
from itertools import product

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

EDGE = 2
"""Voxels of a block's edge, which a pool makes one."""
VOXELS = EDGE**3


@keras.saving.register_keras_serializable(package="hpcai")
class FirstMaximum3D(layers.Layer):  # type: ignore[misc]
    """MaxPooling3D(2). Of equal voxels the first gets the gradient, as by XLA's own pool."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the largest voxel of each block, (batch, depth / 2, edge / 2, edge / 2, channels)."""
        batch, *edges, channels = inputs.shape
        split = [size for edge in edges for size in (edge // EDGE, EDGE)]
        return first_maximum(ops.reshape(inputs, (batch, *split, channels)), (2, 4, 6))

    def compute_output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the pooled cube."""
        return _pooled_shape(input_shape, input_shape[-1])


@keras.saving.register_keras_serializable(package="hpcai")
class PooledConv3D(layers.Conv3D):  # type: ignore[misc]
    """Conv3D with SAME padding and no bias, then MaxPooling3D(2), as one convolution over blocks.

    It has 64/27 of the products of a kernel of 3, the rest with zeros, but at a higher rate.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the pooled convolution, (batch, depth / 2, edge / 2, edge / 2, filters)."""
        taps = self.kernel_size[0]
        kernel = block_kernel(self.kernel)
        convolved = ops.conv(blocks(inputs, taps), kernel, padding="valid", data_format="channels_last")
        edges = (EDGE,) * 3
        return first_maximum(ops.reshape(convolved, (*convolved.shape[:-1], *edges, self.filters)), (4, 5, 6))

    def compute_output_shape(self, input_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the pooled cube."""
        return _pooled_shape(input_shape, self.filters)


def _pooled_shape(shape: tuple[int, ...], channels: int) -> tuple[int, ...]:
    return (shape[0], *(size // EDGE for size in shape[1:-1]), channels)


def blocks(values: tf.Tensor, taps: int) -> tf.Tensor:
    """Return the blocks that a convolution of `block_kernel` reads.

    Parameters
    ----------
    values : (batch, depth, edge, edge, channels)
        Whole cubes of even edges.
    taps
        Edge of the kernel in voxels.

    Returns
    -------
    (batch, depth / 2 + n - 1, edge / 2 + n - 1, edge / 2 + n - 1, 8 channels) for a kernel of n blocks
    """
    before = (taps - 1) // 2
    behind = EDGE * (_blocks_of(taps) - 1) - before
    padded = ops.pad(values, [(0, 0), *[(before, behind)] * 3, (0, 0)])
    batch, *edges, channels = padded.shape
    split = ops.reshape(padded, (batch, *[size for edge in edges for size in (edge // EDGE, EDGE)], channels))
    ordered = ops.transpose(split, (0, 1, 3, 5, 2, 4, 6, 7))
    return ops.reshape(ordered, (batch, *(edge // EDGE for edge in edges), VOXELS * channels))


def block_kernel(kernel: tf.Tensor) -> tf.Tensor:
    """Return the kernel between blocks, whose filters are those of the voxels of a block, one voxel after another.

    Parameters
    ----------
    kernel : (taps, taps, taps, channels, filters)
        Kernel between voxels.

    Returns
    -------
    (n, n, n, 8 channels, 8 filters), n = ceil((taps + 1) / 2)
    """
    taps, _, _, channels, filters = kernel.shape
    count = _blocks_of(taps)
    spare = EDGE * count - taps
    moved = [
        ops.pad(kernel, [*((place, spare - place) for place in voxel), (0, 0), (0, 0)])
        for voxel in product(range(EDGE), repeat=3)
    ]
    split = ops.reshape(ops.stack(moved, axis=4), (*[count, EDGE] * 3, channels, VOXELS * filters))
    ordered = ops.transpose(split, (0, 2, 4, 1, 3, 5, 6, 7))
    return ops.reshape(ordered, (*[count] * 3, VOXELS * channels, VOXELS * filters))


def _blocks_of(taps: int) -> int:
    """Return how many blocks the kernel of any voxel of a block touches along an edge."""
    return (taps + EDGE) // EDGE


def first_maximum(values: tf.Tensor, axes: Sequence[int]) -> tf.Tensor:
    """Return the maximum over axes of two elements each; the first of equal ones gets the gradient."""

    @ops.custom_gradient  # type: ignore[untyped-decorator]
    def chosen(values: tf.Tensor) -> tuple[tf.Tensor, object]:
        best, place = _largest(values, axes)

        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            shape = [EDGE if axis in axes else 1 for axis in range(len(values.shape))]
            places = np.arange(EDGE ** len(axes), dtype="int8").reshape(shape)
            is_best = ops.equal(ops.expand_dims(place, axes), places)
            return ops.where(is_best, ops.expand_dims(upstream, axes), ops.zeros((), upstream.dtype))

        return best, gradient

    return chosen(values)


def _largest(values: tf.Tensor, axes: Sequence[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the largest elements and their places, row-major over the axes."""
    best, *rest = _elements(values, axes)
    place = ops.zeros(best.shape, "int8")
    for number, one in enumerate(rest, 1):
        larger = ops.greater(one, best)
        best = ops.where(larger, one, best)
        place = ops.where(larger, ops.cast(number, "int8"), place)
    return best, place


def _elements(values: tf.Tensor, axes: Sequence[int]) -> Iterator[tf.Tensor]:
    for place in product(range(EDGE), repeat=len(axes)):
        taken = [slice(None)] * len(values.shape)
        for axis, start in zip(axes, place, strict=True):
            taken[axis] = slice(start, start + 1)
        yield ops.squeeze(values[tuple(taken)], axes)
