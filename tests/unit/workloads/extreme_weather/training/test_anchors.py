"""Anchors, assignment and sampling against their definitions."""

import numpy as np
import pytest
import tensorflow as tf

from hpcai.workloads.extreme_weather.settings import Anchors
from hpcai.workloads.extreme_weather.training.anchors import (
    Assignment,
    assign_anchors,
    assign_regions,
    make_anchors,
    sample,
)


def test_numbers_at_the_official_size() -> None:
    grid = make_anchors(Anchors(), (768, 1152))
    cells = [(768 // stride) * (1152 // stride) for stride in (4, 8, 16, 32, 64)]
    assert grid.level_counts == tuple(3 * count for count in cells)
    assert grid.boxes.shape == (3 * sum(cells), 4)


def test_centres_areas_and_ratios() -> None:
    settings = Anchors(sizes=(8.0, 20.0), ratios=(0.5, 1.0, 2.0))
    grid = make_anchors(settings, (64, 96))
    fine = grid.boxes[: grid.level_counts[0]].reshape(16, 24, 3, 4)
    centres = (fine[..., :2] + fine[..., 2:]) / 2
    np.testing.assert_allclose(centres[0, 0], [[2, 2]] * 3, atol=1e-5)
    np.testing.assert_allclose(centres[3, 5], [[14, 22]] * 3, atol=1e-5)
    sizes = fine[..., 2:] - fine[..., :2]
    np.testing.assert_allclose(sizes.prod(axis=-1), 64, rtol=1e-5)
    np.testing.assert_allclose(sizes[0, 0, :, 0] / sizes[0, 0, :, 1], settings.ratios, rtol=1e-5)
    coarse = grid.boxes[grid.level_counts[0] :]
    assert len(coarse) == 8 * 12 * 3
    np.testing.assert_allclose((coarse[1, :2] + coarse[1, 2:]) / 2, [4, 4], atol=1e-5)


def test_a_level_that_cannot_be_halved_is_rounded_up() -> None:
    assert make_anchors(Anchors(ratios=(1.0,)), (96, 160)).level_counts == (960, 240, 60, 15, 6)


def assigned(iou: list[list[float]], present: list[bool]) -> Assignment:
    return assign_anchors(tf.constant([iou], tf.float32), tf.constant([present]), Anchors())


def test_assignment_of_anchors() -> None:
    iou = [[0.75, 0.1, 0.9], [0.5, 0.2, 0.9], [0.1, 0.4, 0.9], [0.29, 0.0, 0.9], [0.3, 0.0, 0.9]]
    found = assigned(iou, [True, True, False])
    # Over 0.7; between the limits; best of the second box; below 0.3; exactly 0.3. The third box does not exist.
    assert found.positive[0].numpy().tolist() == [True, False, True, False, False]
    assert found.negative[0].numpy().tolist() == [False, False, False, True, False]
    assert found.matched[0].numpy().tolist() == [0, 0, 1, 0, 0]


def test_without_boxes_all_anchors_are_negative() -> None:
    found = assigned([[0.9, 0.9], [0.0, 0.5]], [False, False])
    assert not found.positive.numpy().any()
    assert found.negative.numpy().all()


def test_a_box_that_no_anchor_touches_makes_none_positive() -> None:
    found = assigned([[0.0], [0.0]], [True])
    assert not found.positive.numpy().any()


def test_assignment_of_regions() -> None:
    iou = tf.constant([[[0.5, 0.6], [0.49, 0.1], [0.9, 0.2], [0.0, 0.0]]])
    valid = tf.constant([[True, True, False, True]])
    found = assign_regions(iou, tf.constant([[True, True]]), valid, 0.5)
    assert found.positive[0].numpy().tolist() == [True, False, False, False]
    assert found.negative[0].numpy().tolist() == [False, True, False, True]
    assert found.matched[0, 0].numpy() == 1


def candidates(positive: int, negative: int, others: int) -> Assignment:
    kinds = np.random.default_rng(2).permutation([1] * positive + [0] * negative + [-1] * others)
    zeros = tf.zeros([1, len(kinds)], tf.int32)
    return Assignment(tf.constant([kinds == 1]), tf.constant([kinds == 0]), zeros)


@pytest.mark.parametrize(
    ("positive", "negative", "expected"),
    [(40, 200, (8, 24)), (3, 200, (3, 29)), (0, 200, (0, 32)), (3, 10, (3, 10)), (40, 0, (8, 0))],
)
def test_sampling_is_balanced(positive: int, negative: int, expected: tuple[int, int]) -> None:
    given = candidates(positive, negative, 50)
    found = sample(given, 32, 8, tf.constant([3, 4]))
    index, is_positive, used = (values[0].numpy() for values in (found.indices, found.positive, found.used))
    assert (is_positive.sum(), (used & ~is_positive).sum()) == expected
    assert given.positive[0].numpy()[index[is_positive]].all()
    assert given.negative[0].numpy()[index[used & ~is_positive]].all()
    assert len(set(index[used])) == used.sum()
    assert index.shape == (32,)


def test_sampling_follows_the_seed() -> None:
    given = candidates(40, 200, 50)
    draws = [sample(given, 32, 8, tf.constant(seed)).indices.numpy().tolist() for seed in ([1, 2], [1, 2], [1, 3])]
    assert draws[0] == draws[1] != draws[2]


def test_sampling_is_uniform() -> None:
    given = candidates(10, 30, 0)
    counts = np.zeros(40)
    for seed in range(400):
        found = sample(given, 16, 4, tf.constant([seed, 0]))
        counts[found.indices[0].numpy()] += 1
    positive = given.positive[0].numpy()
    np.testing.assert_allclose(counts[positive], 160, atol=50)
    np.testing.assert_allclose(counts[~positive], 160, atol=50)


def test_fewer_candidates_than_wanted() -> None:
    assert sample(candidates(3, 10, 0), 32, 8, tf.constant([1, 1])).indices.shape == (1, 13)
