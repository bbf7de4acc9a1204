"""Map layers to the kernels that they run in a training step, with their sizes.

Kernels are measured on square images; a layer of another shape is replaced by a square, or cube, of equal area.
Convolutions use the positions of their output times the stride, so the work equals that of the layer for any padding.
Additions, concatenations, depthwise and one-dimensional convolutions, and layers of kind ``other`` have no kernel.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hpcai.predict.training.layers import Layer, is_transposed, list_tensors

Stage = Literal["forward", "input gradient", "weight gradient", "element-wise backward", "update"]
STAGES: tuple[Stage, ...] = ("forward", "input gradient", "weight gradient", "element-wise backward", "update")
"""The update comes last: it depends on parameters, the others on samples."""
ELEMENTWISE = {
    "batch_norm": "batch_norm",
    "relu": "relu",
    "max_pool": "max_pool",
    "average_pool": "average_pool",
    "softmax": "softmax",
}
"""Kinds of layers, and their kernels without the direction."""
POOLS = ("max_pool", "average_pool")
MEASURED_POOL = (2, 2)
CONVOLUTION_NAMES = {2: "conv2d", 3: "conv3d"}


@dataclass(frozen=True)
class KernelCall:
    """A kernel run by a layer.

    Attributes
    ----------
    sizes
        By name of the kernel's inputs; edges may be fractions.
    count
        Number of calls per step.
    """

    layer: str
    stage: Stage
    kernel: str
    sizes: dict[str, float]
    count: int


def list_kernel_calls(layer: Layer, batch: int) -> tuple[KernelCall, ...]:
    """Return all kernels of a layer in one step, in the order of `STAGES`; empty if no kernel describes it.

    Parameters
    ----------
    layer
        One entry of a list of layers; its repeats count.
    batch
        Samples per process.
    """
    calls = [*_list_linear(layer, batch), *_list_elementwise(layer, batch), *_list_updates(layer)]
    return tuple(sorted(calls, key=lambda call: STAGES.index(call.stage)))


def describe_approximations(layer: Layer) -> tuple[str, ...]:
    """Return one sentence per difference between a layer and its kernels."""
    found = []
    extents = (layer.input_shape[:-1], layer.output_shape[:-1], layer.kernel, layer.strides)
    if layer.kind in {*ELEMENTWISE, "convolution"} and any(len(set(extent)) > 1 for extent in extents):
        found.append("shapes, windows and strides that are not square enter as squares of the same area")
    if layer.kind in ELEMENTWISE and len(layer.input_shape) > 3:
        found.append("element-wise layers on volumes enter as images of the same number of positions")
    if layer.kind in POOLS and (layer.kernel or MEASURED_POOL) != MEASURED_POOL:
        found.append("pools of any window enter as windows of 2 x 2 on the same input")
    return tuple(found)


def _list_linear(layer: Layer, batch: int) -> Iterator[KernelCall]:
    """Yield the matrix products of a layer, and its bias."""
    dimensions = len(layer.input_shape) - 1
    if layer.kind == "dense":
        products = _find_gemms(layer, batch)
    elif layer.kind == "convolution" and dimensions in CONVOLUTION_NAMES:
        products = _find_convolutions(layer, batch, dimensions)
    else:
        return
    stages: tuple[Stage, ...] = ("forward", "input gradient", "weight gradient")
    for stage, (kernel, sizes) in zip(stages, products, strict=True):
        if stage != "input gradient" or layer.needs_input_gradient:
            yield KernelCall(layer.name, stage, kernel, sizes, layer.repeats)
    if layer.bias:
        sizes = _image_sizes(layer.output_shape, batch)
        yield KernelCall(layer.name, "forward", "bias_forward", sizes, layer.repeats)
        yield KernelCall(layer.name, "weight gradient", "bias_backward", sizes, layer.repeats)


def _find_gemms(layer: Layer, batch: int) -> list[tuple[str, dict[str, float]]]:
    """Return the products of a dense layer as shaped in Barrachina et al. (2023): outputs first."""
    rows = batch * math.prod(layer.input_shape[:-1])
    n_in, n_out = layer.input_shape[-1], layer.output_shape[-1]
    return [
        ("gemm_forward", {"m": n_out, "n": rows, "k": n_in}),
        ("gemm_input_gradient", {"m": n_in, "n": rows, "k": n_out}),
        ("gemm_weight_gradient", {"m": n_out, "n": n_in, "k": rows}),
    ]


def _find_convolutions(layer: Layer, batch: int, dimensions: int) -> list[tuple[str, dict[str, float]]]:
    """Return the three convolutions of a layer; a transposed one is the input gradient of its mirror image."""
    transposed = is_transposed(layer)
    source, target = (layer.output_shape, layer.input_shape) if transposed else (layer.input_shape, layer.output_shape)
    stride = math.prod(layer.strides) ** (1 / dimensions)
    sizes = {
        "batch": float(batch),
        "edge": math.prod(target[:-1]) ** (1 / dimensions) * stride,
        "channels_in": float(source[-1]),
        "channels_out": float(target[-1]),
        "kernel_edge": math.prod(layer.kernel) ** (1 / dimensions),
        "stride": stride,
    }
    forward, backward = ("input_gradient", "forward") if transposed else ("forward", "input_gradient")
    name = CONVOLUTION_NAMES[dimensions]
    return [(f"{name}_{stage}", sizes) for stage in (forward, backward, "weight_gradient")]


def _list_elementwise(layer: Layer, batch: int) -> Iterator[KernelCall]:
    kernel = ELEMENTWISE.get(layer.kind)
    if kernel is None:
        return
    sizes = _image_sizes(layer.input_shape, batch)
    yield KernelCall(layer.name, "forward", f"{kernel}_forward", sizes, layer.repeats)
    if layer.needs_input_gradient or layer.parameters:
        yield KernelCall(layer.name, "element-wise backward", f"{kernel}_backward", sizes, layer.repeats)


def _list_updates(layer: Layer) -> Iterator[KernelCall]:
    """Yield an update per parameter tensor."""
    for parameters in list_tensors(layer):
        yield KernelCall(layer.name, "update", "sgd", {"parameters": float(parameters)}, layer.repeats)


def _image_sizes(shape: tuple[int, ...], batch: int) -> dict[str, float]:
    edge = math.sqrt(math.prod(shape[:-1]))
    return {"batch": float(batch), "edge": edge, "channels_in": float(shape[-1])}
