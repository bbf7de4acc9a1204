"""TensorFlow's traced graph of a training step's loss, with the captured parts of the model."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

    from hpcai.training.workload import Workload


@dataclass(frozen=True)
class TracedStep:
    """The graph of a micro-batch's loss.

    Attributes
    ----------
    operations
        Operations on which the loss depends, in execution order.
    sizes
        Elements of each trainable variable, by the name of its placeholder.
    trained
        Names of operations whose results depend on a trainable variable.
    scopes
        Class of each of the model's layers, by layer name.
    samples
        Samples of the micro-batch.
    """

    operations: tuple["tf.Operation", ...]
    sizes: dict[str, int]
    trained: frozenset[str]
    scopes: dict[str, str]
    samples: int


def trace_step(workload: "Workload[Any]") -> TracedStep:
    """Trace the loss of one micro-batch of a workload on one rank; the model is built, the batch is abstract.

    Resets Keras' name counters, so that names do not depend on earlier models.
    """
    import keras
    import tensorflow as tf

    from hpcai.training.workload import seed_streams

    keras.utils.clear_session(free_memory=False)
    model = workload.build_model(seed_streams(1, 0))
    traced = tf.function(
        lambda *batch: workload.loss(model, batch, tf.constant([1, 2], tf.int32)), autograph=False
    ).get_concrete_function(*workload.batch_spec())
    handles = {id(variable.value.handle): variable for variable in model.trainable_variables}
    sizes = {
        inner.op.name: math.prod(handles[id(outer)].shape)
        for outer, inner in traced.graph.captures
        if id(outer) in handles
    }
    operations = _needed(traced.outputs[0].op)
    # A shared variable is captured once, however often it is read; one that is never read is not captured.
    unread = sum(math.prod(one.shape) for one in model.trainable_variables) - sum(sizes.values())
    if unread:
        sizes["variables that the loss does not read"] = unread
    return TracedStep(
        operations, sizes, _trained(operations, set(sizes)), dict(_scopes(model)), workload.plan.micro_batch
    )


def _needed(end: "tf.Operation") -> tuple["tf.Operation", ...]:
    """Return the operations on which a result depends, in tracing order."""
    found, open_ = {end.name}, [end]
    while open_:
        for tensor in open_.pop().inputs:
            if tensor.op.name not in found:
                found.add(tensor.op.name)
                open_.append(tensor.op)
    return tuple(one for one in end.graph.get_operations() if one.name in found)


def _trained(operations: tuple["tf.Operation", ...], variables: set[str]) -> frozenset[str]:
    found = set(variables)
    for operation in operations:
        if any(tensor.op.name in found for tensor in operation.inputs):
            found.add(operation.name)
    return frozenset(found)


def _scopes(model: "keras.Model") -> Iterator[tuple[str, str]]:
    """Yield name and class of the model and of all its layers."""
    yield model.name, type(model).__name__
    for layer in getattr(model, "layers", ()):
        yield from _scopes(layer)
