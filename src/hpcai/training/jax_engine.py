"""The training and evaluation steps of one rank with Keras on JAX, compiled by XLA; for models written in keras.ops.

The ranks run one program over the mesh of all their devices: `jax.jit` of a `shard_map`, in which each rank computes
with its own batch and statistics, as with the other engines. The program itself averages the gradients, so that XLA can
overlap the exchange with computation between GPUs; between processors it is one message after the last gradient.

Weights and optimizer state are one array for all ranks (replicated). Per-rank values (moving statistics, random
streams, sums over micro-batches) have an additional axis, of which each rank holds one element.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import keras
import numpy as np
import tensorflow as tf
from jax.sharding import NamedSharding
from numpy.typing import NDArray

from hpcai.config.machine import Device, Precision
from hpcai.config.runs import Point
from hpcai.training.accelerators import own_place
from hpcai.training.collectives.jax import (
    AXES,
    EVERYWHERE,
    OWN,
    double_precision,
    mesh_of_ranks,
    mesh_of_replica,
    on_each_rank,
    sums_over_ranks,
)
from hpcai.training.engine import weights_digest
from hpcai.training.workload import Batch, Streams, Workload

PRODUCTS: dict[Precision, str] = {"fp32": "highest", "tf32": "tensorfloat32", "bf16": "default"}
"""How XLA multiplies float32 matrices: by default an accelerator would use TF32 for fp32. The policy of bf16 leaves
little work in float32."""
ON_GPUS = {"xla_gpu_force_conv_nhwc": True}
"""Options of XLA: by default it puts channels first for 3-D convolutions, and transposes to find slower algorithms of
cuDNN."""
Arrays = list[jax.Array]


def configure_device(device: Device, threads: int, local_rank: int) -> str:
    """Configure devices before JAX starts; return the name of this rank's device.

    TensorFlow reads and prepares the samples on the processor. XLA uses one thread per core of the rank.
    """
    # Numbered as by the driver and Slurm; CUDA reads it once, when TensorFlow lists the devices in order to hide them.
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.config.set_visible_devices([], "GPU")
    if device.kind == "cpu":
        jax.config.update("jax_platforms", "cpu")
        return device.model or "cpu"
    jax.config.update("jax_platforms", "cuda,cpu")
    place = own_place(os.environ, local_rank)
    jax.config.update("jax_cuda_visible_devices", str(place.index))
    return place.model or device.model or f"accelerator {place.name}"


class State(NamedTuple):
    """All state that a step changes."""

    trained: Arrays
    optimizer: Arrays
    own: Arrays
    """This rank's moving statistics and random streams."""
    micro_step: jax.Array
    sums: Arrays
    """Sums over micro-batches: for each gradient, and for the numbers."""
    skipped: jax.Array
    """Steps so far that gradient skipping left out."""


SPLIT = State(trained=EVERYWHERE, optimizer=EVERYWHERE, own=OWN, micro_step=OWN, sums=OWN, skipped=EVERYWHERE)
"""Which arrays all ranks share, and which are per rank."""


