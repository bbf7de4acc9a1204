"""The collective layer: the only module that knows Horovod.

``horovod.tensorflow`` works with Keras 3; ``horovod.tensorflow.keras`` is made for Keras 2 and is not used.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.config.base import Compression
from hpcai.config.runs import Point
from hpcai.training.rendezvous import reveal_secret


@dataclass(frozen=True)
class Ranks:
    """The place of a rank among all ranks."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    node_index: int
    nodes: int

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, the one that writes the logs."""
        return self.rank == 0


_group: list[hvd.ProcessSet] = []
"""The group of ranks that share batch-norm statistics, if there are groups."""


def start(point: Point | None = None) -> Ranks:
    """Join the other ranks; must be called once, before anything else of this module.

    Parameters
    ----------
    point
        Its number of ranks, batch-norm groups, fusion threshold and cycle time are used; none of them if not given.
    """
    ranks, group = (point.ranks, point.batchnorm_group) if point else (1, 1)
    if point:
        _set_options(point)
    # Every rank has to name all groups, in one order; the group of all ranks exists already.
    groups = (
        [hvd.ProcessSet(range(first, first + group)) for first in range(0, ranks, group)] if 1 < group < ranks else []
    )
    reveal_secret(os.environ)
    hvd.init(process_sets=groups or None)
    _group.clear()
    if group > 1:
        _group.append(groups[hvd.rank() // group] if groups else hvd.global_process_set)
    return Ranks(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())


def _set_options(point: Point) -> None:
    """Tell Horovod, which reads its environment when it starts, what the run table says."""
    if point.fusion_bytes is not None:
        os.environ["HOROVOD_FUSION_THRESHOLD"] = str(int(point.fusion_bytes))
    if point.cycle_time_s is not None:
        os.environ["HOROVOD_CYCLE_TIME"] = f"{point.cycle_time_s * 1e3:g}"  # milliseconds


def stop() -> None:
    """Leave the other ranks."""
    hvd.shutdown()


def barrier() -> None:
    """Return when all ranks are here."""
    hvd.allreduce(tf.zeros(1), op=hvd.Sum, name="barrier")


def broadcast_variables(variables: Sequence[tf.Variable]) -> None:
    """Give all ranks the values that the variables have on rank 0."""
    if hvd.size() > 1:
        hvd.broadcast_variables(list(variables), root_rank=0)


def mean_of_gradients(
    gradients: Sequence[tf.Tensor], numbers: tf.Tensor, compression: Compression, *, grouped: bool
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return the gradients, and numbers such as the loss, averaged over all ranks; used inside the compiled step.

    A single rank has nothing to exchange (as in Horovod's own DistributedGradientTape).

    Parameters
    ----------
    gradients
        This rank's gradients; each rank's batch has the same number of samples.
    numbers : (k,)
        This rank's loss and what else is averaged with it, float32. Every rank sees the same means, and so takes the
        same decisions.
    compression
        ``fp16``: gradients travel in half precision; the numbers keep all their bits, because they may exceed that
        range.
    grouped
        All in one message and in one order, whatever the fusion threshold; else one by one, as Horovod fuses them.
    """
    if hvd.size() == 1:
        return list(gradients), numbers
    if grouped and compression == "none":
        *means, mean_numbers = hvd.grouped_allreduce([*gradients, numbers], op=hvd.Average, name="gradients")
        return means, mean_numbers
    sent = [tf.cast(gradient, tf.float16) for gradient in gradients] if compression == "fp16" else list(gradients)
    if grouped:
        # A message has one type (Horovod fuses no others), and a second one costs a round trip.
        own = in_own_slot(numbers, hvd.rank(), hvd.size())
        # No mean: the division would round the slots.
        *sums, slots = hvd.grouped_allreduce([*sent, own], op=hvd.Sum, name="gradients")
        return [total / hvd.size() for total in _like(gradients, sums)], mean_of_slots(slots)
    means = [hvd.allreduce(one, op=hvd.Average, name=f"gradient.{number}") for number, one in enumerate(sent)]
    return _like(gradients, means), hvd.allreduce(numbers, op=hvd.Average, name="numbers")


