"""The graph of a training step's loss and gradients, divided into fused blocks.

A block begins with an operation that multiplies matrices, gathers or sums segments, and includes the following
operations up to the next such one: bias, normalisation, activation, pooling, addition. The gradients of its operations
belong to it. So each operation of the step is in exactly one block, an input gradient is in one only if a layer needs
it, and TensorFlow can fuse in a block what it fuses in a step (convolution, bias and ReLU; gradients of filter and
bias).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

PRODUCTS = ("Conv2D", "Conv3D", "Conv2DBackpropInput", "DepthwiseConv2dNative", "MatMul", "BatchMatMulV2", "Einsum")
SPARSE = ("GatherV2", "ResourceGather", "UnsortedSegmentSum", "SegmentSum", "SparseTensorDenseMatMul")
BEGINNINGS = (*PRODUCTS, *SPARSE)
"""Types of operations that begin a block."""
SHAPES = ("Shape", "ShapeN", "Size", "Rank")
"""Operations that are constant if shapes are known at tracing; TensorFlow folds them and computations on them."""
READ = "ReadVariableOp"
_GRADIENT_OF = re.compile(r"_grad(?=/|$)")


@dataclass(frozen=True)
class Block:
    """Operations of a step that are compiled together.

    Attributes
    ----------
    operations
        In tracing order, forward before backward.
    inputs
        Tensors from other blocks, or from the batch.
    constants
        Tensors that depend on neither the batch nor variables.
    handles
        Placeholders of the variables that the block reads or changes.
    outputs
        Tensors used elsewhere; none if the block only changes variables.
    forward
        Number of its operations that belong to the forward pass.
    """

    operations: tuple[tf.Operation, ...]
    inputs: tuple[tf.Tensor, ...]
    constants: tuple[tf.Tensor, ...]
    handles: tuple[tf.Tensor, ...]
    outputs: tuple[tf.Tensor, ...]
    forward: int


@dataclass
class Traced:
    """The blocks of what was traced, the values that they compute with, the gradients, and what a call captures."""

    blocks: Sequence[Block] = ()
    values: Mapping[Any, Any] = field(default_factory=dict)
    gradients: Sequence[Any] = ()
    captured: Sequence[Any] = ()


Forward = Callable[..., tuple[tf.Tensor, Sequence[Any], Sequence[tf.Tensor] | None]]
"""Takes tensors; returns what is differentiated, by what, and the gradient that comes from above (None: 1)."""


def trace_gradients(forward: Forward, given: Sequence[tf.Tensor]) -> Traced:
    """Trace what is computed and its gradients, divide them into blocks, and run them once for the values in between.

    Parameters
    ----------
    forward
        Is traced, and run once.
    given
        What it takes.
    """
    traced = Traced()
    references: list[Any] = []

    def compute(*inputs: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        outputs, variables, above = forward(*inputs)
        first_gradient = len(outputs.graph.get_operations())
        gradients = tf.gradients(outputs, variables, above)
        results = [outputs, *(part for one in gradients for part in _parts(one))]
        traced.blocks = divide(outputs.graph, results, first_gradient)
        between = {one.ref(): one for block in traced.blocks for one in (*block.inputs, *block.constants)}
        references[:] = between
        return list(between.values()), gradients

    specs = [tf.TensorSpec(one.shape, one.dtype) for one in given]
    function = tf.function(compute, autograph=False).get_concrete_function(*specs)
    variables = {id(one.handle): one for one in function.graph.variables}
    traced.captured = [outer for outer, _ in function.graph.captures]
    captured = [(inner, variables.get(id(outer))) for outer, inner in function.graph.captures]
    # Before the step changes them: a block that reads a variable gets what the step got.
    before = {inner.ref(): one.numpy() for inner, one in captured if one is not None}
    values, traced.gradients = function(*given)
    traced.values = {**before, **dict(zip(references, (one.numpy() for one in values), strict=True))}
    return traced


def _parts(gradient: Any) -> tuple[tf.Tensor, ...]:  # noqa: ANN401  a tensor, slices of one, or nothing
    if gradient is None:
        return ()
    return (gradient.values, gradient.indices) if hasattr(gradient, "indices") else (gradient,)


def divide(graph: tf.Graph, results: Sequence[tf.Tensor], first_gradient: int) -> list[Block]:
    """Return the blocks of a traced step, in forward order.

    Parameters
    ----------
    graph
        Graph of loss and gradients, the latter made by `tf.gradients`.
    results
        The loss and all gradients.
    first_gradient
        Operations of the graph before this one form the forward pass.
    """
    operations = graph.get_operations()
    place = {one.name: number for number, one in enumerate(operations)}
    needed = find_needed([*(one.op for one in results), *(one for one in operations if _changes_variable(one))])
    fixed = _find_constants(operations)
    work = [one for one in operations if one.name in needed and one.name not in fixed and _is_work(one)]
    numbers = _number_forward([one for one in work if place[one.name] < first_gradient])
    numbers |= _number_backward([one for one in work if place[one.name] >= first_gradient], numbers)
    members: dict[int, list[tf.Operation]] = {}
    for one in work:
        members.setdefault(numbers[one.name], []).append(one)
    wanted = {one.ref() for one in results}
    wanted |= {part.ref() for one in work for part in one.inputs if numbers.get(part.op.name) != numbers[one.name]}
    return [
        _make_block(own, sum(place[one.name] < first_gradient for one in own), fixed, wanted)
        for _, own in sorted(members.items())
    ]


def halve(block: Block) -> tuple[Block, ...]:
    """Return forward and backward of a block as two blocks, or the block itself if it has only one of them."""
    forward, backward = block.operations[: block.forward], block.operations[block.forward :]
    if not forward or not backward:
        return (block,)
    fixed = {one.op.name for one in block.constants}
    wanted = {one.ref() for one in block.outputs}
    kept = {tensor.ref() for one in backward for tensor in one.inputs}
    return _make_block(forward, len(forward), fixed, wanted | kept), _make_block(backward, 0, fixed, wanted)


def find_needed(ends: Iterable[tf.Operation]) -> set[str]:
    """Return the names of the given operations and of all operations on which they depend."""
    open_ = list(ends)
    found = {one.name for one in open_}
    while open_:
        for tensor in open_.pop().inputs:
            if tensor.op.name not in found:
                found.add(tensor.op.name)
                open_.append(tensor.op)
    return found


def _changes_variable(operation: tf.Operation) -> bool:
    return bool(operation.type.startswith("Assign") and operation.type.endswith("VariableOp"))


def _is_work(operation: tf.Operation) -> bool:
    return operation.type not in ("Placeholder", READ, "NoOp")


def _find_constants(operations: Iterable[tf.Operation]) -> set[str]:
    """Return the names of operations whose results TensorFlow can compute before the first step."""
    found: set[str] = set()
    for one in operations:
        known = all(tensor.shape.is_fully_defined() for tensor in one.inputs)
        folded = one.inputs and all(tensor.op.name in found for tensor in one.inputs)
        if one.type == "Const" or (one.type in SHAPES and known) or (folded and not one.op_def.is_stateful):
            found.add(one.name)
    return found


def _number_forward(work: Sequence[tf.Operation]) -> dict[str, int]:
    """Return the block of each operation: a new one if it begins one, else the latest of its inputs' blocks."""
    numbers: dict[str, int] = {}
    latest = 0
    for one in work:
        if one.type in BEGINNINGS:
            latest += 1
            numbers[one.name] = latest
        else:
            numbers[one.name] = max((numbers.get(tensor.op.name, 0) for tensor in one.inputs), default=0)
    return numbers


