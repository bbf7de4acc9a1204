"""Interface of every engine: the primitives used by :mod:`hpcai.training.collective`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike, NDArray

from hpcai.config.runs import Point

Reduction = Literal["sum", "mean"]


@dataclass(frozen=True)
class Ranks:
    """Indices of a rank among all ranks, on its node and among nodes."""

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


def rank_groups(point: Point | None) -> list[range]:
    """Return the ranks of each group that shares batch-norm statistics or samples; none if nothing is shared.

    No configuration has groups of both kinds (hpcai.config.load).
    """
    size = 1 if point is None else max(point.batchnorm_group, point.spatial_parts)
    return [range(first, first + size) for first in range(0, point.ranks, size)] if point and size > 1 else []


class Collectives(Protocol):
    """The primitives of an engine.

    All ranks call them in the same order with tensors of equal shape and type. Names are unique among concurrent
    exchanges.
    """

    def start(self, point: Point | None) -> Ranks:
        """Join the other ranks."""

    def stop(self) -> None:
        """Leave the other ranks."""

    def reduce(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means over all ranks; all tensors travel in one message."""

    def reduce_each(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means over all ranks; the engine decides how tensors are fused."""

    def summing(self, values: tf.Tensor, name: str) -> Callable[[], ArrayLike]:
        """Return a call that sums a tensor over all ranks as a training step does; it returns when the sum is there."""

    def group_mean(self, values: tf.Tensor, name: str) -> tf.Tensor:
        """Return the mean over the ranks that share batch-norm statistics, differentiable."""

    def group_exchange(self, rows: tf.Tensor, sent: Sequence[int], received: Sequence[int], name: str) -> tf.Tensor:
        """Send ``sent[r]`` rows to rank r of the own group; return the ``received[r]`` rows of each, in rank order.

        Not with ``jax``, whose ranks run one program: no shape depends on the rank. It has ``group_neighbours``.
        """

    def group_neighbours(
        self, values: tf.Tensor, axis: int, around: tuple[int, int], pairs: Sequence[tuple[int, int]]
    ) -> tf.Tensor:
        """Return values behind those of the previous rank of the group and before the next's.

        Only with ``jax``; differentiable. Who has no such neighbour gets zeros.
        """

    def group_gather(self, rows: tf.Tensor, name: str) -> tf.Tensor:
        """Return the rows of all ranks of the own group in rank order; all have equally many."""

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Copy the values of rank 0 to all ranks."""

    def gather(self, rows: NDArray[np.generic], name: str) -> NDArray[np.generic]:
        """Return the rows of all ranks in rank order; ranks may have different numbers of rows."""

    def tell(self, text: str, name: str) -> list[str]:
        """Return the texts of all ranks in rank order; no accelerator takes part, nor is one needed."""


def carried(rows: tf.Tensor) -> tf.Tensor:
    """Return rows in a type that both engines of TensorFlow carry; ``tf.bitcast`` restores theirs.

    Horovod's operations and ``CollectiveGatherV2`` refuse bfloat16, the latter 16-bit integers, too. Half precision of
    the same bits is for transport alone: sums of it are wrong.
    """
    return tf.bitcast(rows, tf.float16) if rows.dtype == tf.bfloat16 else rows


Reduce = Callable[[Sequence[tf.Tensor], Reduction, str], list[tf.Tensor]]
"""`Collectives.reduce` of an engine."""


def summing_in_graph(reduce: Reduce, values: tf.Tensor, name: str) -> Callable[[], ArrayLike]:
    """Return `Collectives.summing` of an engine whose training step is a graph of TensorFlow.

    The sum is compiled: outside a graph Horovod gives every tensor the same name.
    """
    add = tf.function(lambda given: reduce([given], "sum", name)[0])

    def run() -> tf.Tensor:
        total = add(values)
        if "GPU" in total.device:
            total[0].numpy()  # complete when one of its numbers has reached the host
        return total

    return run
