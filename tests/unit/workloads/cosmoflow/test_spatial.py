"""Ranks that share samples take the same step as one rank with whole samples."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from unit.workloads.cosmoflow.parts import EDGE, SEEDS, Group, group, parts_of, step_gradients, workload

from hpcai.training import collective
from hpcai.workloads.cosmoflow.settings import PartGrid
from hpcai.workloads.cosmoflow.spatial import HALO_NAME, with_halos

EXACT = 1e-12


def batch(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(3, (2, EDGE, EDGE, EDGE, 4)).astype(np.int16)
    return counts, rng.uniform(-1, 1, (2, 4))


def worst(gradients: list[Any], expected: list[Any]) -> float:
    """Return the largest difference of a layer's gradients, relative to their largest."""
    return max(np.abs(one - other).max() / np.abs(other).max() for one, other in zip(gradients, expected, strict=True))


CASES = {
    (2, 3, 3): (2, 1),
    (4, 3, 2): (4, 1),
    (4, 3, 3): (2, 2),
    (16, 3, 2): (4, 4),
    (2, 2, 2): (2, 1),
    (4, 2, 2): (4, 1),
    (8, 2, 2): (4, 2),
}
"""Parts, kernel and convolutions; and how cubes are cut."""


@pytest.mark.parametrize(("parts", "kernel", "conv_layers"), CASES)
def test_gradients_are_those_of_whole_samples_layer_by_layer(parts: int, kernel: int, conv_layers: int) -> None:
    cut = workload(parts, kernel, conv_layers).benchmark.part_grid(parts)
    assert cut == CASES[parts, kernel, conv_layers]
    counts, targets = batch()
    _, expected = step_gradients(1, counts, targets, kernel=kernel, conv_layers=conv_layers)
    predictions, found = step_gradients(parts, counts, targets, kernel=kernel, conv_layers=conv_layers)
    assert worst(found, expected) <= EXACT
    for other in predictions[1:]:
        np.testing.assert_array_equal(other, predictions[0])


@pytest.mark.parametrize("parts", [2, 4])
def test_an_averaged_gradient_of_the_gather_is_seen(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Horovod's own gradient of allgather is: the mean over the ranks, whose upstream gradients are equal."""
    counts, targets = batch()
    _, expected = step_gradients(1, counts, targets)
    gather = collective.gather_in_group

    def averaged(rows: tf.Tensor, parts: int, name: str) -> tf.Tensor:
        @tf.custom_gradient
        def halved(own: tf.Tensor) -> Any:
            return own, lambda upstream: upstream / parts

        return gather(halved(rows), parts, name)

    monkeypatch.setattr(collective, "gather_in_group", averaged)
    _, found = step_gradients(parts, counts, targets)
    assert worst(found, expected) > 0.1


def test_an_averaged_gradient_of_a_halo_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, targets = batch()
    _, expected = step_gradients(1, counts, targets)
    exchange = Group.group_exchange

    def averaged(self: Group, rows: tf.Tensor, sent: Any, received: Any, name: str) -> tf.Tensor:
        found = exchange(self, rows, sent, received, name)
        return found / self.parts if name.endswith("gradient") else found

    monkeypatch.setattr(Group, "group_exchange", averaged)
    _, found = step_gradients(2, counts, targets)
    assert worst(found, expected) > 1e-3


@pytest.mark.parametrize("kernel", [2, 3])
@pytest.mark.parametrize("grid", [(4, 1), (2, 2), (4, 4)])
def test_a_single_voxel_reaches_the_parts_that_need_it(grid: tuple[int, int], kernel: int) -> None:
    """Each sample has one voxel, at a plane and row of its own: all borders and corners are among them."""
    whole, cut = voxels(), PartGrid(*grid)
    with group(cut.parts) as ranks:
        found = ranks.run(lambda rank: with_halos(tf.constant(parts_of(whole, grid)[rank]), kernel, cut, "x"))
    for own, expected in zip(found, padded_parts(whole, grid, kernel), strict=True):
        np.testing.assert_array_equal(own, expected)


def voxels() -> np.ndarray:
    """Return a cube for each plane and row, whose only voxel lies there."""
    places = np.arange(EDGE * EDGE)
    whole = np.zeros((EDGE * EDGE, EDGE, EDGE, 2, 1), np.float32)
    whole[places, places // EDGE, places % EDGE, 0, 0] = 1
    return whole


def padded_parts(whole: np.ndarray, grid: tuple[int, int], kernel: int) -> list[np.ndarray]:
    """Return what a SAME convolution over whole cubes reads for each part."""
    around = ((kernel - 1) // 2, kernel // 2)
    padded = np.pad(whole, [(0, 0), around, around, around, (0, 0)])
    depth, rows = (EDGE // parts for parts in grid)
    places = [divmod(part, grid[1]) for part in range(grid[0] * grid[1])]
    return [
        padded[:, d * depth : (d + 1) * depth + kernel - 1, r * rows : (r + 1) * rows + kernel - 1] for d, r in places
    ]


def test_the_dropout_of_a_replica_is_the_same_on_its_ranks() -> None:
    counts, targets = batch()
    predictions, found = step_gradients(2, counts, targets, dropout=0.5)
    whole, expected = step_gradients(1, counts, targets, dropout=0.5)
    np.testing.assert_allclose(predictions[1], whole[0], rtol=1e-12)
    assert worst(found, expected) <= EXACT


def test_each_convolution_exchanges_once_forward_and_all_but_the_first_once_back() -> None:
    with group(2) as ranks:

        def step(rank: int) -> None:
            task = workload(2, conv_layers=3)
            model = task.build_model(SEEDS)
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(tf.ones((4, EDGE // 2, EDGE, EDGE, 4), tf.int16)))
            tape.gradient(loss, [variable.value for variable in model.trainable_variables])

        ranks.run(step)
    real = [name for name in ranks.names[0] if name.startswith(HALO_NAME)]
    assert len(real) == 3 + 2
    assert sum(name.endswith("gradient") for name in real) == 2
