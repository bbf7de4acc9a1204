"""Compile blocks as a function that computes them in the order of a step and reads the clock in between."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.machine.blocks.trace import READ, Block, halve

IGNORED = ("_class", "_gradient_op_type", "_output_shapes", "shared_name", "container")
"""Attributes that do not affect what an operation computes."""
START = "^start"
"""Reading a variable waits for it: the start of the piece that reads."""
SMALL = 64
"""Constants with up to this many integers distinguish blocks: axes, shapes, paddings."""


def make_graph(block: Block, values: Mapping[Any, Any]) -> tf.compat.v1.GraphDef:
    """Return a block's operations with placeholders ``in0``, ``in1`` ... and variables ``var0``, ``var1`` ...

    Its reads of variables wait for :data:`START`.

    Parameters
    ----------
    block
        The block.
    values
        Value of each of its constants, by reference.
    """
    made = tf.compat.v1.GraphDef()
    names: dict[Any, str] = {}
    for kind, tensors in (("in", block.inputs), ("var", block.handles)):
        for number, tensor in enumerate(tensors):
            node = made.node.add(name=f"{kind}{number}", op="Placeholder")
            node.attr["dtype"].type = tensor.dtype.as_datatype_enum
            if tensor.dtype != tf.resource:
                node.attr["shape"].shape.CopyFrom(tensor.shape.as_proto())
            names[tensor.ref()] = node.name
    for number, tensor in enumerate(block.constants):
        node = made.node.add(name=f"const{number}", op="Const")
        node.attr["dtype"].type = tensor.dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(values[tensor.ref()], dtype=tensor.dtype))
        names[tensor.ref()] = node.name
    for number, operation in enumerate(block.operations):
        for tensor in operation.inputs:
            if tensor.op.type == READ and tensor.ref() not in names:
                names[tensor.ref()] = _add_read(made, tensor, names[tensor.op.inputs[0].ref()])
        node = made.node.add()
        node.CopyFrom(operation.node_def)
        node.name = f"op{number}"
        del node.input[:]
        node.input.extend(names[tensor.ref()] for tensor in operation.inputs)
        node.device = ""
        for ignored in IGNORED:
            node.attr.pop(ignored, None)
        for place, tensor in enumerate(operation.outputs):
            names[tensor.ref()] = f"{node.name}:{place}"
    made.MergeFrom(_functions_of(block.operations[0].graph))
    return made


@lru_cache(maxsize=1)
def _functions_of(graph: tf.Graph) -> tf.compat.v1.GraphDef:
    """Return the functions that a graph calls; all blocks of a network share them, and to ask writes all of it."""
    return tf.compat.v1.GraphDef(library=graph.as_graph_def(add_shapes=False).library)


def _add_read(made: tf.compat.v1.GraphDef, tensor: tf.Tensor, handle: str) -> str:
    node = made.node.add(name=f"read{len(made.node)}", op=READ)
    node.input.extend([handle, START])
    node.attr["dtype"].type = tensor.dtype.as_datatype_enum
    return f"{node.name}:0"


def describe(block: Block, graph: tf.compat.v1.GraphDef) -> str:
    """Return a block's identity: operations, attributes, wiring, shapes, types, and small constants."""
    parts = [
        *(f"{tensor.dtype.name}{tensor.shape}" for tensor in block.inputs),
        *(f"variable{shape}" for shape in variable_shapes(block)),
    ]
    for node in graph.node:
        if node.op == "Const":
            array = tf.make_ndarray(node.attr["value"].tensor)
            told = array.tolist() if array.dtype.kind in "iu" and array.size <= SMALL else ""
            parts.append(f"{node.name} {array.dtype}{array.shape}{told}")
        else:
            attributes = sorted((name, value.SerializeToString()) for name, value in node.attr.items())
            parts.append(f"{node.name} {node.op} {list(node.input)} {attributes}")
    names = {operation.name: number for number, operation in enumerate(block.operations)}
    parts += [f"{names[tensor.op.name]}:{tensor.value_index}" for tensor in block.outputs]
    return f"{zlib.crc32(chr(10).join(parts).encode()):08x}"


def variable_shapes(block: Block) -> list[tf.TensorShape]:
    """Return the shape of each of a block's variables, from any operation of the graph that reads or writes it."""
    found = []
    for handle in block.handles:
        user = handle.consumers()[0]
        found.append((user.outputs or user.inputs[1:])[0].shape)
    return found


Pass = Callable[[], tuple[NDArray[np.float64], Sequence[Sequence[tf.Tensor]]]]
"""Computes blocks once; returns the time of each [s], shape (blocks,), and the outputs of each."""


@dataclass(frozen=True)
class _Piece:
    """What is computed between two readings of the clock: the forward or the backward half of a block.

    Attributes
    ----------
    number
        Of its block.
    outside
        Values that no piece before it makes, by reference.
    variables
        In the order of its handles.
    """

    number: int
    part: Block
    graph: tf.compat.v1.GraphDef
    outside: Mapping[Any, tf.Tensor]
    variables: Sequence[tf.Variable]


