"""Proposals and detections."""

import numpy as np
import tensorflow as tf

from hpcai.workloads.extreme_weather.settings import Anchors, Detections
from hpcai.workloads.extreme_weather.training.anchors import make_anchors
from hpcai.workloads.extreme_weather.training.boxes import encode
from hpcai.workloads.extreme_weather.training.detection import DELTA_SCALE, detect, propose

IMAGE = (64, 96)
GRID = make_anchors(Anchors(sizes=(8.0, 16.0), ratios=(1.0,)), IMAGE)
COUNT = len(GRID.boxes)


def test_proposals_are_the_best_of_each_level() -> None:
    scores = np.full((1, COUNT), -5.0, np.float32)
    fine, coarse = 30, GRID.level_counts[0] + 40
    scores[0, fine], scores[0, coarse] = 3.0, 2.0
    boxes, valid = propose(tf.constant(scores), tf.zeros([1, COUNT, 4]), GRID, IMAGE, most=10, iou=0.7)
    assert boxes.shape == (1, 10, 4)
    assert valid.numpy().all()
    np.testing.assert_allclose(boxes[0, 0], GRID.boxes[fine], atol=1e-4)
    np.testing.assert_allclose(boxes[0, 1], GRID.boxes[coarse], atol=1e-4)


def test_levels_do_not_suppress_each_other() -> None:
    """Two equal boxes both survive only if they come from different levels."""
    target = np.array([20.0, 30.0, 36.0, 46.0], np.float32)
    for first, second, survivors in ((100, 101, 1), (100, GRID.level_counts[0] + 31, 2)):
        scores = np.full((1, COUNT), -5.0, np.float32)
        deltas = np.zeros((1, COUNT, 4), np.float32)
        for index in (first, second):
            scores[0, index] = 3.0
            deltas[0, index] = encode(target, GRID.boxes[index])
        boxes, _ = propose(tf.constant(scores), tf.constant(deltas), GRID, (400, 400), most=20, iou=0.7)
        assert np.isclose(boxes[0].numpy(), target, atol=1e-3).all(axis=1).sum() == survivors


def test_proposals_are_clipped_and_need_an_area() -> None:
    scores = np.zeros((1, COUNT), np.float32)
    scores[0, 0] = 9.0
    deltas = np.zeros((1, COUNT, 4), np.float32)
    deltas[0, :, 0] = -100.0  # far above the image
    deltas[0, 0, 0] = 0.0
    boxes, valid = propose(tf.constant(scores), tf.constant(deltas), GRID, IMAGE, most=5, iou=0.7)
    assert valid[0].numpy().tolist() == [True, False, False, False, False]
    np.testing.assert_allclose(boxes[0, 0], [0, 0, 6, 6], atol=1e-4)


def test_proposals_have_no_gradient() -> None:
    scores, deltas = tf.random.normal([1, COUNT]), tf.random.normal([1, COUNT, 4])
    with tf.GradientTape() as tape:
        tape.watch([scores, deltas])
        total = tf.reduce_sum(propose(scores, deltas, GRID, IMAGE, most=5, iou=0.7)[0])
    assert tape.gradient(total, [scores, deltas]) == [None, None]


def detected(logits: list[list[float]], deltas: np.ndarray, exist: list[bool], **limits: float) -> object:
    regions = tf.constant([[[10.0, 10, 30, 30], [10, 11, 30, 31], [40, 50, 60, 90]]])
    return detect(
        tf.constant([logits]), tf.constant(deltas), (regions, tf.constant([exist])), IMAGE, Detections(**limits)
    )


def test_detections() -> None:
    deltas = np.zeros((1, 3, 5, 4), np.float32)
    deltas[0, 2, 4] = DELTA_SCALE * [0.1, 0, 0, 0]
    logits = [[0.0, 10, 0, 0, 0], [0, 8, 0, 0, 7.5], [0, 0, 0, 0, 9]]
    found = detected(logits, deltas, [True, True, True], score=0.05)
    valid = found.valid[0].numpy()
    # The second region is suppressed as class 0, which the first one is, and found as class 3.
    assert found.classes[0].numpy()[valid].tolist() == [0, 3, 3]
    np.testing.assert_allclose(
        found.boxes[0].numpy()[valid], [[10, 10, 30, 30], [42, 50, 62, 90], [10, 11, 30, 31]], atol=1e-4
    )
    scores = found.scores[0].numpy()[valid]
    assert (np.diff(scores) <= 0).all()
    assert np.isclose(scores[2], np.exp(7.5) / (np.exp(8) + np.exp(7.5) + 3))


def test_low_scores_and_regions_that_do_not_exist() -> None:
    deltas = np.zeros((1, 3, 5, 4), np.float32)
    logits = [[0.0, 9, 0, 0, 0], [9, 0, 0, 0, 0], [0, 0, 9, 0, 0]]
    found = detected(logits, deltas, [True, True, False], score=0.05)
    assert found.valid.numpy().sum() == 1


def test_at_most_so_many_per_image() -> None:
    deltas = np.zeros((1, 3, 5, 4), np.float32)
    found = detected([[0.0, 1, 1, 1, 1]] * 3, deltas, [True] * 3, score=0.05, per_image=3)
    assert found.boxes.shape == (1, 3, 4)
    assert found.valid.numpy().all()
