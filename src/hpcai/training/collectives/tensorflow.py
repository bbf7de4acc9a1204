"""The engine ``tensorflow``: TensorFlow's own collectives, which need no compiler.

The operations of ``tf.raw_ops`` (``CollectiveReduceV2``, ``CollectiveGatherV2``) run between the processes of one
cluster. Ranks meet at the launcher's rendezvous (:mod:`hpcai.training.rendezvous`), where each publishes the address
of its server. ``MultiWorkerMirroredStrategy`` is created only to join the cluster: its training does not work with
Keras 3 (keras#20585).

These operations have no registered gradient; `TensorflowCollectives.group_mean` defines its own.
"""

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

import numpy as np
import tensorflow as tf
from numpy.typing import ArrayLike, NDArray
from tensorflow.python.eager import context

from hpcai.config.runs import Point
from hpcai.training.collectives.base import Ranks, Reduction, carried, rank_groups, summing_in_graph
from hpcai.training.collectives.meeting import Meeting, free_address, places_of

SILENCE_LIMIT_S = 7 * 86400.0
"""Heartbeat timeout of TensorFlow's coordination service [s]; longer than any limit of a run."""
ALL_RANKS, ON_HOSTS, OWN_GROUP = 1, 2, 3
"""Group keys: all ranks on their devices, all ranks on their processors, and those that share batch-norm statistics or
samples (plus the group number). TensorFlow refuses a group on devices of two types."""
HOST = "CPU:0"
REDUCIBLE = frozenset({tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64})


