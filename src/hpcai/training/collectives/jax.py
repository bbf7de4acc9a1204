"""The engine ``jax``: the ranks are processes of one JAX program (``jax.distributed``), with one device each.

The training step does its own exchange (:mod:`hpcai.training.jax_engine`). The loop's other exchanges, such as
evaluation rows, travel here as bytes and are summed by NumPy, so that no type loses bits: JAX has no double precision
by default.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import ArrayLike, NDArray

from hpcai.config.runs import Point
from hpcai.training.collectives.base import Ranks, Reduction, rank_groups
from hpcai.training.collectives.meeting import MEETING_LIMIT_S, Meeting, free_address, places_of

GROUP, MEMBER = AXES = ("group", "member")
"""Axes of the mesh of all ranks' devices: groups that share batch-norm statistics or samples, and ranks within one."""
EVERYWHERE, OWN = PartitionSpec(), PartitionSpec(AXES)
"""One array for all ranks, and one whose first axis has an element for each rank."""


def mesh_of_ranks(point: Point | None) -> Mesh:
    """Return the devices of all ranks in rank order, one each; call it after the ranks have joined."""
    devices = sorted(jax.devices(), key=lambda device: device.process_index)
    members = len(next(iter(rank_groups(point)), [None]))
    return Mesh(np.array(devices).reshape(-1, members), AXES)


def mesh_of_replica(mesh: Mesh, parts: int) -> Mesh:
    """Return the devices of the ranks that share this one's samples, from those of all ranks; its own if none does."""
    replicas = mesh.devices.reshape(-1, 1, parts)
    own = jax.process_index()
    return Mesh(next(one for one in replicas if any(device.process_index == own for device in one.flat)), AXES)


def on_each_rank(step: Callable[..., Any], mesh: Mesh, arguments: Any, results: Any) -> Callable[..., Any]:  # noqa: ANN401
    """Return a function of all ranks' arrays that runs a step on each rank's part of them.

    Parameters
    ----------
    arguments, results
        Trees of partition specifications, as for JAX's ``shard_map``.
    """
    specs = {"mesh": mesh, "in_specs": arguments, "out_specs": results}
    if hasattr(jax, "shard_map"):  # from 0.6 on; 0.11 lacks the experimental one
        newer: Callable[..., Any] = jax.shard_map(step, **specs, check_vma=False)
        return newer
    from jax.experimental.shard_map import shard_map

    older: Callable[..., Any] = shard_map(step, **specs, check_rep=False)
    return older


def sums_over_ranks(arrays: Sequence[jax.Array]) -> list[jax.Array]:
    """Return sums over all ranks, for use inside :func:`on_each_rank`.

    XLA joins messages between GPUs. Between processors it sends one for each array, and each waits for the ranks to
    meet: arrays of one type travel as one vector there.
    """
    if jax.lax.psum(1, AXES) == 1:
        return list(arrays)
    if jax.default_backend() != "cpu":
        return list(jax.lax.psum(list(arrays), AXES))
    found: dict[int, jax.Array] = {}
    for kind in sorted({one.dtype.name for one in arrays}):
        own = {place: one for place, one in enumerate(arrays) if one.dtype.name == kind}
        joined, split = ravel_pytree(own)
        found |= split(jax.lax.psum(joined, AXES))
    return [found[place] for place in range(len(arrays))]


def double_precision() -> AbstractContextManager[Any]:
    """Return a context in which JAX computes in double precision where it is asked to."""
    if hasattr(jax, "enable_x64"):
        newer: AbstractContextManager[Any] = jax.enable_x64(True)
        return newer
    from jax.experimental import enable_x64

    older: AbstractContextManager[Any] = enable_x64()
    return older


