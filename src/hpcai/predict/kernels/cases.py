"""The kernels of a training step, their sizes, and random cases of each to measure.

Kernels and ranges follow the approach of Barrachina et al. 2023 (doi 10.1007/s00607-021-00997-9). The list and the
ranges are our own, because the source's tables 2 to 5 are not available. The bytes of element-wise kernels are passes
over memory, with the assumed coefficients of the ``full`` cost model of :mod:`hpcai.predict.training`.
"""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from hpcai.config.prediction import KernelFamily

ELEMENT_BYTES = 4
"""float32."""
CHANNEL_STEP = 8
LARGEST_WORK_FLOP = 2.5e9
LARGEST_MOVED_BYTES = 2.0**28
"""Larger cases need much time and memory to measure; the layers of our networks move less."""
Family = Literal["convolution", "gemm", "elementwise", "update"]
Numbers = NDArray[np.float64]
Case = Mapping[str, ArrayLike] | pd.DataFrame
"""Sizes by the names of a kernel's inputs: whole numbers, or arrays or columns of them for many cases at once."""
Cost = Callable[[dict[str, Numbers]], ArrayLike]

CONVOLUTION = ("batch", "edge", "channels_in", "channels_out", "kernel_edge", "stride")
GEMM = ("m", "n", "k")
IMAGE = ("batch", "edge", "channels_in")
INPUTS = (*CONVOLUTION, *GEMM, "parameters", "size_bytes")
"""All inputs; a table of cases has one column per input, NaN where a kernel lacks the size."""


@dataclass(frozen=True)
class Kernel:
    """One operation of a training step.

    Attributes
    ----------
    name
        Its name in every table.
    family
        Kind of operation.
    measured_with
        The family whose measuring process runs the kernel.
    inputs
        Names of its sizes, in the order in which they are drawn.
    ranges
        Smallest and largest value of each size; kernel edge and stride are drawn from their own lists.
    flop_of, bytes_of
        Cost functions behind :meth:`work_flop` and :meth:`moved_bytes`.
    """

    name: str
    family: Family
    measured_with: KernelFamily
    inputs: tuple[str, ...]
    ranges: Mapping[str, tuple[int, int]]
    flop_of: Cost
    bytes_of: Cost

    def work_flop(self, case: Case) -> Numbers:
        """Return the arithmetic operations of a case [flop].

        A multiply-add counts 2; padded zeros of convolutions count; comparisons, exponentials and divisions count 1.
        Element-wise kernels count the operations of their formula.
        """
        return np.asarray(self.flop_of(self._sizes(case)), np.float64)

    def moved_bytes(self, case: Case) -> Numbers:
        """Return the smallest number of bytes read and written, each tensor once per pass (modelled) [B]."""
        return np.asarray(self.bytes_of(self._sizes(case)), np.float64)

    def _sizes(self, case: Case) -> dict[str, Numbers]:
        return {name: np.asarray(case[name], dtype=np.float64) for name in self.inputs}


def sample_cases(kernel: str, count: int, seed: int) -> pd.DataFrame:
    """Draw random cases of a kernel.

    Sizes are log-uniform whole numbers, except that the channels of half of the convolutions are uniform, because
    layers with many channels do most of a network's work. From 8 on, channels are multiples of 8, as in real networks:
    other numbers run different code (batch normalisation takes ten times as long), which is not a smooth function of
    the size. The kernel edge is 1, 3 or 5, the stride at most that. A case is redrawn if it has
    :data:`LARGEST_WORK_FLOP`, :data:`LARGEST_MOVED_BYTES` or more, or is a duplicate. For a given seed, the first cases
    are always the same, whatever the number requested.

    Parameters
    ----------
    kernel
        A name of :data:`KERNELS`.
    count
        Number of cases.
    seed
        Any whole number from 0.

    Returns
    -------
    pandas.DataFrame
        One row per case, one column of whole numbers per input.
    """
    chosen = KERNELS[kernel]
    # One stream per kernel, so that adding or removing a kernel does not change the others.
    generator = np.random.default_rng([seed, zlib.crc32(kernel.encode())])
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        case = _draw(chosen, generator)
        if chosen.work_flop(case) < LARGEST_WORK_FLOP and chosen.moved_bytes(case) < LARGEST_MOVED_BYTES:
            found.setdefault(tuple(case.values()))
    return pd.DataFrame(list(found), columns=list(chosen.inputs), dtype="int64")


def _draw(kernel: Kernel, generator: np.random.Generator) -> dict[str, int]:
    case: dict[str, int] = {}
    shares = generator.random(len(kernel.inputs) + 1)
    many_channels = kernel.family == "convolution" and shares[-1] < 0.5
    for name, share in zip(kernel.inputs, shares, strict=False):
        if name == "kernel_edge":
            case[name] = (1, 3, 5)[int(3 * share)]
        elif name == "stride":
            case[name] = 1 + int(case["kernel_edge"] * share)
        else:
            smallest, largest = kernel.ranges[name]
            uniform = smallest + (largest + 1 - smallest) * share
            log_uniform = smallest * ((largest + 1) / smallest) ** share
            size = min(largest, int(uniform if many_channels and "channels" in name else log_uniform))
            case[name] = _as_networks_have_them(size) if "channels" in name else size
    return case


def _as_networks_have_them(channels: int) -> int:
    return channels if channels < CHANNEL_STEP else channels // CHANNEL_STEP * CHANNEL_STEP


def _edge_out(case: dict[str, Numbers]) -> Numbers:
    """Return the output edge with padding to equal size ("SAME")."""
    edge: Numbers = np.ceil(case["edge"] / case["stride"])
    return edge


