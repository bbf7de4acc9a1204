"""Convolution rate of this machine, forward and both gradients, in shapes of the benchmarks.

Tensors are channels-last and padded to equal size (``SAME``). Each of the three has the work of the forward pass, 2 x
multiply-adds, with ``positions x kernel^dimensions x channels in x channels out`` multiply-adds. Padded zeros are
included, as in the benchmarks' formulas: libraries that skip zeros can exceed their real rate by a few per cent.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hpcai.machine.ceilings.sampling import CeilingReport, Precision, Way
from hpcai.machine.subprocess_measure import THIS_PYTHON, DeviceKind, measure_apart, parse_options, serve

MODULE = "hpcai.machine.ceilings.convolution"
REPEATS = 3
BATCH_FACTOR_GPU = 32
Direction = Literal["forward", "input gradient", "weight gradient"]
DIRECTIONS: tuple[Direction, ...] = ("forward", "input gradient", "weight gradient")


@dataclass(frozen=True)
class Convolution:
    """A convolution of ``batch`` samples with ``edge^dimensions`` positions."""

    dimensions: Literal[2, 3]
    batch: int
    edge: int
    kernel: int
    channels_in: int
    channels_out: int

    @property
    def work_flop(self) -> int:
        """Operations of the forward pass, and of each gradient."""
        taps = math.prod(self.kernel_shape)
        return 2 * taps * math.prod(self.output_shape[:-1])

    @property
    def input_shape(self) -> list[int]:
        """Shape of the input: batch, positions, channels."""
        return [self.batch, *[self.edge] * self.dimensions, self.channels_in]

    @property
    def output_shape(self) -> list[int]:
        """Shape of the output."""
        return [self.batch, *[self.edge] * self.dimensions, self.channels_out]

    @property
    def kernel_shape(self) -> list[int]:
        """Shape of the weights."""
        return [*[self.kernel] * self.dimensions, self.channels_in, self.channels_out]

    def __str__(self) -> str:
        channels = f"{self.channels_in} to {self.channels_out} channels"
        return f"{self.kernel}^{self.dimensions} on {self.batch} x {self.edge}^{self.dimensions}, {channels}"


# The first of each list is small: its rate shows whether the others are affordable. No 3-wide kernel on an edge of 2,
# because oneDNN's weight gradient of that shape is wrong in bf16.
CONVOLUTIONS = (
    Convolution(2, 1, 14, 3, 32, 32),
    Convolution(2, 4, 14, 1, 1024, 256),  # ResNet-50
    Convolution(2, 4, 56, 3, 64, 64),
    Convolution(2, 4, 28, 3, 128, 128),
    Convolution(2, 4, 14, 3, 256, 256),
    Convolution(3, 1, 8, 3, 8, 16),
    Convolution(3, 1, 16, 3, 64, 128),  # CosmoFlow
    Convolution(3, 1, 32, 3, 32, 64),
)


def measure_convolution(
    threads: Iterable[int],
    device: DeviceKind = "cpu",
    repeats: int = REPEATS,
    *,
    python: Sequence[str] = THIS_PYTHON,
) -> CeilingReport:
    """Measure convolutions.

    Parameters, reasons and processes are those of :func:`hpcai.machine.ceilings.gemm.measure_gemm`.
    """
    return measure_apart("convolution", MODULE, threads, device, repeats, python=python)


def all_convolutions(device: DeviceKind) -> list[Way]:
    """Return every convolution to time on a device, less work of a kind first."""
    from hpcai.machine.ceilings.tensors import precisions_of

    return convolutions(precisions_of(device), CONVOLUTIONS, device)


def convolutions(
    precisions: Sequence[Precision], shapes: Sequence[Convolution], device: DeviceKind = "cpu"
) -> list[Way]:
    """Return the convolution methods; TensorFlow's threads must be configured."""
    factor = 1 if device == "cpu" else BATCH_FACTOR_GPU
    return [
        _way(Convolution(**{**vars(shape), "batch": shape.batch * factor}), precision, direction, device)
        for precision in precisions
        for shape in shapes
        for direction in DIRECTIONS
    ]


def _way(shape: Convolution, precision: Precision, direction: Direction, device: DeviceKind) -> Way:
    from hpcai.machine.ceilings.tensors import backend_of, call_with, calls_of, random_tensors, wait_for

    compute, operands = operation(shape, direction)
    return Way(
        kind="convolution",
        precision=precision,
        backend=backend_of(device),
        setting=f"{shape}, {direction}",
        work=shape.work_flop,
        run=call_with(compute, random_tensors(operands, precision), precision),
        calls=calls_of(device),
        wait=wait_for,
        family=f"{shape.dimensions} dimensions, {direction}",
    )


def operation(shape: Convolution, direction: Direction) -> tuple[Callable[..., Any], list[list[int]]]:
    """Return TensorFlow's operation and the shapes of its two operands."""
    import tensorflow as tf

    raw = tf.raw_ops
    forward, to_input, to_weights = (
        (raw.Conv2D, raw.Conv2DBackpropInput, raw.Conv2DBackpropFilter)
        if shape.dimensions == 2
        else (raw.Conv3D, raw.Conv3DBackpropInputV2, raw.Conv3DBackpropFilterV2)
    )
    options: dict[str, Any] = {"strides": [1] * (shape.dimensions + 2), "padding": "SAME"}
    inputs, weights, outputs = shape.input_shape, shape.kernel_shape, shape.output_shape
    if direction == "forward":
        return lambda x, w: forward(input=x, filter=w, **options), [inputs, weights]
    if direction == "input gradient":
        return (
            lambda w, y: to_input(input_sizes=inputs, filter=w, out_backprop=y, **options),
            [weights, outputs],
        )
    return (
        lambda x, y: to_weights(input=x, filter_sizes=weights, out_backprop=y, **options),
        [inputs, outputs],
    )


if __name__ == "__main__":
    serve(parse_options(MODULE), all_convolutions)
