"""The collective layer: the training loop's exchanges between ranks, independent of the engine."""

import os
import time
from collections.abc import Callable, Sequence
from importlib import import_module

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike, NDArray

from hpcai.config.base import AllreduceTopology, Compression
from hpcai.config.runs import Point
from hpcai.training.collectives.base import Collectives, Ranks

TOPOLOGY_VARIABLES: dict[AllreduceTopology, dict[str, str]] = {
    "default": {},
    "ring": {"NCCL_ALGO": "Ring"},
    "tree": {"NCCL_ALGO": "Tree"},
    "hierarchical": {"HOROVOD_HIERARCHICAL_ALLREDUCE": "1"},
}
"""Environment variables that select the topology in NCCL, which Horovod and JAX use, and in Horovod; read at their
start. The engine ``tensorflow`` uses neither: it has only the default."""
_joined: list[tuple[Collectives, Ranks]] = []
"""This process's engine and rank, once it has joined the others."""


def start(point: Point | None = None, engine: str = "horovod") -> Ranks:
    """Join the other ranks; must be called once, before anything else in this module.

    Parameters
    ----------
    point
        Supplies number of ranks, batch-norm groups, fusion threshold, cycle time and topology; without it none of them
        is used.
    engine
        Name of the module of :mod:`hpcai.training.collectives` to use.
    """
    if point:
        os.environ.update(TOPOLOGY_VARIABLES[point.allreduce_topology])
    collectives: Collectives = import_module(f"hpcai.training.collectives.{engine}").COLLECTIVES()
    ranks = collectives.start(point)
    _joined[:] = [(collectives, ranks)]
    return ranks


def _engine() -> Collectives:
    return _joined[0][0]


def _size() -> int:
    return _joined[0][1].size


def stop() -> None:
    """Leave the other ranks."""
    _engine().stop()


def barrier() -> None:
    """Wait until all ranks arrive."""
    _engine().reduce([tf.zeros(1)], "sum", "barrier")[0].numpy()


def broadcast_variables(variables: Sequence[tf.Variable]) -> None:
    """Copy the variables' values from rank 0 to all ranks."""
    if _size() > 1:
        _engine().broadcast(variables)