class Engine:
    """Model, optimizer and compiled steps; the same interface as :class:`hpcai.training.engine.Engine`."""

    def __init__(self, workload: Workload[Any], seeds: Streams) -> None:
        self._workload, self._seed = workload, seeds.dropout
        self._point: Point = workload.plan.point
        self._mesh = mesh_of_ranks(self._point)
        self._replica = mesh_of_replica(self._mesh, self._point.spatial_parts)
        self._options = ON_GPUS if workload.plan.machine.device.kind == "gpu" else None
        jax.config.update("jax_default_matmul_precision", PRODUCTS[self._point.precision])
        self.model = workload.build_model(seeds)
        self.optimizer = workload.build_optimizer()
        self.optimizer.build(self.model.trainable_variables)
        self._own_variables = self.model.non_trainable_variables
        self._rate_place = [id(one) for one in self.optimizer.variables].index(id(self.optimizer.learning_rate))
        self._rate: float | None = None
        self._state = self._first_state()
        self._train_compiled = self._compiled(self._train, (SPLIT, EVERYWHERE))
        self._accumulate_compiled = self._compiled(self._accumulate, SPLIT)
        evaluate = on_each_rank(self._evaluate, self._replica, (EVERYWHERE, OWN, OWN), EVERYWHERE)
        self._evaluate_compiled = jax.jit(evaluate, compiler_options=self._options)

    @property
    def parameters(self) -> int:
        """Number of trainable parameters."""
        return int(sum(np.prod(variable.shape) for variable in self.model.trainable_variables))

    @property
    def skipped_steps(self) -> int:
        """Steps so far that gradient skipping left out."""
        return int(np.asarray(_here(self._state.skipped)))

    def _first_state(self) -> State:
        shapes = [variable.shape for variable in self.model.trainable_variables]
        numbers = (2 if self._workload.weighted else 1,)
        sums = [np.zeros(shape, np.float32) for shape in (*shapes, numbers)] if self._point.accumulation > 1 else []
        return State(
            trained=[self._replicated(one.numpy()) for one in self.model.trainable_variables],
            optimizer=[self._replicated(one.numpy()) for one in self.optimizer.variables],
            own=[self._private(np.asarray(one.value)) for one in self._own_variables],
            micro_step=self._private(np.zeros((), np.int32)),
            sums=[self._private(one) for one in sums],
            skipped=self._replicated(np.zeros((), np.int32)),
        )

    def _replicated(self, values: NDArray[np.generic]) -> jax.Array:
        return jax.make_array_from_process_local_data(NamedSharding(self._mesh, EVERYWHERE), np.asarray(values))

    def _private(self, values: NDArray[np.generic]) -> jax.Array:
        return jax.make_array_from_process_local_data(NamedSharding(self._mesh, OWN), values[np.newaxis])

    def _compiled(self, step: Callable[..., Any], outputs: Any) -> Callable[..., Any]:  # noqa: ANN401  a tree
        """Compile each rank's step as one program of all ranks; the new state reuses the old state's memory."""
        parts = on_each_rank(step, self._mesh, (SPLIT, OWN), outputs)
        compiled: Callable[..., Any] = jax.jit(parts, donate_argnums=0, compiler_options=self._options)
        return compiled

    # ---- steps

    def train(self, batches: Sequence[Batch]) -> jax.Array:
        """Take one optimizer step on all ranks; return the mean loss of the global batch before it.

        Parameters
        ----------
        batches
            As many micro-batches as the plan accumulates.
        """
        for batch in batches[:-1]:
            self._state = self._accumulate_compiled(self._state, self._sharded(batch))
        loss: jax.Array
        self._state, loss = self._train_compiled(self._state, self._sharded(batches[-1]))
        return loss

    def put(self, batch: Batch) -> Batch:
        """Return a batch placed in device memory, which `train` uses without a copy."""
        return tuple(self._sharded(batch))

    def _sharded(self, batch: Batch) -> list[jax.Array]:
        """Return the batches of all ranks as arrays, of which this rank holds its own part."""
        sharding = NamedSharding(self._mesh, OWN)
        return [
            part if isinstance(part, jax.Array) else jax.make_array_from_process_local_data(sharding, np.asarray(part))
            for part in batch
        ]

    def evaluate(self, batch: Batch) -> jax.Array:
        """Return the rows (k, m) of one batch, whose last tensor holds the sample weights.

        Runs on this rank and those that share its samples: others may have different numbers of batches. Rows are in
        double precision.
        """
        shared, private = NamedSharding(self._replica, EVERYWHERE), NamedSharding(self._replica, OWN)
        trained = [self._of_replica(one, shared) for one in self._state.trained]
        own = [self._of_replica(one, private) for one in self._state.own]
        with double_precision():
            parts = [jax.make_array_from_process_local_data(private, np.asarray(part)) for part in batch]
            return _here(self._evaluate_compiled(trained, own, parts))

    def _of_replica(self, array: jax.Array, sharding: NamedSharding) -> jax.Array:
        """Return an array of all ranks as one of this replica's ranks, without a copy."""
        ranks = 1 if sharding.spec == EVERYWHERE else self._replica.size
        here = _here(array)
        shape = (ranks * here.shape[0], *here.shape[1:]) if here.ndim else here.shape
        return jax.make_array_from_single_device_arrays(shape, sharding, [here])

    def _evaluate(self, trained: Arrays, own: Arrays, batch: Arrays) -> jax.Array:
        with keras.StatelessScope(state_mapping=self._values(trained, [one[0] for one in own])):
            rows: jax.Array = self._workload.evaluate(self.model, tuple(batch[:-1]), batch[-1])
        return rows

    def _values(self, trained: Arrays, own: Arrays) -> list[tuple[keras.Variable, jax.Array]]:
        return [
            *zip(self.model.trainable_variables, trained, strict=True),
            *zip(self._own_variables, own, strict=True),
        ]

    def _gradients(self, state: State, batch: Arrays) -> tuple[Arrays, jax.Array, State]:
        """Return this rank's gradients of one micro-batch, its numbers, and the state after the forward pass.

        The numbers are its loss and, if the workload has weights, its weight.
        """
        own = [one[0] for one in state.own]
        seed = jnp.stack([jnp.int32(self._seed), state.micro_step[0]])

        def loss_of(trained: Arrays) -> tuple[jax.Array, Arrays]:
            with keras.StatelessScope(state_mapping=self._values(trained, own)) as scope:
                loss = self._workload.loss(self.model, tuple(batch), seed)
            return loss, [scope.get_current_value(one) for one in self._own_variables]

        (loss, after), gradients = jax.value_and_grad(loss_of, has_aux=True)(state.trained)
        numbers = [loss, self._workload.weight(tuple(batch))] if self._workload.weighted else [loss]
        state = state._replace(own=[one[jnp.newaxis] for one in after], micro_step=state.micro_step + 1)
        return gradients, jnp.stack(numbers), state

    def _accumulate(self, state: State, batch: Arrays) -> State:
        gradients, numbers, state = self._gradients(state, batch)
        return state._replace(sums=self._added(state.sums, [*gradients, numbers]))

    def _added(self, sums: Arrays, parts: Arrays) -> Arrays:
        return [total + part[jnp.newaxis] / self._point.accumulation for total, part in zip(sums, parts, strict=True)]

    def _train(self, state: State, batch: Arrays) -> tuple[State, jax.Array]:
        gradients, numbers, state = self._gradients(state, batch)
        if state.sums:
            *gradients, numbers = [one[0] for one in self._added(state.sums, [*gradients, numbers])]
            state = state._replace(sums=[jnp.zeros_like(one) for one in state.sums])
        means, numbers = self._means(gradients, numbers)
        if self._workload.weighted:
            weight = jnp.where(numbers[1] > 0, numbers[1], 1.0)  # 0 only when warming up on zeros
            means, numbers = [mean / weight for mean in means], numbers / weight
        optimizer = self.optimizer.variables
        before = [*zip(self.model.trainable_variables, state.trained, strict=True)]
        before += zip(optimizer, state.optimizer, strict=True)
        with keras.StatelessScope(state_mapping=before) as scope:
            self.optimizer.apply(means, self.model.trainable_variables)
        trained, kept = (
            [scope.get_current_value(one) for one in some] for some in (self.model.trainable_variables, optimizer)
        )
        after = state._replace(trained=trained, optimizer=kept)
        return self._unless_skipped(means, state, after), numbers[0]

    def _unless_skipped(self, means: Arrays, before: State, after: State) -> State:
        """Return the state after a step, or the one before it if the recipe skips gradients as large as these."""
        limit = self._workload.plan.benchmark.recipe.skip_gradient_norm
        if not limit:
            return after
        counts = jnp.sqrt(sum(jnp.sum(jnp.square(one)) for one in means)) <= limit
        trained, kept = (
            [jnp.where(counts, new, old) for new, old in zip(*pair, strict=True)]
            for pair in ((after.trained, before.trained), (after.optimizer, before.optimizer))
        )
        skipped = before.skipped + jnp.where(counts, 0, 1).astype(jnp.int32)
        return after._replace(trained=trained, optimizer=kept, skipped=skipped)

    def _means(self, gradients: Arrays, numbers: jax.Array) -> tuple[Arrays, jax.Array]:
        """Return gradients and numbers averaged over all ranks.

        If the plan requires it, the gradients travel in half precision, whose range the numbers may exceed.

        Where ranks share samples, this is the mean over the replicas. A rank's gradient is that of the sum of its
        replica's losses, which depends on its weights through the others' halos and features. The n losses of a replica
        are equal, so its ranks' gradients add up to n times that of the loss with whole samples.
        """
        size = self._mesh.size
        if self._point.compression == "fp16" and size > 1:
            gradients = [one.astype(jnp.float16) for one in gradients]
        *sums, total = sums_over_ranks([*gradients, numbers])
        return [one.astype(jnp.float32) / size for one in sums], total / size

    # ---- state

    def set_learning_rate(self, rate: float) -> None:
        """Use a learning rate from the next step on."""
        if rate != self._rate:
            self._state.optimizer[self._rate_place] = self._replicated(np.array(rate, np.float32))
            self._rate = rate

    def warm_up(self) -> None:
        """Compile all steps and run them once on zeros, outside the timed run; restores all state.

        All ranks must call this together, because the step exchanges gradients.
        """
        before, rate = jax.tree.map(jnp.copy, self._state), self._rate
        zeros = tuple(np.zeros(spec.shape, spec.dtype.as_numpy_dtype) for spec in self._workload.batch_spec())
        self.train([zeros] * self._point.accumulation).block_until_ready()
        zeros = tuple(np.zeros(spec.shape, spec.dtype.as_numpy_dtype) for spec in self._workload.evaluation_spec())
        weights = np.zeros(self._workload.plan.evaluation_batch, np.float32)
        self.no_rows: NDArray[np.float64] = np.asarray(self.evaluate((*zeros, weights)))[:0]
        self._state, self._rate = before, rate

    def synchronise(self) -> None:
        """Copy the weights and the optimizer state of rank 0 to all ranks."""
        shared = [*self._state.trained, *self._state.optimizer]
        first = self._over_ranks(_of_first, [self._private(np.asarray(_here(one))) for one in shared])
        count = len(self._state.trained)
        self._state = self._state._replace(trained=first[:count], optimizer=first[count:])

    def synchronise_statistics(self) -> None:
        """Set the moving statistics for evaluation on all ranks, as the workload defines: rank 0's, or their mean."""
        names = {id(one) for one in self.model.non_trainable_weights}
        places = [place for place, one in enumerate(self._own_variables) if id(one) in names]
        if not places:
            return
        combine = _mean if self._workload.moving_statistics == "mean" else _of_first
        own = list(self._state.own)
        found = self._over_ranks(combine, [own[place] for place in places])
        for place, values in zip(places, found, strict=True):
            own[place] = self._private(np.asarray(values))
        self._state = self._state._replace(own=own)

    def _over_ranks(self, combine: Callable[[Arrays], Arrays], private: Arrays) -> Arrays:
        """Combine all ranks' arrays, each with an axis of one element, on all ranks."""
        every = on_each_rank(combine, self._mesh, (OWN,), EVERYWHERE)
        return list(jax.jit(every)(private))

    def digest(self) -> str:
        """Return the SHA-256 of all weights."""
        values = dict(zip(map(id, self.model.trainable_variables), self._state.trained, strict=True))
        own = zip(map(id, self._own_variables), self._state.own, strict=True)
        values.update((key, _here(one)[0]) for key, one in own)
        return weights_digest([np.asarray(values[id(variable)]) for variable in self.model.weights])


def _here(array: jax.Array) -> jax.Array:
    """Return this rank's part of an array of all ranks."""
    part: jax.Array = array.addressable_shards[0].data
    return part


def _mean(own: Arrays) -> Arrays:
    return [one / jax.lax.psum(1, AXES) for one in sums_over_ranks([one[0] for one in own])]


def _of_first(own: Arrays) -> Arrays:
    """Return the arrays of rank 0: their sum with the others' zeros, which is exact."""
    is_first = sum(jax.lax.axis_index(axis) for axis in AXES) == 0
    return sums_over_ranks([jnp.where(is_first, one[0], jnp.zeros_like(one[0])) for one in own])
