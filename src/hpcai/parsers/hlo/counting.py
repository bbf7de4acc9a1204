"""Multiply-adds of one convolution or dot of an HLO module.

Convention: **padding counts as work, holes do not.** Along each spatial axis a convolution pairs positions with taps.

- Forward pass and kernel gradient: output positions x window taps, whether a tap meets data or padding. A layer's
  formula counts this way, and libraries without a special case for borders compute this way. In the kernel gradient
  the window is the output gradient and the outputs are the kernel's taps, so the count equals the forward pass.
- Input gradient and transposed convolution: image positions x taps. XLA writes them as a convolution of the *output
  gradient* with holes between its values (``lhs_dilate``) and zeros around it, which the mathematics does not have:
  each gradient value is multiplied once with each tap. The count again equals the forward pass.

The instruction shows which case applies: its first operand has holes, or its metadata name a TensorFlow operation
that ends in BackpropInput. If the window is reversed, XLA has exchanged image and kernel because the kernel is larger;
they are exchanged back.

A second count covers only the pairs that meet data on both sides, without the instruction's own padding. This is the
convention of XLA's cost analysis (xla/service/hlo_cost_analysis.cc, GetConvolutionFlops).
"""

import math
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hpcai.parsers.hlo.instruction import Dimensions, HloError, Instruction

_LABELS = re.compile(r"([bf0-9]+)_([io0-9]+)->([bf0-9]+)")
_FORWARD = r"Conv2D|Conv3D|DepthwiseConv2dNative"
_INPUT_GRADIENT = re.compile(rf"({_FORWARD})BackpropInput(V2)?")
_OTHER = re.compile(rf"({_FORWARD})(BackpropFilter(V2)?)?|")


@dataclass(frozen=True)
class Work:
    """Multiply-adds in the convention above, and those that meet data on both sides; batch groups included."""

    multiply_adds: int
    data_multiply_adds: int
    batch_groups: int = 1


@dataclass(frozen=True)
class Axis:
    """One spatial axis: extents of image (without padding and holes), window and output, and their alignment."""

    image: int
    window: int
    output: int
    stride: int = 1
    low: int = 0
    high: int = 0
    image_dilation: int = 1
    window_dilation: int = 1
    reversed: bool = False

    @property
    def fits(self) -> bool:
        """Whether the extents are consistent."""
        room = (self.image - 1) * self.image_dilation + 1 + self.low + self.high
        return (room - ((self.window - 1) * self.window_dilation + 1)) // self.stride + 1 == self.output

    def pairs(self, *, input_gradient: bool) -> int:
        """Return position-tap pairs, counting padding but not holes."""
        image, taps = (self.window, self.image) if self.reversed else (self.image, self.window)
        return (image if input_gradient else self.output) * taps

    @property
    def dilated(self) -> bool:
        """Whether the image has holes."""
        return (self.window_dilation if self.reversed else self.image_dilation) > 1


def count_convolution(instruction: Instruction, image: Dimensions, kernel: Dimensions, output: Dimensions) -> Work:
    """Return the multiply-adds of a convolution.

    Raises
    ------
    HloError
        If shapes, window and groups contradict each other.
    """
    labels = _LABELS.fullmatch(instruction.attribute("dim_labels"))
    if labels is None:
        raise HloError("no dim_labels")
    image_of, kernel_of, output_of = (
        _by_label(*pair) for pair in zip(labels.groups(), (image, kernel, output), strict=True)
    )
    groups, batch_groups = (int(instruction.attribute(f"{kind}_group_count") or 1) for kind in ("feature", "batch"))
    features = (image_of["f"], kernel_of["o"], output_of["b"] * batch_groups)
    if features != (kernel_of["i"] * groups, output_of["f"], image_of["b"]) or kernel_of["o"] % (groups * batch_groups):
        raise HloError("features or batch of image, kernel and output disagree")
    axes = _axes(instruction.attribute("window"), image_of, kernel_of, output_of)
    each = output_of["b"] * output_of["f"] * kernel_of["i"]
    return Work(
        each * _pairs(instruction.op_type, axes),
        each * math.prod(_pairs_of_data(axis) for axis in axes),
        batch_groups,
    )


