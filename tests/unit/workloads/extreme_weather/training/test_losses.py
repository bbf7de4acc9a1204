"""The four losses against NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from hpcai.workloads.extreme_weather.training.anchors import Sample
from hpcai.workloads.extreme_weather.training.losses import huber_loss, proposal_losses, region_losses

RANDOM = np.random.default_rng(4)
POSITIVE = np.array([[True, True, False, False], [False, False, False, False]])
USED = np.array([[True, True, True, False], [True, True, True, True]])
CHOSEN = Sample(tf.zeros([2, 4], tf.int32), tf.constant(POSITIVE), tf.constant(USED))


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape).astype(np.float32)


def test_huber_loss() -> None:
    errors = np.array([0.0, 0.05, -0.05, 1 / 9, 2.0, -2.0], np.float32)
    delta = 1 / 9
    expected = np.where(np.abs(errors) <= delta, errors**2 / 2, delta * (np.abs(errors) - delta / 2))
    np.testing.assert_allclose(huber_loss(tf.constant(errors), delta), expected, rtol=1e-5)


def test_losses_of_the_proposals() -> None:
    scores, deltas, targets = normal(2, 4), normal(2, 4, 4), normal(2, 4, 4)
    targets[1] = np.nan  # what is not positive has no target
    class_loss, box_loss = proposal_losses(scores, deltas, targets, CHOSEN, 256)
    probability = 1 / (1 + np.exp(-scores.astype(np.float64)))
    entropy = -np.where(POSITIVE, np.log(probability), np.log(1 - probability))
    assert float(class_loss) == pytest.approx((entropy * USED).sum() / 256 / 2, rel=1e-5)
    errors = np.abs(deltas[POSITIVE] - targets[POSITIVE]).astype(np.float64)
    huber = np.where(errors <= 1 / 9, errors**2 / 2 * 9, errors - 1 / 18)
    assert float(box_loss) == pytest.approx(huber.sum() / 256 / 2, rel=1e-5)


def test_losses_of_the_regions() -> None:
    logits, deltas, targets = normal(2, 4, 5), normal(2, 4, 5, 4), normal(2, 4, 4)
    labels = np.array([[2, 4, 0, 3], [0, 0, 0, 0]], np.int32)
    class_loss, box_loss = region_losses(logits, labels, deltas, targets, CHOSEN)
    exponentials = np.exp(logits.astype(np.float64))
    entropy = -np.log(np.take_along_axis(exponentials, labels[..., None], 2)[..., 0] / exponentials.sum(axis=2))
    per_image = (entropy * USED).sum(axis=1) / USED.sum(axis=1)
    assert float(class_loss) == pytest.approx(per_image.mean(), rel=1e-5)
    distance = np.abs(deltas[0, 0, 2] - targets[0, 0]).sum() + np.abs(deltas[0, 1, 4] - targets[0, 1]).sum()
    assert float(box_loss) == pytest.approx(distance / 3 / 2, rel=1e-5)


def test_an_image_without_regions_counts_nothing() -> None:
    none = Sample(tf.zeros([1, 4], tf.int32), tf.zeros([1, 4], tf.bool), tf.zeros([1, 4], tf.bool))
    losses = region_losses(normal(1, 4, 5), np.zeros((1, 4), np.int32), normal(1, 4, 5, 4), normal(1, 4, 4), none)
    assert [float(loss) for loss in losses] == [0.0, 0.0]
