"""The collective layer: the only module that knows Horovod.

``horovod.tensorflow`` works with Keras 3; ``horovod.tensorflow.keras`` is made for Keras 2 and is not used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.config.runs import Compression


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


def start() -> Ranks:
    """Join the other ranks; must be called once, before anything else of this module."""
    hvd.init()
    return Ranks(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())


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
    gradients: Sequence[tf.Tensor], loss: tf.Tensor, compression: Compression
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Return the gradients and the loss averaged over all ranks; used inside the compiled step.

    One group is reduced at once and in one order, so that every rank gets the same bits. A single rank has nothing
    to exchange (as in Horovod's own DistributedGradientTape).

    Parameters
    ----------
    gradients
        This rank's gradients; each rank's batch has the same number of samples.
    loss
        This rank's loss, a float32 scalar. Every rank sees the same mean, and so takes the same decisions.
    compression
        ``fp16``: gradients travel in half precision; the loss never does, because it may exceed that range.
    """
    if hvd.size() == 1:
        return list(gradients), loss
    if compression == "none":
        *means, mean_loss = hvd.grouped_allreduce([*gradients, loss], op=hvd.Average, name="gradients")
        return means, mean_loss
    halves = [tf.cast(gradient, tf.float16) for gradient in gradients]
    means = hvd.grouped_allreduce(halves, op=hvd.Average, name="gradients")
    mean_loss = hvd.allreduce(loss, op=hvd.Average, name="loss")
    return [tf.cast(mean, gradient.dtype) for mean, gradient in zip(means, gradients, strict=True)], mean_loss


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


def sum_over_ranks(parts: Sequence[tf.Tensor], zero: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    """Return the float64 sum of the parts of all ranks; ranks may have different numbers of parts, also none."""
    own = np.sum([zero, *(part.numpy() for part in parts)], axis=0)
    return np.asarray(gather(own, name).sum(axis=0))
