"""The engine ``horovod``: the only module that uses Horovod, apart from its launcher.

``horovod.tensorflow`` works with Keras 3; ``horovod.tensorflow.keras`` needs Keras 2 and is not used.
"""

import os
from collections.abc import Callable, Sequence

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike, NDArray

from hpcai.config.runs import Point
from hpcai.training.collectives.base import Ranks, Reduction, carried, rank_groups, summing_in_graph
from hpcai.training.rendezvous import reveal_secret

TEXT_BYTES = 512
"""Length of the texts of `HorovodCollectives.tell` [byte]."""
_OPERATIONS = {"sum": hvd.Sum, "mean": hvd.Average}


class HorovodCollectives:
    """Exchanges with Horovod; implements :class:`hpcai.training.collectives.base.Collectives`."""

    def __init__(self) -> None:
        self._group: hvd.ProcessSet | None = None

    def start(self, point: Point | None) -> Ranks:
        """Join the other ranks over Gloo, MPI or NCCL, depending on Horovod's build and settings."""
        if point:
            _set_options(point)
        # Every rank must register all groups in the same order; the group of all ranks exists already.
        groups = rank_groups(point)
        own_sets = [hvd.ProcessSet(group) for group in groups] if len(groups) > 1 else []
        reveal_secret(os.environ)
        hvd.init(process_sets=own_sets or None)
        own = next((number for number, group in enumerate(groups) if hvd.rank() in group), None)
        if own is not None:
            self._group = own_sets[own] if own_sets else hvd.global_process_set
        return Ranks(hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())

    def stop(self) -> None:
        """Leave the other ranks."""
        hvd.shutdown()

    def reduce(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means in one message of fixed order, regardless of the fusion threshold."""
        if len(tensors) == 1:
            return [hvd.allreduce(tensors[0], op=_OPERATIONS[reduction], name=name)]
        return list(hvd.grouped_allreduce(list(tensors), op=_OPERATIONS[reduction], name=name))

    def reduce_each(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means, fused according to Horovod's threshold and cycle time."""
        operation = _OPERATIONS[reduction]
        return [hvd.allreduce(one, op=operation, name=f"{name}.{number}") for number, one in enumerate(tensors)]

    def summing(self, values: tf.Tensor, name: str) -> Callable[[], ArrayLike]:
        """Return a call of a compiled sum."""
        return summing_in_graph(self.reduce, values, name)

    def group_mean(self, values: tf.Tensor, name: str) -> tf.Tensor:
        """Return the mean over the group's process set; its gradient is the mean of the gradients."""
        return hvd.allreduce(values, op=hvd.Average, name=name, process_set=self._group)

    def group_exchange(self, rows: tf.Tensor, sent: Sequence[int], received: Sequence[int], name: str) -> tf.Tensor:
        """Return rows of the ranks of the group's process set; only the rows sent travel."""
        splits = tf.constant(sent, tf.int32)
        found, _ = hvd.alltoall(carried(rows), splits=splits, name=name, process_set=self._group)
        return tf.ensure_shape(tf.bitcast(found, rows.dtype), [sum(received), *rows.shape[1:]])

    def group_gather(self, rows: tf.Tensor, name: str) -> tf.Tensor:
        """Return the rows of the group's process set."""
        found = hvd.allgather(carried(rows), name=name, process_set=self._group)
        return tf.bitcast(found, rows.dtype)

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Copy the values of rank 0 to all ranks."""
        hvd.broadcast_variables(list(variables), root_rank=0)

    def gather(self, rows: NDArray[np.generic], name: str) -> NDArray[np.generic]:
        """Return the rows of all ranks in rank order."""
        return np.asarray(hvd.allgather(tf.constant(rows), name=name).numpy())

    def tell(self, text: str, name: str) -> list[str]:
        """Return the texts of all ranks; they travel in processor memory, so without NCCL."""
        row = np.frombuffer(text.encode().ljust(TEXT_BYTES), np.uint8)
        with tf.device("CPU:0"):
            rows = self.gather(row[np.newaxis], name)
        return [bytes(told).decode().rstrip() for told in rows]


def _set_options(point: Point) -> None:
    """Set Horovod's environment variables, which it reads at start, from the run table."""
    if point.fusion_bytes is not None:
        os.environ["HOROVOD_FUSION_THRESHOLD"] = str(int(point.fusion_bytes))
    if point.cycle_time_s is not None:
        os.environ["HOROVOD_CYCLE_TIME"] = f"{point.cycle_time_s * 1e3:g}"  # milliseconds


COLLECTIVES = HorovodCollectives
