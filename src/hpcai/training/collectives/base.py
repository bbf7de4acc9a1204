"""What every engine offers: the primitives on which :mod:`hpcai.training.collective` stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.config.runs import Point

Reduction = Literal["sum", "mean"]


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


def rank_groups(point: Point | None) -> list[range]:
    """Return the ranks of each group that shares batch-norm statistics or samples; none where nothing is shared.

    A point has no groups of both kinds (hpcai.config.load).
    """
    size = 1 if point is None else max(point.batchnorm_group, point.spatial_parts)
    return [range(first, first + size) for first in range(0, point.ranks, size)] if point and size > 1 else []


class Collectives(Protocol):
    """The primitives of an engine.

    All ranks call them in the same order with tensors of the same shape and type. Names are unique among the
    exchanges under way.
    """

    def start(self, point: Point | None) -> Ranks:
        """Join the other ranks."""

    def stop(self) -> None:
        """Leave them."""

    def reduce(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means over all ranks; all tensors travel together."""

    def reduce_each(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means over all ranks; each tensor travels as the engine fuses it."""

    def group_mean(self, values: tf.Tensor, name: str) -> tf.Tensor:
        """Return the mean over the ranks that share batch-norm statistics, differentiable."""

    def group_exchange(self, rows: tf.Tensor, sent: Sequence[int], received: Sequence[int], name: str) -> tf.Tensor:
        """Send ``sent[r]`` rows to rank r of the own group; return the ``received[r]`` rows of each, in their order."""

    def group_gather(self, rows: tf.Tensor, name: str) -> tf.Tensor:
        """Return the rows of all ranks of the own group in their order; each has as many."""

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Give all ranks the values of rank 0."""

    def gather(self, rows: NDArray[np.generic], name: str) -> NDArray[np.generic]:
        """Return the rows of all ranks in their order; ranks may have different numbers of rows."""