class JaxCollectives:
    """Exchanges with JAX; implements :class:`hpcai.training.collectives.base.Collectives`."""

    def __init__(self) -> None:
        self._ranks = Ranks(0, 1, 0, 1, 0, 1)
        self._point: Point | None = None

    def start(self, point: Point | None) -> Ranks:
        """Join the other ranks at the address that rank 0 publishes at the rendezvous; a single rank skips this."""
        self._point = point
        if not point or point.ranks > 1:
            self._ranks = places_of(os.environ, "jax")
        if self._ranks.size > 1:
            self._join()
        return self._ranks

    @cached_property
    def _mesh(self) -> Mesh:
        """The devices of all ranks, which JAX takes at the first exchange: the ranks can tell theirs before."""
        return mesh_of_ranks(self._point)

    def _join(self) -> None:
        self._meeting = Meeting(self._ranks, os.environ, "jax")
        first, *_ = self._meeting.meet("addresses", free_address(os.environ))
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        # JAX would ask Slurm for this rank's device: it was chosen before, and Snakemake hides Slurm's local index.
        jax.distributed.initialize(
            first,
            self._ranks.size,
            self._ranks.rank,
            cluster_detection_method="deactivate",
            initialization_timeout=round(MEETING_LIMIT_S),
        )

    def stop(self) -> None:
        """Leave the other ranks."""
        if self._ranks.size > 1:
            jax.distributed.shutdown()

    def reduce(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means, added up in rank order."""
        return [self._reduce(np.asarray(one), reduction, name) for one in tensors]

    def reduce_each(self, tensors: Sequence[tf.Tensor], reduction: Reduction, name: str) -> list[tf.Tensor]:
        """Return sums or means without fusion."""
        return self.reduce(tensors, reduction, name)

    def _reduce(self, own: NDArray[np.generic], reduction: Reduction, name: str) -> tf.Tensor:
        every = self.gather(own[np.newaxis], name)
        total = every.sum(axis=0, dtype=own.dtype)
        return tf.constant(total / self._ranks.size if reduction == "mean" else total, own.dtype)

    def summing(self, values: tf.Tensor, name: str) -> Callable[[], ArrayLike]:  # noqa: ARG002  JAX needs no names
        """Return a call of a compiled sum of what lies on the ranks' devices already, as gradients do."""
        every = self._of_each(np.asarray(values))
        add = jax.jit(on_each_rank(lambda part: jax.lax.psum(part[0], AXES), self._mesh, OWN, EVERYWHERE))
        return lambda: add(every).block_until_ready()

    def group_mean(self, values: jax.Array, name: str) -> jax.Array:  # noqa: ARG002  JAX needs no names
        """Return the mean over the ranks that share batch-norm statistics; its gradient is the mean of the gradients.

        For use inside the step's ``shard_map``.
        """
        mean: jax.Array = jax.lax.pmean(values, MEMBER)
        return mean

    def group_neighbours(
        self, values: jax.Array, axis: int, around: tuple[int, int], pairs: Sequence[tuple[int, int]]
    ) -> jax.Array:
        """Return this rank's part between those of its neighbours; JAX derives the gradient.

        For use inside the step's ``shard_map``. What no rank sends is zero.
        """
        before, behind = around
        length, backwards = values.shape[axis], [(later, earlier) for earlier, later in pairs]
        joined = [values]
        if before:
            last = jax.lax.slice_in_dim(values, length - before, length, axis=axis)
            joined.insert(0, jax.lax.ppermute(last, MEMBER, pairs))
        if behind:
            first = jax.lax.slice_in_dim(values, 0, behind, axis=axis)
            joined.append(jax.lax.ppermute(first, MEMBER, backwards))
        return jnp.concatenate(joined, axis=axis)

    def group_gather(self, rows: jax.Array, name: str) -> jax.Array:  # noqa: ARG002  JAX needs no names
        """Return the rows of the group; the gradient is that of :func:`hpcai.training.collective.gather_in_group`.

        For use inside the step's ``shard_map``.
        """
        return _gathered(rows)

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Copy the values of rank 0 to all ranks."""
        for variable in variables:
            variable.assign(self.gather(variable.numpy()[np.newaxis], "broadcast")[0])

    def gather(self, rows: NDArray[np.generic], name: str) -> NDArray[np.generic]:  # noqa: ARG002
        """Return the rows of all ranks in rank order; shorter contributions are padded for transfer."""
        if self._ranks.size == 1:
            return rows
        counts = self._gather_bytes(np.array([len(rows)], np.int64)).view(np.int64)[:, 0]
        filled = np.zeros((int(counts.max()), *rows.shape[1:]), rows.dtype)
        filled[: len(rows)] = rows
        every = self._gather_bytes(filled).view(rows.dtype).reshape(self._ranks.size, *filled.shape)
        return np.concatenate([part[:number] for part, number in zip(every, counts, strict=True)])

    def tell(self, text: str, name: str) -> list[str]:
        """Return the texts of all ranks, published at the rendezvous."""
        return self._meeting.meet(name, text) if self._ranks.size > 1 else [text]

    def _gather_bytes(self, own: NDArray[np.generic]) -> NDArray[np.uint8]:
        """Return the bytes of all ranks' arrays, (ranks, bytes)."""
        every = self._of_each(np.frombuffer(own.tobytes(), np.uint8))
        return np.array(jax.jit(_same, out_shardings=NamedSharding(self._mesh, EVERYWHERE))(every))

    def _of_each(self, own: NDArray[np.generic]) -> jax.Array:
        """Return an array of all ranks' parts, of which this rank gives its own."""
        return jax.make_array_from_process_local_data(NamedSharding(self._mesh, OWN), own[np.newaxis])


def _same(values: jax.Array) -> jax.Array:
    return values


@jax.custom_vjp  # type: ignore[untyped-decorator]
def _gathered(rows: jax.Array) -> jax.Array:
    every: jax.Array = jax.lax.all_gather(rows, MEMBER, tiled=True)
    return every


def _gathered_and_nothing(rows: jax.Array) -> tuple[jax.Array, None]:
    return _gathered(rows), None


def _gradient_of_gathered(_: None, upstream: jax.Array) -> tuple[jax.Array]:
    """Return what the sum over the group would be (JAX's own gradient): the ranks' upstream gradients are equal."""
    parts = jax.lax.psum(1, MEMBER)
    own = upstream.shape[0] // parts
    return (parts * jax.lax.dynamic_slice_in_dim(upstream, jax.lax.axis_index(MEMBER) * own, own),)


_gathered.defvjp(_gathered_and_nothing, _gradient_of_gathered)


COLLECTIVES = JaxCollectives
