"""Compute time of each layer by the roofline: the larger of the times of its operations and its memory traffic.

Barrachina et al. 2023 (doi 10.1007/s00607-021-00997-9), section on the computation model: linear layers are matrix
multiplications, in the forward pass and for the two gradients. Three variants:

``gemm``
    Linear layers only; the matrix of image patches is never written (implicit im2col).
``im2col``
    The patches are written before the product and, for the input gradient, added up after it.
``full``
    As ``gemm``, plus element-wise layers that pass over their tensors at memory speed. The passes are *assumed*: the
    source does not print them.

Biases are free. Two- and three-dimensional convolutions differ only in their numbers of positions and taps.
A depthwise convolution is one matrix multiplication per input channel, with one input channel and as many output
channels as the layer derives from it. A transposed convolution is the input gradient of the convolution from its
output to its input, and vice versa.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcai.predict.training.layers import CONVOLUTIONS, LINEAR, Layer, LayerKind, is_transposed

CostModel = Literal["gemm", "im2col", "full"]
COST_MODELS: tuple[CostModel, ...] = ("gemm", "im2col", "full")
Floats = NDArray[np.float64]

PASSES: dict[LayerKind, tuple[tuple[float, float], tuple[float, float]]] = {
    "batch_norm": ((3, 0), (5, 0)),
    "relu": ((2, 0), (3, 0)),
    "max_pool": ((1, 1), (1, 1)),
    "average_pool": ((1, 1), (1, 1)),
    "add": ((3, 0), (2, 0)),
    "concat": ((0, 2), (0, 2)),
    "softmax": ((2, 0), (3, 0)),
}
"""Passes over the input and over the output, forward and backward; assumed. Softmax counts as an activation."""


@dataclass(frozen=True)
class Gemm:
    """A product of an ``m x k`` and a ``k x n`` matrix for one sample, `count` times.

    Attributes
    ----------
    batched
        The extent that grows with the batch.
    """

    m: int
    n: int
    k: int
    batched: Literal["n", "k"]
    count: int = 1


@dataclass(frozen=True)
class Work:
    """Operations and memory traffic of the layers of a network; the last axis of each array is the layer.

    Attributes
    ----------
    flop, elements, fixed_elements
        Per matrix product of forward pass, input gradient and weight gradient (first axis): operations and elements
        moved for one sample, and elements moved once for any batch.
    patch_elements
        Elements moved to write or add up image patches, for the same three, for one sample.
    passed_elements
        Elements that element-wise layers move for one sample, forward and backward (first axis).
    """

    flop: Floats
    elements: Floats
    fixed_elements: Floats
    patch_elements: Floats
    passed_elements: Floats


@dataclass(frozen=True)
class LayerTimes:
    """Seconds per layer; the last axis of each array is the layer, the others are the scenario's."""

    forward_s: Floats
    input_gradient_s: Floats
    weight_gradient_s: Floats
    elementwise_forward_s: Floats
    elementwise_backward_s: Floats

    @property
    def all_forward_s(self) -> Floats:
        """Return the forward time of each layer."""
        return self.forward_s + self.elementwise_forward_s

    @property
    def all_backward_s(self) -> Floats:
        """Return the backward time of each layer."""
        return self.input_gradient_s + self.weight_gradient_s + self.elementwise_backward_s


def time_layers(
    work: Work,
    batch: ArrayLike,
    peak_flop_per_s: ArrayLike,
    memory_bytes_per_s: ArrayLike,
    precision_bytes: ArrayLike = 4.0,
) -> LayerTimes:
    """Return the time of each layer and stage [s] in any number of scenarios at once.

    Parameters
    ----------
    work
        From `count_work`.
    batch
        Samples of one process and step.
    peak_flop_per_s, memory_bytes_per_s
        Peak rates of computing and memory of one process.
    precision_bytes
        Bytes of one element.

    Returns
    -------
    LayerTimes
        Arrays of the shape that the four parameters broadcast to, plus one axis for the layers.
    """
    samples = np.asarray(batch, float)[..., np.newaxis]
    peak = np.asarray(peak_flop_per_s, float)[..., np.newaxis]
    byte_s = (np.asarray(precision_bytes, float) / np.asarray(memory_bytes_per_s, float))[..., np.newaxis]

    def linear(stage: int) -> Floats:
        traffic_s = (samples * work.elements[stage] + work.fixed_elements[stage]) * byte_s
        # Patches are a separate step without operations that still takes time.
        patches_s = samples * work.patch_elements[stage] * byte_s
        return np.asarray(np.maximum(samples * work.flop[stage] / peak, traffic_s) + patches_s)

    # Passes do not depend on the peak, so its shape is added.
    passes_s = [np.asarray(samples * elements * byte_s + 0 / peak) for elements in work.passed_elements]
    return LayerTimes(linear(0), linear(1), linear(2), passes_s[0], passes_s[1])


