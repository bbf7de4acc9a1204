"""Ranks that share samples take the same step as one rank with whole samples."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from unit.workloads.cosmoflow.parts import EDGE, SEEDS, Group, group, step_gradients, workload

from hpcai.training import collective
from hpcai.workloads.cosmoflow.spatial import HALO_NAME, with_halos

EXACT = 1e-12


def batch(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    counts = rng.poisson(3, (2, EDGE, EDGE, EDGE, 4)).astype(np.int16)
    return counts, rng.uniform(-1, 1, (2, 4))


def worst(gradients: list[Any], expected: list[Any]) -> float:
    """Return the largest difference of a layer's gradients, relative to their largest."""
    return max(np.abs(one - other).max() / np.abs(other).max() for one, other in zip(gradients, expected, strict=True))


@pytest.mark.parametrize(("parts", "kernel", "conv_layers"), [(2, 3, 3), (4, 3, 2), (2, 2, 2), (4, 2, 2)])
def test_gradients_are_those_of_whole_samples_layer_by_layer(parts: int, kernel: int, conv_layers: int) -> None:
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
@pytest.mark.parametrize("plane", range(EDGE))
def test_a_single_voxel_reaches_the_parts_that_need_it(plane: int, kernel: int) -> None:
    parts = 4
    whole = np.zeros((1, EDGE, 2, 2, 1), np.float32)
    whole[0, plane, 1, 0, 0] = 1
    before, behind = (kernel - 1) // 2, kernel // 2
    around = [before, behind]
    padded = np.pad(whole, [(0, 0), around, around, around, (0, 0)])
    depth = EDGE // parts
    with group(parts) as ranks:
        found = ranks.run(
            lambda rank: with_halos(tf.constant(whole[:, rank * depth : (rank + 1) * depth]), kernel, parts, "x")
        )
    for rank, planes in enumerate(found):
        np.testing.assert_array_equal(planes, padded[:, rank * depth : (rank + 1) * depth + kernel - 1])


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
