"""Compile a block as a function of its own, for several sets of operands."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from hpcai.machine.blocks.trace import READ, Block
from hpcai.predict.steps.report import SETS

IGNORED = ("_class", "_gradient_op_type", "_output_shapes", "shared_name", "container")
"""Attributes that do not affect what an operation computes."""
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
    made.library.CopyFrom(block.operations[0].graph.as_graph_def(add_shapes=False).library)
    return made


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


def compile_block(
    block: Block, graph: tf.compat.v1.GraphDef, values: Mapping[Any, Any], sets: int = SETS
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Return a call that computes a block on one set of operands, and one that does so on several.

    The additional time of the second call, per additional set, is the block's time: both include the cost of a call,
    which a step pays only once.

    Parameters
    ----------
    block, graph
        The computation; see `make_graph`.
    values
        Value of each of its inputs and variables, by reference.
    sets
        Number of sets of operands, at least 2, each in separate memory.
    """
    operands = [
        {
            **{f"in{place}": tf.constant(np.array(values[one.ref()])) for place, one in enumerate(block.inputs)},
            **{f"var{place}": tf.Variable(values[one.ref()]) for place, one in enumerate(block.handles)},
        }
        for _ in range(sets)
    ]
    ends = _name_ends(block)

    def compute(number: int) -> Callable[[], object]:
        def call() -> list[tf.Tensor]:
            done: list[Any] = []
            last: list[tf.Operation] = []
            for place, one in enumerate(operands[:number]):
                results = tf.graph_util.import_graph_def(graph, _capture(one, last), ends, name=f"set{place}")
                # One set after the other, as the blocks of a step are computed.
                last = [result if isinstance(result, tf.Operation) else result.op for result in results]
                done += results
            with tf.control_dependencies([one for one in done if isinstance(one, tf.Operation)]):
                return [one for one in done if isinstance(one, tf.Tensor)] or [tf.constant(0)]

        compiled: Callable[[], object] = tf.function(call, autograph=False)
        return compiled

    return compute(1), compute(sets)


def _capture(operands: Mapping[str, Any], before: Sequence[tf.Operation]) -> dict[str, tf.Tensor]:
    """Return operands as inputs of the function that is traced, which wait for some operations.

    Nothing that depends on them is a constant. Handles of variables do not wait: reading one is no work.
    """
    capture = tf.zeros([]).graph.capture
    inner = {name: capture(getattr(one, "handle", one)) for name, one in operands.items()}
    if not before:
        return inner
    with tf.control_dependencies(before):
        return {name: one if one.dtype == tf.resource else tf.identity(one) for name, one in inner.items()}


def _name_ends(block: Block) -> Sequence[str]:
    """Return the names of what must be computed: outputs as tensors, and changes of variables as operations.

    Only returned values are computed: TensorFlow prunes unused operations, even with control dependencies on them.
    """
    names = {operation.name: f"op{number}" for number, operation in enumerate(block.operations)}
    changes = [names[operation.name] for operation in block.operations if not operation.outputs]
    return [*(f"{names[tensor.op.name]}:{tensor.value_index}" for tensor in block.outputs), *changes]