def mean_of_gradients(
    gradients: Sequence[tf.Tensor], numbers: tf.Tensor, compression: Compression, groups: int
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return the gradients, and numbers such as the loss, averaged over all ranks; used inside the compiled step.

    A single rank has nothing to exchange (as in Horovod's own DistributedGradientTape).

    Parameters
    ----------
    gradients
        This rank's gradients; each rank's batch has the same number of samples.
    numbers : (k,)
        This rank's loss and other numbers to average, float32. Every rank gets the same means and therefore takes the
        same decisions.
    compression
        ``fp16``: gradients travel in half precision. The numbers keep all their bits, because they may exceed its
        range.
    groups
        Number of messages, formed by :func:`split_backwards` regardless of the fusion threshold. Each keeps a fixed
        order, and is sent as soon as all its gradients are ready. 0: one by one, as Horovod fuses them.
    """
    engine, ranks = _joined[0]
    if ranks.size == 1:
        return list(gradients), numbers
    sent = [tf.cast(gradient, tf.float16) for gradient in gradients] if compression == "fp16" else list(gradients)
    if groups == 0:
        means = engine.reduce_each(sent, "mean", "gradient")
        return _like(gradients, means), engine.reduce([numbers], "mean", "numbers")[0]
    # A message has one type (Horovod fuses no others), and a message for the numbers alone costs a round trip: they
    # travel with the first ready gradients. Use a sum, because the division of a mean would round their slots.
    halved = compression == "fp16"
    extra = in_own_slot(numbers, ranks.rank, ranks.size) if halved else numbers
    messages = split_backwards([one.shape.num_elements() or 0 for one in sent], groups)
    messages[0].append(len(sent))
    sent.append(extra)
    back: dict[int, tf.Tensor] = {}
    for number, places in enumerate(messages):
        name = "gradients" if number == 0 else f"gradients.{number}"
        parts = engine.reduce([sent[place] for place in places], "sum" if halved else "mean", name)
        back.update(zip(places, parts, strict=True))
    *found, extra = (back[place] for place in range(len(sent)))
    if not halved:
        return found, extra
    return [total / ranks.size for total in _like(gradients, found)], mean_of_slots(extra)


def agree(values: tf.Tensor, name: str) -> tf.Tensor:
    """Return values that all ranks computed from equal tensors, with equal bits: their mean; used inside the step."""
    if not _joined or _size() == 1:
        return values
    return _engine().reduce([values], "mean", name)[0]


def split_backwards(sizes: Sequence[int], groups: int) -> list[list[int]]:
    """Return the gradient indices of each message, last layers first; messages are about equal in size.

    Parameters
    ----------
    sizes
        Elements of each gradient, in layer order.
    groups
        Number of messages; at most the number of gradients.
    """
    parts: list[list[int]] = [[]]
    sent, whole = 0, sum(sizes)
    for place in reversed(range(len(sizes))):
        left = groups - len(parts)
        if parts[-1] and left and (sent >= whole * len(parts) / groups or place + 1 <= left):
            parts.append([])
        parts[-1].append(place)
        sent += sizes[place]
    return [sorted(part) for part in parts]


def _like(gradients: Sequence[tf.Tensor], exchanged: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the exchanged values in the precision of the gradients."""
    return [tf.cast(one, gradient.dtype) for one, gradient in zip(exchanged, gradients, strict=True)]


def in_own_slot(numbers: tf.Tensor, rank: int, size: int) -> tf.Tensor:
    """Encode a rank's numbers for a half-precision sum that transfers all ranks' numbers bit-exactly.

    Each rank has its own slot, to which the others add zeros. The slot holds the bytes of its numbers; each byte, 0 to
    255, is exact in half precision. This takes 8 bytes per rank and number.

    Parameters
    ----------
    numbers : (k,)
        float32, any values.
    rank, size
        Index of this rank, and number of ranks.

    Returns
    -------
    (size, k, 4)
        float16.
    """
    digits = tf.cast(tf.bitcast(numbers, tf.uint8), tf.float16)
    return tf.pad(digits[tf.newaxis], [[rank, size - rank - 1], [0, 0], [0, 0]])


def mean_of_slots(slots: tf.Tensor) -> tf.Tensor:
    """Return the mean numbers (k,) over all ranks from the sum of their `in_own_slot` encodings."""
    numbers = tf.bitcast(tf.cast(slots, tf.uint8), tf.float32)
    # In double precision, so that the processor's order of addition makes no difference between ranks.
    return tf.cast(tf.reduce_mean(tf.cast(numbers, tf.float64), axis=0), tf.float32)


def mean_over_group(values: tf.Tensor, name: str) -> tf.Tensor:
    """Return the mean over the ranks that share batch-norm statistics, differentiable; used inside the step.

    Parameters
    ----------
    values
        This rank's values; equal shape on all ranks.
    name
        Name of the exchange, unique within a step.
    """
    return values if _size() == 1 else _engine().group_mean(values, f"group.{name}")


def part_of(parts: int) -> int:
    """Return the index of this rank's part of a sample, among the parts shared by neighbouring ranks."""
    return _joined[0][1].rank % parts if parts > 1 else 0


def exchange_in_group(rows: tf.Tensor, sent: Sequence[int], received: Sequence[int], name: str) -> tf.Tensor:
    """Exchange rows with the ranks that share this one's samples, differentiable; used inside the step.

    Gradients travel back along the same paths: a row's gradient comes from its receiver.

    Parameters
    ----------
    rows : (sum(sent), ...)
        Rows for each rank of the group, in rank order.
    sent, received
        Number of rows for and from each rank of the group.
    name
        Name of the exchange, unique within a step.

    Returns
    -------
    (sum(received), ...)
    """
    engine = _engine()

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def exchange(own: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def back(upstream: tf.Tensor) -> tf.Tensor:
            return engine.group_exchange(upstream, received, sent, f"{name}.gradient")

        return engine.group_exchange(own, sent, received, name), back

    return exchange(rows)


def join_neighbours(
    values: tf.Tensor, axis: int, around: tuple[int, int], pairs: Sequence[tuple[int, int]]
) -> tf.Tensor:
    """Return this rank's part between its neighbours', differentiable; used inside the step of the engine ``jax``.

    Parameters
    ----------
    values
        This rank's part.
    axis
        Axis along which the neighbours' parts follow.
    around
        Length of what is joined of the previous and of the next part; who has none gets zeros.
    pairs
        All parts that follow one another.

    Returns
    -------
    values, longer by the sum of ``around`` along the axis
    """
    return _engine().group_neighbours(values, axis, around, pairs)


def gather_in_group(rows: tf.Tensor, parts: int, name: str) -> tf.Tensor:
    """Return the rows of all ranks that share this one's samples, differentiable; used inside the step.

    The following computation must be equal on all these ranks. Then each already has the whole gradient, and nothing
    travels back: the sum over the ranks is ``parts`` times the gradient of the own rows. The step's mean over all ranks
    turns this into the gradient of one rank with whole samples. (Horovod's allgather has the mean as its gradient,
    which is too small by a factor of ``parts``.)

    Parameters
    ----------
    rows : (n, ...)
        This rank's rows; equal shape on all ranks.
    parts
        Number of ranks that share a sample.
    name
        Name of the exchange, unique within a step.

    Returns
    -------
    (parts n, ...)
    """
    engine, first = _engine(), part_of(parts) * rows.shape[0]
    if not tf.is_tensor(rows):
        return engine.group_gather(rows, name)  # JAX's arrays: the engine defines this gradient

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def gather_rows_of_all(own: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def back(upstream: tf.Tensor) -> tf.Tensor:
            return parts * upstream[first : first + own.shape[0]]

        return engine.group_gather(own, name), back

    return gather_rows_of_all(rows)


def average_variables(variables: Sequence[tf.Variable]) -> None:
    """Set each variable on all ranks to its mean over the ranks."""
    if _size() > 1 and variables:
        means = _engine().reduce([tf.convert_to_tensor(one) for one in variables], "mean", "average")
        for variable, mean in zip(variables, means, strict=True):
            variable.assign(mean)


def summing(values: tf.Tensor, name: str) -> Callable[[], ArrayLike]:
    """Return a call that sums a tensor over all ranks as a training step does; its first call compiles.

    Parameters
    ----------
    values : (n,)
        This rank's values; equal length and type on all ranks.
    name
        Name of the exchange in Horovod's timeline; a name used before is negotiated as in a training step.
    """
    return _engine().summing(values, name)


def time_sum(add: Callable[[], ArrayLike]) -> tuple[float, NDArray[np.generic]]:
    """Return this rank's time for a call of `summing` [s], after all ranks have synchronised, and the sum."""
    barrier()
    started_s = time.monotonic()
    total = add()
    return time.monotonic() - started_s, np.asarray(total)


def gather(row: NDArray[np.generic], name: str) -> NDArray[np.generic]:
    """Return the rows of all ranks.

    Parameters
    ----------
    row : (n,)
        This rank's row; equal length and type on all ranks.
    name
        Name of the exchange, unique among concurrent ones.

    Returns
    -------
    (size, n)
        Row r is from rank r.
    """
    return _engine().gather(row[np.newaxis], name)


def tell(text: str, name: str) -> list[str]:
    """Return the texts of all ranks in rank order, which may differ in length; no accelerator takes part.

    Parameters
    ----------
    text
        This rank's text; at most 512 bytes.
    name
        Name of the exchange, used once.
    """
    return _engine().tell(text, name)


def gather_rows(parts: Sequence[tf.Tensor], none: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Return the rows of all parts of all ranks, ordered by rank and part.

    Parameters
    ----------
    parts
        Tensors (k, m) float64 of this rank; k may vary, also between ranks.
    none : (0, m)
        Contribution of a rank without parts.
    name
        Name of the exchange, unique among concurrent ones.
    """
    own = np.concatenate([none, *(np.asarray(part) for part in parts)])
    return np.asarray(_engine().gather(own, name))