def _number_backward(work: Sequence[tf.Operation], forward: Mapping[str, int]) -> dict[str, int]:
    """Return the block of each gradient operation: that of the operation being differentiated.

    Sums of gradients from several branches belong to the block that uses them.
    """
    consumers = _list_consumers(work)
    numbers: dict[str, int] = {}
    for one in reversed(work):
        number = _differentiated(one.name, forward)
        if number is None:
            users = [numbers[user.name] for tensor in one.outputs for user in consumers.get(tensor.ref(), [])]
            sources = [forward.get(tensor.op.name, 0) for tensor in one.inputs]
            number = max(users or sources, default=0)
        numbers[one.name] = number
    return numbers


def _differentiated(name: str, forward: Mapping[str, int]) -> int | None:
    """Return the block of the operation being differentiated, from the name that `tf.gradients` gives a gradient."""
    _, _, rest = name.partition("/")
    for match in _GRADIENT_OF.finditer(rest):
        if (found := forward.get(rest[: match.start()])) is not None:
            return found
    return None


def _list_consumers(work: Iterable[tf.Operation]) -> "dict[object, list[tf.Operation]]":
    found: dict[object, list[tf.Operation]] = {}
    for one in work:
        for tensor in one.inputs:
            found.setdefault(tensor.ref(), []).append(one)
    return found


def _make_block(members: Sequence[tf.Operation], forward: int, fixed: set[str], wanted: set[object]) -> Block:
    own = {one.name for one in members}
    inputs: dict[object, tf.Tensor] = {}
    constants: dict[object, tf.Tensor] = {}
    handles: dict[object, tf.Tensor] = {}
    for tensor in (tensor for one in members for tensor in one.inputs):
        source = tensor.op.inputs[0] if tensor.op.type == READ else tensor
        if source.op.name in own:
            continue
        if source.dtype == tf.resource:
            handles[source.ref()] = source
        elif source.op.name in fixed:
            constants[source.ref()] = source
        else:
            inputs[source.ref()] = source
    outputs = tuple(tensor for one in members for tensor in one.outputs if tensor.ref() in wanted)
    return Block(
        tuple(members), tuple(inputs.values()), tuple(constants.values()), tuple(handles.values()), outputs, forward
    )
