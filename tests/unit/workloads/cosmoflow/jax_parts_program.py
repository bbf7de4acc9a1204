"""Steps of ranks that share samples with JAX, as devices of this process: `jax_parts_program.py FILE`.

Writes to FILE (.npz) gradients in double precision, layer by layer, of whole and of shared samples; planes with their
halos; and the bytes that a step sends.
"""

import os
import sys

RANKS = 8
os.environ.update(KERAS_BACKEND="jax", JAX_ENABLE_X64="1", TF_CPP_MIN_LOG_LEVEL="2", JAX_PLATFORMS="cpu")
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={RANKS}"

from collections.abc import Callable, Iterable, Iterator  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from typing import Any  # noqa: E402
from unittest import mock  # noqa: E402

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh  # noqa: E402
from unit.workloads.cosmoflow.parts import EDGE, exact_model, parts_of, workload  # noqa: E402
from unit.workloads.cosmoflow.test_spatial import voxels  # noqa: E402

from hpcai.training import collective  # noqa: E402
from hpcai.training.collectives.base import Ranks  # noqa: E402
from hpcai.training.collectives.jax import AXES, OWN, JaxCollectives, on_each_rank  # noqa: E402
from hpcai.workloads.cosmoflow.settings import PartGrid  # noqa: E402
from hpcai.workloads.cosmoflow.spatial import with_halos  # noqa: E402

CASES = ((2, 3, 3), (4, 3, 2), (4, 2, 2), (4, 3, 3), (8, 2, 2))
"""Parts, kernel and convolutions; the last two are cut along rows, too."""
WRONG = (4, 3, 3)
GRIDS = ((4, 1), (2, 2), (4, 2))
Step = Callable[..., Any]


def split(values: np.ndarray, replicas: int, grid: PartGrid) -> np.ndarray:
    """Return (ranks, batch / replicas, depth, rows, ...) of whole cubes (batch, ...)."""
    return np.stack([part for each in np.split(values, replicas) for part in parts_of(each, grid)])


def on_ranks(step: Step, replicas: int, parts: int) -> Step:
    """Return a function of arrays of all ranks that runs a step on each, and returns all their results."""
    mesh = Mesh(np.array(jax.devices()[: replicas * parts]).reshape(replicas, parts), AXES)

    def one(*arguments: jax.Array) -> Any:
        return jax.tree.map(lambda value: value[jnp.newaxis], step(*(value[0] for value in arguments)))

    return on_each_rank(one, mesh, OWN, OWN)


def step_of(replicas: int, parts: int, kernel: int, conv_layers: int) -> tuple[Step, list[np.ndarray]]:
    """Return a step of all ranks from counts and targets to each rank's gradients, and its arguments."""
    task = workload(parts, kernel=kernel, conv_layers=conv_layers, dropout=0.5)
    model = exact_model(task)
    trained = [one.value for one in model.trainable_variables]
    fixed = [(one, one.value) for one in model.non_trainable_variables]

    def loss_of(values: list[jax.Array], counts: jax.Array, targets: jax.Array) -> jax.Array:
        with keras.StatelessScope(state_mapping=[*zip(model.trainable_variables, values, strict=True), *fixed]):
            return jnp.mean(jnp.square(model(counts, training=True) - targets))

    counts = np.random.default_rng(3).poisson(3, (4, EDGE, EDGE, EDGE, 4)).astype(np.int16)
    targets = np.random.default_rng(4).uniform(-1, 1, (replicas, 4 // replicas, 4))
    step = on_ranks(lambda *batch: jax.grad(loss_of)(trained, *batch), replicas, parts)
    return step, [split(counts, replicas, task.benchmark.part_grid(parts)), np.repeat(targets, parts, axis=0)]


def gradients(*sizes: int) -> list[np.ndarray]:
    """Return a step's gradients as the engine averages them, layer by layer."""
    step, arguments = step_of(*sizes)
    return [np.asarray(each).mean(axis=0) for each in jax.jit(step)(*arguments)]


def halos(kernel: int, grid: PartGrid) -> np.ndarray:
    """Return what each part reads of cubes with one voxel each."""
    read = on_ranks(lambda own: with_halos(own, kernel, grid, "x"), 1, grid.parts)
    return np.asarray(read(split(voxels(), 1, grid)))


def sent_bytes(parts: int, kernel: int, conv_layers: int) -> float:
    """Return what the rank that sends most sends for one sample, in double precision."""
    step, arguments = step_of(1, parts, kernel, conv_layers)
    sent = np.zeros(parts)
    for equation in equations(jax.make_jaxpr(step)(*arguments).jaxpr):
        size = sum(one.aval.size * one.aval.dtype.itemsize for one in equation.invars)
        if equation.primitive.name == "ppermute":
            for source, _ in equation.params["perm"]:
                sent[source] += size
        elif equation.primitive.name in {"all_gather", "all_to_all", "reduce_scatter"}:
            sent += size * (parts - 1)
    return float(sent.max()) / arguments[0].shape[1]


def equations(program: Any) -> Iterator[Any]:
    """Return all equations of a program, those of its functions included."""
    for equation in program.eqns:
        yield equation
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from equations(inner)


@contextmanager
def halved(name: str) -> Iterator[None]:
    """Make the gradient of an exchange half of what it is."""
    exchange = getattr(JaxCollectives, name)

    def wrong(self: JaxCollectives, values: jax.Array, *others: Any) -> jax.Array:
        return exchange(self, values / 2 + jax.lax.stop_gradient(values / 2), *others)

    with mock.patch.object(JaxCollectives, name, wrong):
        yield


def main() -> None:
    collective._joined[:] = [(JaxCollectives(), Ranks(0, RANKS, 0, RANKS, 0, 1))]
    found: dict[str, Any] = {}

    def keep(name: str, arrays: Iterable[np.ndarray]) -> None:
        found.update({f"{name}/{number}": one for number, one in enumerate(arrays)})

    for parts, *sizes in CASES:
        case, replicas = f"{parts}_{'_'.join(map(str, sizes))}", RANKS // parts
        keep(f"{case}/whole", gradients(replicas, 1, *sizes))
        keep(f"{case}/parts", gradients(replicas, parts, *sizes))
        found[f"{case}/bytes"] = sent_bytes(parts, *sizes)
    for name in ("group_gather", "group_neighbours"):
        with halved(name):
            keep(name, gradients(RANKS // WRONG[0], *WRONG))
    for kernel in (2, 3):
        for grid in GRIDS:
            found[f"halos/{kernel}/{grid}"] = halos(kernel, PartGrid(*grid))
    np.savez(sys.argv[1], **found)


if __name__ == "__main__":
    main()