def _like(gradients: Sequence[tf.Tensor], exchanged: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return what was exchanged in the precision of the gradients."""
    return [tf.cast(one, gradient.dtype) for one, gradient in zip(exchanged, gradients, strict=True)]


def in_own_slot(numbers: tf.Tensor, rank: int, size: int) -> tf.Tensor:
    """Return what a rank adds to a sum in half precision that tells the numbers of all ranks to the last bit.

    Each rank has a slot of its own, to which the others add zeros. There the bytes of its numbers travel, of which
    each, 0 to 255, is exact in half precision: 8 bytes for each rank and number.

    Parameters
    ----------
    numbers : (k,)
        float32, whatever their values.
    rank, size
        Place of this rank among all.

    Returns
    -------
    (size, k, 4)
        float16.
    """
    digits = tf.cast(tf.bitcast(numbers, tf.uint8), tf.float16)
    return tf.pad(digits[tf.newaxis], [[rank, size - rank - 1], [0, 0], [0, 0]])


def mean_of_slots(slots: tf.Tensor) -> tf.Tensor:
    """Return the mean numbers (k,) over all ranks from the sum of what each gave by `in_own_slot`."""
    numbers = tf.bitcast(tf.cast(slots, tf.uint8), tf.float32)
    # In double precision: the order in which a processor adds makes no difference between ranks.
    return tf.cast(tf.reduce_mean(tf.cast(numbers, tf.float64), axis=0), tf.float32)


def mean_over_group(values: tf.Tensor, name: str) -> tf.Tensor:
    """Return the mean over the ranks that share batch-norm statistics, differentiable; used inside the step.

    Parameters
    ----------
    values
        This rank's values; same shape on all ranks.
    name
        Name of the exchange, unique among those of a step.
    """
    if hvd.size() == 1 or not _group:
        return values
    return hvd.allreduce(values, op=hvd.Average, name=f"group.{name}", process_set=_group[0])


def average_variables(variables: Sequence[tf.Variable]) -> None:
    """Give all ranks the mean that each variable has over the ranks."""
    if hvd.size() > 1 and variables:
        means = hvd.grouped_allreduce([tf.convert_to_tensor(one) for one in variables], op=hvd.Average, name="average")
        for variable, mean in zip(variables, means, strict=True):
            variable.assign(mean)


@cache
def _sum_named(name: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return a compiled sum over all ranks: outside of a graph Horovod calls every tensor the same."""
    compiled: Callable[[tf.Tensor], tf.Tensor] = tf.function(
        lambda values: hvd.allreduce(values, op=hvd.Sum, name=name)
    )
    return compiled


def time_sum(values: tf.Tensor, name: str) -> tuple[float, tf.Tensor]:
    """Return how long the sum of a tensor over all ranks took on this rank [s], and the sum.

    All ranks come together first. On an accelerator the sum counts as there when a number of it has arrived here. The
    first sum of a name takes longer: it is compiled.

    Parameters
    ----------
    values : (n,)
        This rank's values; same length and type on all ranks.
    name
        Name of the exchange, as Horovod's timeline shows it; one that was used before is negotiated as in a training
        step.
    """
    add = _sum_named(name)
    barrier()
    started_s = time.monotonic()
    total = add(values)
    if "GPU" in total.device:
        total[0].numpy()
    return time.monotonic() - started_s, total


def gather(row: NDArray[np.generic], name: str) -> NDArray[np.generic]:
    """Return the rows of all ranks.

    Parameters
    ----------
    row : (n,)
        This rank's row; same length and type on all ranks.
    name
        Name of the exchange, unique among those under way.

    Returns
    -------
    (size, n)
        Row r is from rank r.
    """
    return np.asarray(hvd.allgather(tf.constant(row[np.newaxis]), name=name).numpy())


def gather_rows(parts: Sequence[tf.Tensor], none: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Return the rows of all parts of all ranks, in the order of ranks and parts.

    Parameters
    ----------
    parts
        Tensors (k, m) float64 of this rank; k may differ, also between ranks.
    none : (0, m)
        What a rank without parts contributes.
    name
        Name of the exchange, unique among those under way.
    """
    own = np.concatenate([none, *(part.numpy() for part in parts)])
    return np.asarray(hvd.allgather(tf.constant(own), name=name).numpy())
