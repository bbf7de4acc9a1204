"""Work of a block: operations of its products, compulsory bytes, and its kind."""

import math
from collections.abc import Iterable

import tensorflow as tf

from hpcai.machine.blocks.compile import variable_shapes
from hpcai.machine.blocks.trace import BEGINNINGS, Block
from hpcai.predict.steps.report import BlockKind

KINDS: dict[str, BlockKind] = {
    "Conv2D": "convolution",
    "Conv3D": "3-D convolution",
    "Conv2DBackpropInput": "transposed convolution",
    "DepthwiseConv2dNative": "depthwise",
    "MatMul": "dense",
    "BatchMatMulV2": "dense",
    "Einsum": "dense",
}
"""Kind by the first operation of a block; blocks that gather or sum segments are "sparse", others "other"."""

TURNED = {"MatMul": "transpose_a", "BatchMatMulV2": "adj_x"}
"""Attribute that states whether the first operand of a product is transposed."""


def kind_of(block: Block) -> BlockKind:
    """Return the kind of a block."""
    begins = next((one.type for one in block.operations if one.type in BEGINNINGS), "")
    return KINDS.get(begins, "sparse" if begins else "other")


def count_flop(operations: Iterable[tf.Operation]) -> float:
    """Return the arithmetic of products and convolutions, 2 per multiply-add [flop]; padding counts as work."""
    return float(sum(_operation_flop(one) for one in operations))


def count_bytes(block: Block) -> float:
    """Return the bytes of all inputs and outputs of a block, each tensor once (modelled) [B]."""
    tensors = [*block.inputs, *block.outputs]
    moved = sum(_elements(one.shape) * one.dtype.size for one in tensors if one.dtype != tf.resource)
    return float(moved + sum(4 * _elements(shape) for shape in variable_shapes(block)))


def _elements(shape: tf.TensorShape) -> int:
    return int(math.prod(shape)) if shape.is_fully_defined() else 0


def _operation_flop(operation: tf.Operation) -> int:
    kind, inputs, output = operation.type, operation.inputs, operation.outputs[:1]
    window = slice(-2) if kind.startswith("Depthwise") else slice(-1)
    if kind in ("Conv2D", "Conv3D", "DepthwiseConv2dNative"):
        each, times = output[0].shape, inputs[1].shape[window]
    elif "BackpropInput" in kind:
        each, times = inputs[2].shape, inputs[1].shape[window]
    elif "BackpropFilter" in kind:
        each, times = inputs[2].shape, output[0].shape[window]
    elif kind in TURNED:
        inner = -2 if operation.get_attr(TURNED[kind]) else -1
        each, times = output[0].shape, inputs[0].shape[inner:][:1]
    else:
        return 0
    return 2 * _elements(each) * _elements(times)