def _convolution(dimensions: Literal[2, 3]) -> dict[str, Kernel]:
    def flop(case: dict[str, Numbers]) -> ArrayLike:
        positions: Numbers = case["batch"] * _edge_out(case) ** dimensions
        taps: Numbers = case["kernel_edge"] ** dimensions
        return 2.0 * positions * taps * case["channels_in"] * case["channels_out"]

    def moved(case: dict[str, Numbers]) -> ArrayLike:
        inputs: Numbers = case["batch"] * case["edge"] ** dimensions * case["channels_in"]
        outputs: Numbers = case["batch"] * _edge_out(case) ** dimensions * case["channels_out"]
        weights: Numbers = case["kernel_edge"] ** dimensions * case["channels_in"] * case["channels_out"]
        return ELEMENT_BYTES * (inputs + outputs + weights)

    # In three dimensions, our networks are smaller in every size.
    edge, channels = ((2, 56), (3, 2048)) if dimensions == 2 else ((2, 32), (1, 256))
    ranges = {"batch": (1, 32), "edge": edge, "channels_in": channels, "channels_out": channels}
    family: KernelFamily = "convolution2d" if dimensions == 2 else "convolution3d"
    names = [f"conv{dimensions}d_{stage}" for stage in ("forward", "input_gradient", "weight_gradient")]
    return {name: Kernel(name, "convolution", family, CONVOLUTION, ranges, flop, moved) for name in names}


def _gemm() -> dict[str, Kernel]:
    def flop(case: dict[str, Numbers]) -> ArrayLike:
        return 2.0 * case["m"] * case["n"] * case["k"]

    def moved(case: dict[str, Numbers]) -> ArrayLike:
        m, n, k = case["m"], case["n"], case["k"]
        elements: Numbers = m * n + m * k + n * k
        return ELEMENT_BYTES * elements

    ranges = dict.fromkeys(GEMM, (1, 8192))
    names = [f"gemm_{stage}" for stage in ("forward", "input_gradient", "weight_gradient")]
    return {name: Kernel(name, "gemm", "gemm", GEMM, ranges, flop, moved) for name in names}


@dataclass(frozen=True)
class _Passes:
    """Operations and memory passes of an element-wise kernel, per element of its input and output."""

    flop_in: float
    flop_out: float
    passes_in: int
    passes_out: int
    pooled: bool = False


# Passes: BN 3 and 5, ReLU 2 and 3, pooling (i + o) each way; bias and softmax follow from their formula.
_ELEMENTWISE = {
    "max_pool_forward": _Passes(0, 4, 1, 1, pooled=True),
    "max_pool_backward": _Passes(0, 4, 1, 1, pooled=True),
    "average_pool_forward": _Passes(0, 4, 1, 1, pooled=True),
    "average_pool_backward": _Passes(0, 4, 1, 1, pooled=True),
    "batch_norm_forward": _Passes(0, 6, 0, 3),
    "batch_norm_backward": _Passes(0, 9, 0, 5),
    "relu_forward": _Passes(0, 1, 0, 2),
    "relu_backward": _Passes(0, 1, 0, 3),
    "bias_forward": _Passes(0, 1, 0, 2),
    "bias_backward": _Passes(0, 1, 0, 1),
    "softmax_forward": _Passes(0, 5, 0, 2),
    "softmax_backward": _Passes(0, 4, 0, 3),
}
POOL_EDGE = 2
"""Pooling kernels take the maximum or the mean of 2 x 2 positions, as in the reference networks."""


def _elementwise(name: str, cost: _Passes) -> Kernel:
    def elements(case: dict[str, Numbers]) -> tuple[Numbers, Numbers]:
        edge = np.floor(case["edge"] / POOL_EDGE) if cost.pooled else case["edge"]
        images = case["batch"] * case["channels_in"]
        return np.multiply(images, case["edge"] ** 2), np.multiply(images, edge**2)

    def flop(case: dict[str, Numbers]) -> ArrayLike:
        inputs, outputs = elements(case)
        return cost.flop_in * inputs + cost.flop_out * outputs

    def moved(case: dict[str, Numbers]) -> ArrayLike:
        inputs, outputs = elements(case)
        return ELEMENT_BYTES * (cost.passes_in * inputs + cost.passes_out * outputs)

    # An edge of 1 follows a dense layer.
    smallest = POOL_EDGE if cost.pooled else 1
    ranges = {"batch": (1, 32), "edge": (smallest, 56), "channels_in": (3, 2048)}
    return Kernel(name, "elementwise", "elementwise", IMAGE, ranges, flop, moved)


def _updates() -> dict[str, Kernel]:
    sgd = Kernel(
        "sgd",
        "update",
        "update",
        ("parameters",),
        {"parameters": (16, 2**23)},
        lambda case: 4.0 * case["parameters"],
        lambda case: 4.0 * ELEMENT_BYTES * case["parameters"],
    )
    copy = Kernel(
        "copy",
        "update",
        "update",
        ("size_bytes",),
        {"size_bytes": (64, 2**26)},
        lambda case: 0.0 * case["size_bytes"],
        lambda case: 2.0 * case["size_bytes"],
    )
    return {"sgd": sgd, "copy": copy}


KERNELS: dict[str, Kernel] = {
    **_convolution(2),
    **_convolution(3),
    **_gemm(),
    **{name: _elementwise(name, cost) for name, cost in _ELEMENTWISE.items()},
    **_updates(),
}
FAMILIES: dict[KernelFamily, tuple[str, ...]] = {
    family: tuple(kernel.name for kernel in KERNELS.values() if kernel.measured_with == family)
    for family in get_args(KernelFamily)
}
"""Names of the kernels run by one measuring process."""