def _pairs(op_type: str, axes: list[Axis]) -> int:
    """Return the pairs along all axes in the convention above.

    Raises
    ------
    HloError
        If the count depends on an unknown operation.
    """
    forward, backward = (math.prod(axis.pairs(input_gradient=kind) for axis in axes) for kind in (False, True))
    if _INPUT_GRADIENT.fullmatch(op_type) or any(axis.dilated for axis in axes):
        return backward
    if not _OTHER.fullmatch(op_type) and forward > backward:
        raise HloError(f"{op_type} is unknown, so it may be the gradient of an input or not")
    return forward


def count_dot(instruction: Instruction, left: Dimensions, right: Dimensions, output: Dimensions) -> Work:
    """Return the multiply-adds of a tensor product.

    Raises
    ------
    HloError
        If the shapes contradict each other.
    """
    batch, contracted = (
        [
            [int(axis) for axis in instruction.attribute(f"{side}_{kind}_dims").split(",") if axis]
            for side in ("lhs", "rhs")
        ]
        for kind in ("batch", "contracting")
    )
    sides = tuple(zip((left, right), batch, contracted, strict=True))
    if any(axis >= len(shape) for shape, *named in sides for axes in named for axis in axes):
        raise HloError("more axes are named than there are")
    common = [[shape[axis] for axis in axes] for shape, axes, _ in sides]
    summed = [[shape[axis] for axis in axes] for shape, _, axes in sides]
    free = [[n for axis, n in enumerate(shape) if axis not in {*one, *other}] for shape, one, other in sides]
    if common[0] != common[1] or summed[0] != summed[1] or output != (*common[0], *free[0], *free[1]):
        raise HloError("the shapes of factors and product disagree")
    work = math.prod(output) * math.prod(summed[0])
    return Work(work, work)


def _by_label(labels: str, shape: Dimensions) -> dict[str, int]:
    if len(labels) != len(shape) or len(set(labels)) != len(labels):
        raise HloError("dim_labels do not fit the shapes")
    return dict(zip(labels, shape, strict=True))


def _axes(window: str, image: dict[str, int], kernel: dict[str, int], output: dict[str, int]) -> list[Axis]:
    """Return the spatial axes.

    Raises
    ------
    HloError
        If an extent is impossible.
    """
    names = sorted(label for label in kernel if label.isdigit())
    fields = dict(part.split("=", 1) for part in window.split() if "=" in part)
    if len(names) != sum(map(str.isdigit, image)) or (names and "size" not in fields):
        raise HloError("the window does not fit the shapes")
    columns = {key: fields[key].split("x") if key in fields else [""] * len(names) for key in _FIELDS}
    if any(len(column) != len(names) for column in columns.values()) or set(fields) - set(_FIELDS):
        raise HloError("the window does not fit the shapes")
    axes = []
    for place, name in enumerate(names):
        text = {key: column[place] for key, column in columns.items()}
        low, _, high = (text["pad"] or "0_0").partition("_")
        axis = Axis(
            image.get(name, 0),
            kernel[name],
            output.get(name, 0),
            stride=int(text["stride"] or 1),
            low=int(low),
            high=int(high),
            image_dilation=int(text["lhs_dilate"] or 1),
            window_dilation=int(text["rhs_dilate"] or 1),
            reversed=text["rhs_reversal"] == "1",
        )
        if min(axis.image, axis.window, axis.output, axis.stride, axis.image_dilation, axis.window_dilation) < 1:
            raise HloError("an extent is not positive")
        if int(text["size"]) != axis.window or not axis.fits:
            raise HloError("the window does not fit the shapes")
        axes.append(axis)
    return axes


_FIELDS = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")


@lru_cache(maxsize=4096)
def _pairs_of_data(axis: Axis) -> int:
    """Return how many pairs of output position and tap meet an image value."""
    few, many = sorted(
        ((axis.output, axis.stride), (axis.window, axis.window_dilation)),
        key=lambda extent_and_step: extent_and_step[0],
    )
    places = np.arange(many[0]) * many[1] - axis.low
    found = 0
    for offset in range(0, few[0] * few[1], few[1]):
        met, hole = np.divmod(places + offset, axis.image_dilation)
        found += np.count_nonzero((hole == 0) & (met >= 0) & (met < axis.image))
    return int(found)
