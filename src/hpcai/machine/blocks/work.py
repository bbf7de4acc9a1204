"""Work of a block: operations of its products, compulsory bytes, and its kind."""

import math
from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from hpcai.machine.blocks.compile import IGNORED, variable_shapes
from hpcai.machine.blocks.trace import BEGINNINGS, READ, Block
from hpcai.predict.steps.report import BlockKind, OperationWork

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


FREE = ("Identity", "IdentityN", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "EnsureShape")
"""Operations that pass on what they get."""
FUSING = ("Conv2D", "Conv3D", "MatMul")
"""Products that add a bias, and apply an activation to the sum, in the same operation."""
ACTIVATIONS = ("Relu", "Relu6", "LeakyRelu", "Elu")
NEAR_BYTES = 2**20
"""What one operation gets and gives beyond this comes from a farther cache, or from memory."""
VECTOR = 16
"""Numbers of a vector register: a product computes its columns in multiples of it."""
SPARSE = "SparseTensorDenseMatMul"
ROWS = {"GatherV2": 1, "ResourceGather": 1, "SegmentSum": 1, "UnsortedSegmentSum": 1, SPARSE: 1}
"""Input with a number for each row that these take, or for each number that is not zero."""
WEIGHTED = (*FUSING, "BatchMatMulV2")
"""Products of what is given and weights, or what takes their place; beside the gradients of convolutions."""
TABLE = 3
"""Input of a sparse matrix's product whose rows are added up."""


def describe_work(block: Block) -> dict[str, Any]:
    """Return what there is to know of a block before it is timed, by the fields of `BlockTime`."""
    return {
        "kind": kind_of(block),
        "operations": len(block.operations),
        "work_flop": count_flop(block.operations),
        "moved_bytes": count_bytes(block),
        "works": describe_operations(block.operations),
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
        "works": describe_operations(operations),
    }


def describe_operations(operations: Iterable[tf.Operation]) -> tuple[OperationWork, ...]:
    """Return the work of what TensorFlow computes of some operations, by type.

    It fuses a bias, and an activation of the sum, with the product; passes on what is only given another shape; and
    computes once what is asked for twice.
    """
    done: set[object] = set()
    found: dict[str, OperationWork] = {}
    for one in operations:
        same = (one.type, tuple(_source(tensor).ref() for tensor in one.inputs), _attributes(one))
        if one.type in FREE or _is_fused(one) or (same in done and not one.op_def.is_stateful):
            continue
        done.add(same)
        own = _work_of(one)
        known = found.get(one.type)
        found[one.type] = own if known is None else known.plus(own)
    return tuple(found.values())


def _work_of(operation: tf.Operation) -> OperationWork:
    tensors = [one for one in (*operation.inputs, *operation.outputs) if one.dtype != tf.resource]
    passed_bytes = float(sum(map(_size_bytes, tensors)))
    work_flop = float(_operation_flop(operation))
    result = operation.inputs[TABLE] if operation.type == SPARSE else operation.outputs[0] if work_flop else None
    columns = VECTOR if result is None else int(result.shape[-1] or 1)
    return OperationWork(
        type=operation.type,
        count=1,
        passed_bytes=passed_bytes,
        far_bytes=max(passed_bytes - NEAR_BYTES, 0.0),
        work_flop=work_flop,
        idle_flop=work_flop * (-columns % VECTOR) / columns,
        strided_flop=work_flop if _is_strided(operation) else 0.0,
        products=float(_elements(operation.outputs[0].shape[:-2])) if operation.type == "BatchMatMulV2" else 0.0,
        rows=float(_elements(operation.inputs[ROWS[operation.type]].shape)) if operation.type in ROWS else 0.0,
        **_parts_of_product(operation),
    )


def _is_strided(operation: tf.Operation) -> bool:
    return "Conv" in operation.type and max(operation.get_attr("strides")) > 1


def _parts_of_product(operation: tf.Operation) -> dict[str, float]:
    """Return the bytes of what a product gets, of its weights, and of its results, whichever of them it computes."""
    kind, inputs, outputs = operation.type, operation.inputs, operation.outputs
    if "Depthwise" in kind:
        return {}
    if "BackpropFilter" in kind:
        parts = (inputs[0], outputs[0], inputs[2])
    elif "BackpropInput" in kind:
        parts = (inputs[2], inputs[1], outputs[0])
    elif kind in WEIGHTED:
        parts = (inputs[0], inputs[1], outputs[0])
    else:
        return {}
    return dict(zip(("given_bytes", "weight_bytes", "result_bytes"), map(_size_bytes, parts), strict=True))


def _source(tensor: tf.Tensor) -> tf.Tensor:
    """Return where the numbers of a tensor come from: what is given another shape only is passed on."""
    while tensor.op.type in FREE:
        tensor = tensor.op.inputs[tensor.value_index]
    return tensor


def _attributes(operation: tf.Operation) -> str:
    attributes = operation.node_def.attr.items()
    return str(sorted((name, value.SerializeToString()) for name, value in attributes if name not in IGNORED))


def _is_fused(operation: tf.Operation) -> bool:
    if operation.type in ACTIVATIONS:
        before = operation.inputs[0].op
        return before.type == "BiasAdd" and _is_fused(before)
    return operation.type == "BiasAdd" and operation.inputs[0].op.type in FUSING


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
    moved = sum(_size_bytes(one) for one in tensors if one.dtype != tf.resource)
    return float(moved + sum(4 * _elements(shape) for shape in variable_shapes(block)))


def _elements(shape: tf.TensorShape) -> int:
    return int(math.prod(shape)) if shape.is_fully_defined() else 0


def _size_bytes(tensor: tf.Tensor) -> float:
    return float(_elements(tensor.shape) * tensor.dtype.size)


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
    elif kind == SPARSE:
        each, times = inputs[ROWS[kind]].shape, inputs[TABLE].shape[-1:]
    else:
        return 0
    return 2 * _elements(each) * _elements(times)