def compile_pass(blocks: Sequence[Block], values: Mapping[Any, Any], in_one_step: bool = True) -> Pass:
    """Return a call that computes blocks once, in the order of a step, and reads the clock in between.

    All forward halves are computed first, then the backward halves, the last block's first. Each half gets what those
    before it have made, as in a step, and meets caches and branch predictors as they leave them. What none of them
    makes (the batch, and what blocks make that are left out because they equal another) is copied just before the
    first half that needs it: in a step it was just made.

    Parameters
    ----------
    blocks
        In the order of a step's forward pass.
    values
        Value of each of their inputs, constants and variables, by reference.
    in_one_step
        False: each block is a step of its own, its backward half follows its forward half.
    """
    halves = [[(number, one) for one in halve(block)] for number, block in enumerate(blocks)]
    steps = [halves] if in_one_step else [[one] for one in halves]
    pieces = _make_pieces([piece for step in steps for piece in _order_halves(step)], values)

    def compute() -> tuple[tf.Tensor, tf.Tensor, list[list[tf.Tensor]]]:
        made: dict[Any, tuple[int, tf.Tensor]] = {}
        starts: list[tf.Tensor] = []
        ends = [tf.timestamp()]
        for piece in pieces:
            operands, start = _take_operands(piece, made, ends[-1])
            names = _name_ends(piece.part)
            results = tf.graph_util.import_graph_def(piece.graph, operands, names, name=f"piece{len(starts)}")
            made |= {
                one.ref(): (piece.number, result) for one, result in zip(piece.part.outputs, results, strict=False)
            }
            starts.append(start)
            ends.append(_read_clock_after(piece.part, results))
        # TensorFlow computes only what is returned.
        outputs = [[made[one.ref()][1] for one in block.outputs] for block in blocks]
        return tf.stack(starts), tf.stack(ends[1:]), outputs

    compiled = tf.function(compute, autograph=False)
    numbers = [piece.number for piece in pieces]

    def run() -> tuple[NDArray[np.float64], Sequence[Sequence[tf.Tensor]]]:
        starts, ends, outputs = compiled()
        return np.bincount(numbers, ends.numpy() - starts.numpy(), len(blocks)).astype(np.float64), outputs

    return run


def _order_halves(step: Sequence[Sequence[tuple[int, Block]]]) -> list[tuple[int, Block]]:
    """Return forward halves in the order of their blocks, then backward halves, the last block's first."""
    forward = [first for first, *_ in step]
    return forward + [one for _, *rest in reversed(step) for one in rest]


def _make_pieces(halves: Sequence[tuple[int, Block]], values: Mapping[Any, Any]) -> list[_Piece]:
    """Return halves of blocks in their order, each with its operands in memory of their own."""
    variables: dict[tuple[int, Any], tf.Variable] = {}
    pieces: list[_Piece] = []
    made: set[Any] = set()
    for number, part in halves:
        outside = {one.ref(): tf.constant(np.array(values[one.ref()])) for one in part.inputs if one.ref() not in made}
        for one in part.handles:
            if (number, one.ref()) not in variables:
                variables[number, one.ref()] = tf.Variable(values[one.ref()])
        own = [variables[number, one.ref()] for one in part.handles]
        pieces.append(_Piece(number, part, make_graph(part, values), outside, own))
        made |= {one.ref() for one in (*part.inputs, *part.outputs)}
    return pieces


def _take_operands(
    piece: _Piece, made: dict[Any, tuple[int, tf.Tensor]], before: tf.Tensor
) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Return what the graph of a piece takes, and the clock at its start; add what is copied for it to what is made.

    Operands are inputs of the function that is traced, so nothing that depends on them is a constant. What the block's
    own forward half has made does not wait, as in a step.

    Parameters
    ----------
    piece
        That is to be computed.
    made
        The number of the block that has made it, and the value, by reference.
    before
        The clock when the piece before ended.
    """
    capture = before.graph.capture
    with tf.control_dependencies([before]):
        copied = {key: tf.raw_ops.DeepCopy(x=capture(value)) for key, value in piece.outside.items()}
    made |= {key: (piece.number, value) for key, value in copied.items()}
    start = before
    if copied:
        with tf.control_dependencies([one.op for one in copied.values()]):
            start = tf.timestamp()
    operands = {f"var{place}": capture(one.handle) for place, one in enumerate(piece.variables)}
    for place, one in enumerate(piece.part.inputs):
        number, value = made[one.ref()]
        if number != piece.number or one.ref() in copied:
            with tf.control_dependencies([start]):
                value = _pass_on(value)
        operands[f"in{place}"] = value
    if any(START in node.input for node in piece.graph.node):
        operands[START] = start
    return operands, start


def _pass_on(value: tf.Tensor) -> tf.Tensor:
    """Return a value by an operation that costs next to nothing and that TensorFlow, unlike an identity, keeps."""
    return tf.raw_ops.EnsureShape(input=value, shape=value.shape)


def _name_ends(block: Block) -> Sequence[str]:
    """Return the names of what must be computed: outputs as tensors, and changes of variables as operations.

    Only returned values are computed: TensorFlow prunes unused operations, even with control dependencies on them.
    """
    names = {operation.name: f"op{number}" for number, operation in enumerate(block.operations)}
    changes = [names[operation.name] for operation in block.operations if not operation.outputs]
    return [*(f"{names[tensor.op.name]}:{tensor.value_index}" for tensor in block.outputs), *changes]


def _read_clock_after(block: Block, results: Sequence[tf.Tensor | tf.Operation]) -> tf.Tensor:
    """Return the clock when all of a block is computed.

    It waits for what no other operation of the block needs, by an operation on it: TensorFlow fuses none that another
    waits for.

    Parameters
    ----------
    block
        What was computed.
    results
        For each name of `_name_ends`.
    """
    used = {tensor.op.name for one in block.operations for tensor in one.inputs}
    ends = {tensor.op.name: result for tensor, result in zip(block.outputs, results, strict=False)}
    waited = [
        *(_pass_on(one).op for name, one in ends.items() if name not in used),
        *results[len(block.outputs) :],
    ]
    with tf.control_dependencies(waited):
        return tf.timestamp()
