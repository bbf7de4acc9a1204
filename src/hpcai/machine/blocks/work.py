"""Work of a block: operations of its products, compulsory bytes, and its kind."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.core.processor import lacks_avx512
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
"""A product computes its columns in multiples of this: one vector register of AVX-512, two of AVX2."""
REGISTER = 8 if lacks_avx512() else VECTOR
"""Numbers of a vector register of this processor: a convolution reads its inputs' channels in multiples of it."""
SPARSE = "SparseTensorDenseMatMul"
ROWS = {"GatherV2": 1, "ResourceGather": 1, "SegmentSum": 1, "UnsortedSegmentSum": 1, SPARSE: 1}
"""Input with a number for each row that these take, or for each number that is not zero."""
WEIGHTED = (*FUSING, "BatchMatMulV2")
"""Products of what is given and weights, or what takes their place; beside the gradients of convolutions."""
DEPTHWISE = "DepthwiseConv2dNative"
TABLE = 3
"""Input of a sparse matrix's product whose rows are added up."""


@dataclass(frozen=True)
class _Product:
    """What is multiplied and what comes of it, or their gradients: the same three for all that a product computes."""

    given: tf.Tensor
    weights: tf.Tensor
    result: tf.Tensor


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
    kind = operation.type
    tensors = [one for one in (*operation.inputs, *operation.outputs) if one.dtype != tf.resource]
    passed_bytes = float(sum(map(_size_bytes, tensors)))
    product = _product_of(operation)
    work_flop = _operation_flop(operation) * _inside_ratio(operation, product)
    return OperationWork(
        type=kind,
        count=1,
        passed_bytes=passed_bytes,
        far_bytes=max(passed_bytes - NEAR_BYTES, 0.0),
        work_flop=work_flop,
        products=float(_elements(operation.outputs[0].shape[:-2])) if kind == "BatchMatMulV2" else 0.0,
        rows=float(_elements(operation.inputs[ROWS[kind]].shape)) if kind in ROWS else 0.0,
        **_measure_elements(operation, passed_bytes),
        **_measure_columns(operation, work_flop),
        **_measure_product(operation, product, work_flop),
        **_measure_windows(operation, product, work_flop),
    )


def _measure_elements(operation: tf.Operation, passed_bytes: float) -> dict[str, float]:
    """Return the bytes of an operation on elements that repeats an operand, or of a reduction along the last axis."""
    if _ends_in_last_axis(operation):
        return {"last_axis_bytes": passed_bytes}
    if not _repeats(operation):
        return {}
    return {"repeated_bytes": passed_bytes, "repeated_rows": _count_repeated_rows(operation)}


def _ends_in_last_axis(operation: tf.Operation) -> bool:
    """Whether a reduction takes the last axis, whose numbers are next to each other."""
    rank = int(operation.inputs[0].shape.rank or 0) if "keep_dims" in operation.node_def.attr else 0
    axes = tf.get_static_value(operation.inputs[1]) if rank else None
    return axes is not None and any(axis % rank == rank - 1 for axis in np.ravel(axes).tolist())


def _repeats(operation: tf.Operation) -> bool:
    """Whether an operation on elements has operands of several shapes."""
    if len(operation.outputs) != 1 or "data_format" in operation.node_def.attr:
        return False
    shapes = set(_operand_shapes(operation))
    try:
        return len(shapes) > 1 and np.broadcast_shapes(*shapes) == tuple(operation.outputs[0].shape)
    except ValueError:  # no operation on elements
        return False


def _count_repeated_rows(operation: tf.Operation) -> float:
    """Return how many rows of repeated operands are read; neighbouring axes that are repeated alike are one.

    Both operands of an outer product are repeated, and each row of its result reads both.
    """
    result = tuple(map(int, operation.outputs[0].shape))
    shapes = [(1,) * (len(result) - len(shape)) + shape for shape in _operand_shapes(operation)]
    axes = (axis for axis in reversed(range(len(result))) if result[axis] > 1)
    _, last = next(groupby(axes, lambda axis: [shape[axis] == 1 for shape in shapes]))
    row = math.prod(result[axis] for axis in last)
    return math.prod(result) / row * sum(shape != result for shape in shapes)


def _operand_shapes(operation: tf.Operation) -> list[tuple[int, ...]]:
    """Return the shapes of what an operation gets; single numbers and unknown shapes do not count."""
    return [tuple(one.shape) for one in operation.inputs if _elements(one.shape) > 1]


def _measure_columns(operation: tf.Operation, work_flop: float) -> dict[str, float]:
    """Return what of a product's work depends on how many columns its result has."""
    if not work_flop:
        return {}
    result = operation.inputs[TABLE] if operation.type == SPARSE else operation.outputs[0]
    columns = int(result.shape[-1] or 1)
    return {"idle_flop": work_flop * (-columns % VECTOR) / columns}


