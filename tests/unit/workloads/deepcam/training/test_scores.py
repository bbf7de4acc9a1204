"""Loss and quality against their definitions and golden values."""

import numpy as np
import pytest
import tensorflow as tf

from hpcai.workloads.deepcam.training.scores import CLASS_WEIGHTS, intersections_over_unions, weighted_cross_entropy

RANDOM = np.random.default_rng(8)


def logits_of(predictions: np.ndarray) -> np.ndarray:
    return np.eye(3, dtype=np.float32)[predictions]


def iou(predictions: list, labels: list) -> list[float]:
    shape = (-1, 2, 2)
    found = intersections_over_unions(
        logits_of(np.reshape(predictions, shape)), np.reshape(labels, shape).astype(np.uint8)
    )
    assert found.dtype == tf.float64
    return found.numpy().tolist()


def test_class_weights() -> None:
    np.testing.assert_allclose(CLASS_WEIGHTS, (1.001729912, 2.614611224, 1.716419748), atol=1e-9)


def test_the_loss_is_the_mean_over_all_pixels_not_over_the_weights() -> None:
    logits = RANDOM.normal(size=(2, 4, 6, 3)).astype(np.float32) * 3
    labels = RANDOM.integers(0, 3, (2, 4, 6)).astype(np.uint8)
    shares = np.exp(logits.astype(np.float64))
    shares /= shares.sum(-1, keepdims=True)
    chosen = np.take_along_axis(shares, labels[..., None].astype(int), -1)[..., 0]
    expected = (np.array(CLASS_WEIGHTS)[labels] * -np.log(chosen)).sum() / labels.size
    loss = weighted_cross_entropy(tf.constant(logits), tf.constant(labels))
    assert loss.dtype == tf.float32
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_the_golden_frame() -> None:
    assert iou([0, 0, 0, 0], [0, 0, 0, 1]) == pytest.approx([(3 / 4 + 0 + 1) / 3])


def test_a_class_that_neither_has_counts_1() -> None:
    assert iou([0, 0, 0, 0], [0, 0, 0, 0]) == [1]
    assert iou([1, 1, 1, 1], [1, 1, 1, 1]) == [1]
    # Predicted, though nowhere true: 0, not 1.
    assert iou([0, 0, 0, 2], [0, 0, 0, 0]) == pytest.approx([(3 / 4 + 1 + 0) / 3])


def test_each_frame_has_its_own() -> None:
    found = iou([0, 1, 2, 2, 0, 0, 0, 0], [0, 1, 2, 1, 0, 0, 0, 0])
    assert found == pytest.approx([(1 + 1 / 2 + 1 / 2) / 3, 1])


def test_random_frames_against_the_definition() -> None:
    predictions, labels = RANDOM.integers(0, 3, (2, 5, 8, 6))
    found = intersections_over_unions(logits_of(predictions), labels.astype(np.uint8)).numpy()
    for value, predicted, true in zip(found, predictions, labels, strict=True):
        ratios = []
        for number in range(3):
            hit = ((predicted == number) & (true == number)).sum()
            false = ((predicted == number) != (true == number)).sum()
            ratios.append(hit / (hit + false))
        assert value == pytest.approx(np.mean(ratios))


def test_logits_that_are_no_numbers_have_no_quality() -> None:
    logits = logits_of(np.zeros((2, 2, 2), int))
    logits[1, 0, 0, 2] = np.nan
    assert np.isnan(intersections_over_unions(logits, np.zeros((2, 2, 2), np.uint8)).numpy()).tolist() == [False, True]
