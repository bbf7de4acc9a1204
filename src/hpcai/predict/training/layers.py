"""Layers of a network as input of the cost models: kinds, shapes and parameters, without weights or framework."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from hpcai.core.messages import Message

LayerKind = Literal[
    "convolution",
    "depthwise",
    "dense",
    "batch_norm",
    "relu",
    "max_pool",
    "average_pool",
    "add",
    "concat",
    "softmax",
    "other",
]
CONVOLUTIONS: tuple[LayerKind, ...] = ("convolution", "depthwise")
LINEAR: tuple[LayerKind, ...] = (*CONVOLUTIONS, "dense")
"""Layers that multiply matrices."""
COSTS_NOTHING = Message("layers.costs_nothing", "{layer}: a layer of kind 'other' costs nothing")


@dataclass(frozen=True)
class Layer:
    """One layer for one sample: channels-last shapes, without the batch.

    Attributes
    ----------
    name, kind
        A name for tables, and the operation. In the models, computing a layer of kind ``other`` is free;
        its parameters count for messages and update.
    input_shape, output_shape
        ``(height, width, channels)``, ``(depth, height, width, channels)`` or ``(features,)``. A dense layer that is
        applied at many positions has ``(positions, features)``. For ``add`` the input is one operand, for ``concat``
        the sum of all. A convolution whose output is larger than its input is a transposed one.
    kernel, strides
        Edge lengths of the window and its steps; empty strides mean ones. Only convolutions need them.
    parameters
        Trainable parameters of one such layer, including the bias.
    bias
        Whether these include a bias.
    needs_input_gradient
        False for layers that read the data: nothing before them is trained.
    repeats
        Number of layers of the same shape in this entry. Each has its own parameters and gradients to exchange.
        Shared weights belong to one entry; their other uses have 0 parameters.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    kind: LayerKind
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    parameters: int = 0
    bias: bool = False
    needs_input_gradient: bool = True
    repeats: int = 1

    def __post_init__(self) -> None:
        """Refuse layers without a computable cost."""
        problem = _find_problem(self)
        if problem:
            raise ValueError(f"layer {self.name!r}: {problem}")


class LayerList(BaseModel):
    """The layers of one network in the order of the forward pass, and the parts that the list omits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    samples_per_epoch: int | None = Field(default=None, gt=0)
    layers: tuple[Layer, ...] = Field(min_length=1)
    source: str = Field(description="Where the list comes from.")
    not_modelled: tuple[str, ...] = Field(default=(), description="One sentence for everything the list leaves out.")


def count_parameters(network: LayerList) -> int:
    """Return the trainable parameters of a network."""
    return sum(layer.parameters * layer.repeats for layer in network.layers)


def list_tensors(layer: Layer) -> list[int]:
    """Return the parameters of each tensor of one repeat of a layer: weights and bias, or scale and shift."""
    if layer.kind == "batch_norm":
        tensors = [layer.parameters // 2] * 2
    elif layer.bias:
        tensors = [layer.parameters - layer.output_shape[-1], layer.output_shape[-1]]
    else:
        tensors = [layer.parameters]
    return [parameters for parameters in tensors if parameters > 0]


def count_last_planes(network: tuple[Layer, ...]) -> float:
    """Return the fewest planes that any pool or convolution leaves: a sample has no more parts along an edge."""
    spatial = (layer.output_shape[0] for layer in network if layer.kind in (*CONVOLUTIONS, "max_pool"))
    return min(spatial, default=math.inf)


def count_forward_flop(layer: Layer) -> float:
    """Return the floating-point operations of a layer's forward pass for one sample [flop].

    Two per multiply-add; layers without matrix products, and biases, count 0. All repeats are counted.
    """
    if layer.kind not in LINEAR:
        return 0.0
    if layer.kind == "dense":
        multiply_adds = math.prod(layer.input_shape) * layer.output_shape[-1]
    else:
        # A transposed convolution multiplies each input element with the whole window.
        smaller = layer.input_shape if is_transposed(layer) else layer.output_shape
        channels = layer.output_shape[-1] * (1 if layer.kind == "depthwise" else layer.input_shape[-1])
        multiply_adds = math.prod(smaller[:-1]) * channels * math.prod(layer.kernel)
    return 2.0 * multiply_adds * layer.repeats


def is_transposed(layer: Layer) -> bool:
    """Return whether a convolution enlarges its input."""
    return layer.kind == "convolution" and any(
        output > input_ for input_, output in zip(layer.input_shape[:-1], layer.output_shape[:-1], strict=True)
    )


def name_layers_without_cost(network: LayerList) -> tuple[str, ...]:
    """Return one sentence per layer without a cost in the model, and those that the list itself names."""
    own = tuple(COSTS_NOTHING(layer=layer.name) for layer in network.layers if layer.kind == "other")
    return (*network.not_modelled, *own)


def _find_problem(layer: Layer) -> str:
    """Return the defect of a layer; blank if there is none."""
    shapes = (layer.input_shape, layer.output_shape)
    if layer.kind not in get_args(LayerKind):
        return f"kind {layer.kind!r} is unknown, choose from {', '.join(get_args(LayerKind))}"
    if not all(shapes) or min((*layer.input_shape, *layer.output_shape)) < 1:
        return f"shapes {layer.input_shape} and {layer.output_shape} need extents of at least 1"
    if layer.parameters < 0 or layer.repeats < 1:
        return f"{layer.parameters} parameters and {layer.repeats} repeats, expected at least 0 and 1"
    if layer.kind in CONVOLUTIONS:
        return _find_window_problem(layer)
    return ""


def _find_window_problem(layer: Layer) -> str:
    """Return the defect of a convolution's window; blank if there is none."""
    axes = len(layer.input_shape) - 1
    if len(layer.output_shape) != axes + 1:
        return f"a convolution from {len(layer.input_shape)} to {len(layer.output_shape)} axes"
    if len(layer.kernel) != axes or len(layer.strides) not in (0, axes):
        return f"kernel {layer.kernel} and strides {layer.strides} for {axes} axes, expected as many extents"
    if min((*layer.kernel, *layer.strides)) < 1:
        return f"kernel {layer.kernel} and strides {layer.strides}, expected extents of at least 1"
    if layer.kind == "depthwise" and layer.output_shape[-1] % layer.input_shape[-1]:
        return f"depthwise from {layer.input_shape[-1]} to {layer.output_shape[-1]} channels, expected a multiple"
    return ""
