"""Compile blocks as a function that computes them one after the other and reads the clock in between."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.machine.blocks.trace import READ, Block, halve

IGNORED = ("_class", "_gradient_op_type", "_output_shapes", "shared_name", "container")
"""Attributes that do not affect what an operation computes."""
LARGE_BYTES = 2**20
"""Variables of a block beyond this are in no cache of a core any more when the backward pass of a step comes to it."""
SMALL = 64
"""Constants with up to this many integers distinguish blocks: axes, shapes, paddings."""


def make_graph(block: Block, values: Mapping[Any, Any]) -> tf.compat.v1.GraphDef:
    """Return a block's operations with placeholders ``in0``, ``in1`` ... and variables ``var0``, ``var1`` ...

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
    node.input.append(handle)
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
    """What is computed between two readings of the clock: a block, or its forward or backward half."""

    number: int
    part: Block
    graph: tf.compat.v1.GraphDef


def compile_pass(blocks: Sequence[Block], values: Mapping[Any, Any]) -> Pass:
    """Return a call that computes blocks once, one after the other, and reads the clock in between.

    A block finds caches and branch predictors as in a step: after the other blocks, not after itself.

    Parameters
    ----------
    blocks
        In the order of a step's forward pass.
    values
        Value of each of their inputs, constants and variables, by reference.
    """
    pieces = list(_order_pieces(blocks, values))
    operands = [_copy_operands(block, values) for block in blocks]

    def compute() -> tuple[tf.Tensor, list[list[tf.Tensor]]]:
        made: list[dict[Any, tf.Tensor]] = [{} for _ in blocks]
        clock = [tf.timestamp()]
        for place, piece in enumerate(pieces):
            own = made[piece.number]
            given = _take_operands(piece.part, operands[piece.number], own, clock[-1].op)
            results = tf.graph_util.import_graph_def(piece.graph, given, _name_ends(piece.part), name=f"piece{place}")
            own |= {tensor.ref(): result for tensor, result in zip(piece.part.outputs, results, strict=False)}
            with tf.control_dependencies([one if isinstance(one, tf.Operation) else one.op for one in results]):
                clock.append(tf.timestamp())
        # TensorFlow computes only what is returned.
        return tf.stack(clock), [
            [made[number][one.ref()] for one in each.outputs] for number, each in enumerate(blocks)
        ]

    compiled = tf.function(compute, autograph=False)
    numbers = [piece.number for piece in pieces]

    def run() -> tuple[NDArray[np.float64], Sequence[Sequence[tf.Tensor]]]:
        clock, outputs = compiled()
        return np.bincount(numbers, np.diff(clock.numpy()), len(blocks)).astype(np.float64), outputs

    return run


def _order_pieces(blocks: Sequence[Block], values: Mapping[Any, Any]) -> Iterator[_Piece]:
    """Yield what is computed without a break: blocks, then the backward halves of those with large variables."""
    later: list[_Piece] = []
    for number, block in enumerate(blocks):
        size = sum(4 * shape.num_elements() for shape in variable_shapes(block))
        first, *rest = halve(block) if size > LARGE_BYTES else (block,)
        yield _Piece(number, first, make_graph(first, values))
        later += [_Piece(number, one, make_graph(one, values)) for one in rest]
    yield from reversed(later)


def _copy_operands(block: Block, values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return inputs and variables of a block, by reference, each in memory of its own."""
    inputs = {one.ref(): tf.constant(np.array(values[one.ref()])) for one in block.inputs}
    return inputs | {one.ref(): tf.Variable(values[one.ref()]) for one in block.handles}


def _take_operands(
    part: Block, operands: Mapping[Any, Any], made: Mapping[Any, tf.Tensor], before: tf.Operation
) -> dict[str, Any]:
    """Return what a graph of `make_graph` takes: own results as they are, and operands that wait for an operation.

    An operand is an input of the function that is traced, so nothing that depends on it is a constant. Handles of
    variables do not wait: reading one is no work.
    """
    capture = tf.zeros([]).graph.capture
    given = {f"var{place}": capture(operands[one.ref()].handle) for place, one in enumerate(part.handles)}
    for place, one in enumerate(part.inputs):
        if one.ref() in made:
            given[f"in{place}"] = made[one.ref()]
        else:
            outer = capture(operands[one.ref()])
            with tf.control_dependencies([before]):
                given[f"in{place}"] = tf.identity(outer)
    return given


def _name_ends(block: Block) -> Sequence[str]:
    """Return the names of what must be computed: outputs as tensors, and changes of variables as operations.

    Only returned values are computed: TensorFlow prunes unused operations, even with control dependencies on them.
    """
    names = {operation.name: f"op{number}" for number, operation in enumerate(block.operations)}
    changes = [names[operation.name] for operation in block.operations if not operation.outputs]
    return [*(f"{names[tensor.op.name]}:{tensor.value_index}" for tensor in block.outputs), *changes]
