"""Work of a block: operations of its products, compulsory bytes, and its kind."""

import math
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from hpcai.machine.blocks.compile import variable_shapes
from hpcai.machine.blocks.trace import BEGINNINGS, READ, Block
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


def describe_work(block: Block) -> dict[str, Any]:
    """Return what there is to know of a block before it is timed, by the fields of `BlockTime`."""
    products = [one for one in block.operations if _operation_flop(one)]
    rows, columns, depth = _sizes(block)
    return {
        "kind": kind_of(block),
        "operations": len(block.operations),
        "products": len(products),
        "rows": rows,
        "columns": columns,
        "depth": depth,
        "work_flop": count_flop(block.operations),
        "moved_bytes": count_bytes(block),
        "passed_bytes": count_passed_bytes(block),
    }


def describe_update(graph: "tf.Graph", variables: Iterable[tf.Variable], gradients: Iterable[Any]) -> dict[str, Any]:
    """Return what there is to know of an optimizer's update, by the fields of `BlockTime`.

    Parameters
    ----------
    graph
        Of its compiled call.
    variables
        All that it reads or changes: weights and the optimizer's own.
    gradients
        What it gets.
    """
    operations = [one for one in graph.get_operations() if one.type not in ("Placeholder", "Const", "NoOp", READ)]
    touched = sum(_elements(one.shape) for one in variables)
    got = sum(_elements(one.shape) for one in gradients if hasattr(one, "shape"))
    return {
        "kind": "update",
        "operations": max(len(operations), 1),
        "work_flop": 0.0,
        "moved_bytes": 4.0 * (2 * touched + got),
        "passed_bytes": _passed_bytes(operations),
    }


def _sizes(block: Block) -> tuple[int, int, int]:
    """Return rows, columns and depth of what a block begins with, as a product of matrices; 0: no such product."""
    first = next((one for one in block.operations if one.type in BEGINNINGS), None)
    if first is None:
        return 0, 0, 0
    output = first.outputs[0].shape
    columns = int(output[-1] or 0)
    rows = _elements(output) // max(columns, 1)
    return rows, columns, _operation_flop(first) // max(2 * rows * columns, 1)


def count_passed_bytes(block: Block) -> float:
    """Return the bytes of all that the operations of a block get from each other and from elsewhere (modelled) [B]."""
    return _passed_bytes(block.operations)


def _passed_bytes(operations: Iterable[tf.Operation]) -> float:
    tensors = [tensor for one in operations for tensor in (*one.inputs, *one.outputs)]
    return float(sum(_elements(one.shape) * one.dtype.size for one in tensors if one.dtype != tf.resource))


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