def _measure_product(operation: tf.Operation, product: _Product | None, work_flop: float) -> dict[str, float]:
    """Return the bytes of each part of a product, whichever it computes, and its work over its result's columns."""
    if product is None or "Depthwise" in operation.type:
        return {}
    return {
        "given_bytes": _size_bytes(product.given),
        "weight_bytes": _size_bytes(product.weights),
        "result_bytes": _size_bytes(product.result),
        "per_column_flop": work_flop / int(operation.outputs[0].shape[-1] or 1),
    }


def _measure_windows(operation: tf.Operation, product: _Product | None, work_flop: float) -> dict[str, float]:
    """Return what of a convolution's work depends on how its window moves and on what it reads."""
    if product is None or "Conv" not in operation.type:
        return {}
    found = {"strided_flop": work_flop if max(operation.get_attr("strides")) > 1 else 0.0}
    if "Depthwise" in operation.type:
        return found
    read = product.result if "BackpropInput" in operation.type else product.given
    channels, pixels = (int(size or 1) for size in (read.shape[-1], product.result.shape[-2]))
    return {
        **found,
        "window_flop": work_flop if max(product.weights.shape[:-2]) > 1 else 0.0,
        "idle_input_flop": work_flop * (-channels % REGISTER) / channels,
        "per_pixel_flop": work_flop / pixels,
        "unfolded_flop": float(_operation_flop(operation)) if _is_unfolded(operation, product) else 0.0,
    }


def _is_unfolded(operation: tf.Operation, product: _Product) -> bool:
    """Whether oneDNN copies each place of the window to a matrix and multiplies these, what is outside of images too.

    It has no other gradient of a 3-D convolution's weights where the first window begins before the image and holds all
    of its depth (`jit_avx512_core_conv_bwd_weights`, 3.x; seen by `ONEDNN_VERBOSE=1`).
    """
    if operation.type != "Conv3DBackpropFilterV2":
        return False
    places = _window_places(operation, product, 0)
    return places is not None and bool(places[0, 0] < 0 and places[0, -1] >= product.given.shape[1] - 1)


def _inside_ratio(operation: tf.Operation, product: _Product | None) -> float:
    """Return the share of a convolution's multiply-adds whose pixel is in the image: no other is computed.

    Axes of unknown size count as without padding, and so does what is no convolution.
    """
    if product is None or "Conv" not in operation.type:
        return 1.0
    ratio = 1.0
    for axis, pixels in enumerate(product.given.shape[1:-1]):
        places = _window_places(operation, product, axis)
        if places is not None:
            ratio *= float(np.mean((places >= 0) & (places < pixels)))
    return ratio


def _window_places(operation: tf.Operation, product: _Product, axis: int) -> NDArray[np.int64] | None:
    """Return the pixel of an axis that each place of each window falls on, or beside; None if a size is unknown.

    Shape (results, window); the image's first pixel is 0.
    """
    pixels, window, results = product.given.shape[axis + 1], product.weights.shape[axis], product.result.shape[axis + 1]
    if None in (pixels, window, results):
        return None
    stride, dilation = (operation.get_attr(name)[axis + 1] for name in ("strides", "dilations"))
    places: NDArray[np.int64] = np.arange(results)[:, None] * stride + np.arange(window) * dilation
    if operation.get_attr("padding") == b"EXPLICIT":
        before = int(operation.get_attr("explicit_paddings")[2 * (axis + 1)])
    else:
        before = max(int(places[-1, -1]) + 1 - pixels, 0) // 2
    return places - before


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


def _product_of(operation: tf.Operation) -> _Product | None:
    """Return the parts of a product; None for an operation that multiplies no matrices, or a sparse one."""
    kind, inputs, outputs = operation.type, operation.inputs, operation.outputs
    if kind in (*WEIGHTED, DEPTHWISE):
        return _Product(inputs[0], inputs[1], outputs[0])
    if "BackpropInput" in kind:
        return _Product(outputs[0], inputs[1], inputs[2])
    if "BackpropFilter" in kind:
        return _Product(inputs[0], outputs[0], inputs[2])
    return None


def _operation_flop(operation: tf.Operation) -> int:
    kind, inputs = operation.type, operation.inputs
    product = _product_of(operation)
    if kind == SPARSE:
        each, times = inputs[ROWS[kind]].shape, inputs[TABLE].shape[-1:]
    elif product is None:
        return 0
    elif kind in TURNED:
        inner = -2 if operation.get_attr(TURNED[kind]) else -1
        each, times = product.result.shape, product.given.shape[inner:][:1]
    else:
        each, times = product.result.shape, product.weights.shape[: -2 if kind.startswith("Depthwise") else -1]
    return 2 * _elements(each) * _elements(times)