@cache
def count_work(layers: tuple[Layer, ...], cost_model: CostModel) -> Work:
    """Return the operations and traffic of a network's layers in one variant of the model."""
    gemms = [_find_gemms(layer) for layer in layers]
    patches = [_count_patch_elements(layer) if cost_model == "im2col" else (0.0, 0.0, 0.0) for layer in layers]
    passed = [_count_passed_elements(layer) if cost_model == "full" else (0.0, 0.0) for layer in layers]
    repeats = np.array([layer.repeats for layer in layers], dtype=float)
    counted = np.array([[_count(gemm) for gemm in stages] for stages in gemms], dtype=float) * repeats[:, None, None]
    flop, elements, fixed = np.transpose(counted, (2, 1, 0))
    return Work(flop, elements, fixed, _by_stage(patches, repeats), _by_stage(passed, repeats))


def _by_stage(rows: Iterable[Sequence[float]], repeats: Floats) -> Floats:
    return np.asarray(np.array(list(rows), dtype=float).T * repeats)


def _count(gemm: Gemm | None) -> tuple[float, float, float]:
    """Return operations and elements for one sample, and elements for any batch."""
    if gemm is None:
        return 0.0, 0.0, 0.0
    m, n, k, count = gemm.m, gemm.n, gemm.k, gemm.count
    elements, fixed = (m * n + n * k, m * k) if gemm.batched == "n" else (m * k + n * k, m * n)
    return 2.0 * m * n * k * count, float(elements * count), float(fixed * count)


def _find_gemms(layer: Layer) -> tuple[Gemm | None, Gemm | None, Gemm | None]:
    """Return the matrix products of forward pass, input gradient and weight gradient of a layer."""
    if layer.kind not in LINEAR:
        return None, None, None
    transposed = is_transposed(layer)
    source, target = (layer.output_shape, layer.input_shape) if transposed else (layer.input_shape, layer.output_shape)
    channels_in, channels_out, groups = source[-1], target[-1], 1
    if layer.kind == "depthwise":
        channels_in, channels_out, groups = 1, target[-1] // source[-1], source[-1]
    positions, taps = math.prod(target[:-1]), math.prod(layer.kernel) if layer.kind in CONVOLUTIONS else 1
    gathering = Gemm(channels_out, positions, channels_in * taps, "n", groups)
    spreading = Gemm(channels_in * taps, positions, channels_out, "n", groups)
    weight = Gemm(channels_out, channels_in * taps, positions, "k", groups)
    forward, backward = (spreading, gathering) if transposed else (gathering, spreading)
    return forward, backward if layer.needs_input_gradient else None, weight


def _count_patch_elements(layer: Layer) -> tuple[float, float, float]:
    """Return the elements moved for patches in forward pass, input gradient and weight gradient."""
    if layer.kind not in CONVOLUTIONS or {*layer.kernel, *layer.strides} == {1}:
        return 0.0, 0.0, 0.0
    transposed = is_transposed(layer)
    source, target = (layer.output_shape, layer.input_shape) if transposed else (layer.input_shape, layer.output_shape)
    patches = source[-1] * math.prod(layer.kernel) * math.prod(target[:-1])
    moved = float(math.prod(source) + patches)
    return moved, moved if layer.needs_input_gradient else 0.0, 0.0


def _count_passed_elements(layer: Layer) -> tuple[float, float]:
    """Return the elements that an element-wise layer moves, forward and backward."""
    if layer.kind not in PASSES:
        return 0.0, 0.0
    sizes = math.prod(layer.input_shape), math.prod(layer.output_shape)
    forward, backward = (float(inputs * sizes[0] + outputs * sizes[1]) for inputs, outputs in PASSES[layer.kind])
    return forward, backward if layer.needs_input_gradient or layer.parameters else 0.0