class TensorflowCollectives:
    """Exchanges with TensorFlow; implements :class:`hpcai.training.collectives.base.Collectives`.

    Every exchange has a key that is equal on all ranks: they trace and call the same operations in the same order.
    """

    def __init__(self) -> None:
        self._keys = count(1)
        self._ranks = Ranks(0, 1, 0, 1, 0, 1)
        self._group, self._group_size = 0, 1
        self._compiled: dict[tuple[object, ...], Callable[[tf.Tensor], tf.Tensor]] = {}

    def start(self, point: Point | None) -> Ranks:
        """Join the cluster of all ranks; a single rank skips this."""
        if not point or point.ranks > 1:
            self._ranks = places_of(os.environ, "tensorflow")
        groups = rank_groups(point)
        for number, group in enumerate(groups):
            if self._ranks.rank in group:
                self._group, self._group_size = OWN_GROUP + number, len(group)
        if self._ranks.size > 1:
            self._meeting = Meeting(self._ranks, os.environ, "tensorflow")
            workers = self._meeting.meet("addresses", free_address(os.environ))
            task = {"type": "worker", "index": self._ranks.rank}
            os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})
            _outlast_pauses(self._ranks.size)
            self._strategy = tf.distribute.MultiWorkerMirroredStrategy()
        return self._ranks

    def stop(self) -> None:
        """Wait for the others, outside TensorFlow: a rank that leaves takes its server down."""
        if self._ranks.size > 1:
            self._meeting.meet("end", "done")

    def reduce(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means; tensors of one type travel as one vector."""
        by_type: dict[tf.DType, list[int]] = {}
        for position, tensor in enumerate(tensors):
            by_type.setdefault(tensor.dtype, []).append(position)
        reduced: dict[int, tf.Tensor] = {}
        for number, positions in enumerate(by_type.values()):
            own = [tensors[position] for position in positions]
            joined = tf.concat([tf.reshape(one, [-1]) for one in own], axis=0)
            total = self._reduce(joined, reduction, f"{name}.{number}")
            parts = tf.split(total, [tf.size(one) for one in own])
            reduced.update(
                (position, tf.reshape(part, one.shape))
                for position, part, one in zip(positions, parts, own, strict=True)
            )
        return [reduced[position] for position in range(len(tensors))]

    def reduce_each(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means, one exchange each, without fusion."""
        return [self._reduce(one, reduction, f"{name}.{number}") for number, one in enumerate(tensors)]

    def summing(self, values: tf.Tensor, name: str) -> Callable[[], ArrayLike]:
        """Return a call of a compiled sum."""
        return summing_in_graph(self.reduce, values, name)

    def group_mean(self, values: tf.Tensor, name: str) -> tf.Tensor:
        """Return the mean over the group; its gradient is the mean of the gradients, as in Horovod."""

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def mean(own: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            def back(upstream: tf.Tensor) -> tf.Tensor:
                return self._exchange(upstream, f"{name}.gradient", self._group, self._group_size) / self._group_size

            return self._exchange(own, name, self._group, self._group_size) / self._group_size, back

        return mean(values)

    def group_exchange(self, rows: tf.Tensor, sent: Sequence[int], received: Sequence[int], name: str) -> tf.Tensor:
        """Return rows of the ranks of the group; TensorFlow sends equal numbers to all of them, so zeros travel too."""
        most = max(*sent, *received)
        parts = [tf.pad(part, _rows_after(rows, most - n)) for part, n in zip(tf.split(rows, sent), sent, strict=True)]
        operation = partial(tf.raw_ops.CollectiveAllToAllV2, ordering_token=[])
        found = self._run(operation, tf.stack(parts), name, self._group, self._group_size)
        return tf.concat([found[rank, :number] for rank, number in enumerate(received)], axis=0)

    def group_gather(self, rows: tf.Tensor, name: str) -> tf.Tensor:
        """Return the rows of the group."""
        found = self._run(_gathered, rows, name, self._group, self._group_size)
        return tf.ensure_shape(found, [self._group_size * rows.shape[0], *rows.shape[1:]])

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Copy the values of rank 0 to all ranks: their sum with the others' zeros, which is exact."""
        is_first = self._ranks.is_first
        sendable = [_sendable(tf.convert_to_tensor(variable)) for variable in variables]
        own = [one if is_first else tf.zeros_like(one) for one in sendable]
        for variable, value in zip(variables, self.reduce(own, "sum", "broadcast"), strict=True):
            variable.assign(tf.cast(value, variable.dtype))

    def gather(self, rows: NDArray[np.generic], name: str) -> NDArray[np.generic]:
        """Return the rows of all ranks in rank order; shorter contributions are padded for transfer."""
        if self._ranks.size == 1:
            return rows
        counts = self._gather(np.array([len(rows)], np.int32), f"{name}.counts")
        most = int(counts.max())
        filled = np.zeros((most, *rows.shape[1:]), rows.dtype)
        filled[: len(rows)] = rows
        every = self._gather(_exact(filled), name).reshape(self._ranks.size, most, *rows.shape[1:])
        parts = [part[:number] for part, number in zip(every, counts, strict=True)]
        return np.asarray(np.concatenate(parts).astype(rows.dtype))

    def _gather(self, own: NDArray[np.generic], name: str) -> NDArray[np.generic]:
        with tf.device(HOST):
            return np.asarray(self._run(_gathered_on_hosts, tf.constant(own), name, ON_HOSTS).numpy())

    def tell(self, text: str, name: str) -> list[str]:
        """Return the texts of all ranks, published at the rendezvous."""
        return self._meeting.meet(name, text) if self._ranks.size > 1 else [text]

    def _reduce(self, own: tf.Tensor, reduction: Reduction, name: str) -> tf.Tensor:
        if self._ranks.size == 1:
            return own
        total = self._exchange(own, name, ALL_RANKS, self._ranks.size)
        return total / self._ranks.size if reduction == "mean" else total

    def _exchange(self, own: tf.Tensor, name: str, group: int, size: int) -> tf.Tensor:
        """Return the sum over a group; inside a graph as part of it, outside compiled once per name."""
        operation = partial(tf.raw_ops.CollectiveReduceV2, merge_op="Add", final_op="Id", ordering_token=[])
        return self._run(operation, own, name, group, size)

    def _run(
        self,
        operation: Callable[..., tf.Tensor],
        own: tf.Tensor,
        name: str,
        group: int = ALL_RANKS,
        size: int | None = None,
    ) -> tf.Tensor:
        def call(values: tf.Tensor, key: int) -> tf.Tensor:
            return operation(
                input=values, group_size=size or self._ranks.size, group_key=group, instance_key=key, name=_plain(name)
            )

        if not tf.executing_eagerly():
            return call(own, next(self._keys))
        known = (name, own.dtype, tuple(own.shape), group)
        if known not in self._compiled:
            self._compiled[known] = tf.function(partial(call, key=next(self._keys)), autograph=False)
        return self._compiled[known](own)


def _gathered(*, input: tf.Tensor, **arguments: object) -> tf.Tensor:  # noqa: A002  TensorFlow's name
    """Return the rows of all ranks of a group; TensorFlow gathers fewer types than it sums."""
    found = tf.raw_ops.CollectiveGatherV2(input=carried(input), ordering_token=[], **arguments)
    return tf.bitcast(found, input.dtype)


def _gathered_on_hosts(**arguments: object) -> tf.Tensor:
    """Return the rows of all ranks, for values that come from NumPy and return to it."""
    with tf.device(HOST):
        return _gathered(**arguments)


def _outlast_pauses(ranks: int) -> None:
    """Let ranks wait for a paused one, as with Horovod: the supervisor ends hanging runs, and launchers dead ones.

    By default TensorFlow gives up on a rank that was silent for 10 s, and with it on the run. No public option changes
    this; `MultiWorkerMirroredStrategy` requests the service in the same way unless it exists already.
    """
    job = context.coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=ranks)
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=int(SILENCE_LIMIT_S * 1e3),
        coordinated_jobs=[job],
    )


def _plain(name: str) -> str:
    """Return a name that is valid for a TensorFlow operation."""
    return "".join(sign if sign.isalnum() or sign in "._-/" else "_" for sign in name) or "exchange"


def _rows_after(rows: tf.Tensor, number: int) -> list[list[int]]:
    """Return the paddings that append this many rows of zeros."""
    return [[0, number]] + [[0, 0]] * (rows.shape.rank - 1)


def _sendable(value: tf.Tensor) -> tf.Tensor:
    """Return a tensor of a type that can be summed; all integers that occur in a model fit into 64 bits."""
    return value if value.dtype in REDUCIBLE else tf.cast(value, tf.int64)


def _exact(rows: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return rows in a type that can be gathered, with equal values."""
    return rows if tf.as_dtype(rows.dtype) in REDUCIBLE else rows.astype(np.int64)


COLLECTIVES = TensorflowCollectives
