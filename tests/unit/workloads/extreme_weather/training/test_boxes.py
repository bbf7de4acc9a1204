"""Overlap, coding and suppression of boxes against NumPy definitions."""

import numpy as np
import pytest
import tensorflow as tf

from hpcai.workloads.extreme_weather.training.boxes import area, clip, decode, encode, pairwise_iou, suppress

IMAGE = (96, 144)


def random_boxes(count: int, seed: int = 0, smallest: float = 2.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    low = random.uniform(0, (60, 100), (count, 2))
    return np.concatenate([low, low + random.uniform(smallest, 30, (count, 2))], axis=1).astype(np.float32)


def iou(one: np.ndarray, other: np.ndarray) -> float:
    height = min(one[2], other[2]) - max(one[0], other[0])
    width = min(one[3], other[3]) - max(one[1], other[1])
    common = max(height, 0) * max(width, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return common / (sum(areas) - common)


def greedy(boxes: np.ndarray, scores: np.ndarray, groups: np.ndarray, limit: float, above: float) -> list[int]:
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        if scores[index] <= above:
            continue
        rivals = [other for other in kept if groups[other] == groups[index]]
        if all(iou(boxes[index], boxes[other]) <= limit for other in rivals):
            kept.append(int(index))
    return kept


def test_iou_of_all_pairs() -> None:
    one, other = random_boxes(12, 1), random_boxes(7, 2)
    expected = [[iou(a, b) for b in other] for a in one]
    np.testing.assert_allclose(pairwise_iou(one, other), expected, rtol=1e-5, atol=1e-6)
    batched = pairwise_iou(tf.stack([one, one]), tf.stack([other, other[::-1]]))
    np.testing.assert_allclose(batched[1], np.array(expected)[:, ::-1], rtol=1e-5, atol=1e-6)


def test_iou_of_known_boxes() -> None:
    box = tf.constant([[0.0, 0.0, 10.0, 10.0]])
    others = tf.constant([[0, 0, 10, 10], [0, 5, 10, 15], [20, 20, 30, 30], [-1, -1, -1, -1]], tf.float32)
    np.testing.assert_allclose(pairwise_iou(box, others)[0], [1, 1 / 3, 0, 0], atol=1e-7)


def test_area() -> None:
    np.testing.assert_allclose(area(tf.constant([[1.0, 2.0, 4.0, 7.0], [5.0, 5.0, 4.0, 9.0]])), [15, 0])


def test_code_of_a_known_box() -> None:
    anchor, box = tf.constant([[0.0, 0.0, 10.0, 20.0]]), tf.constant([[5.0, 0.0, 25.0, 20.0]])
    np.testing.assert_allclose(encode(box, anchor)[0], [1.0, 0.0, np.log(2), 0.0], atol=1e-6)


def test_coding_there_and_back() -> None:
    boxes, anchors = random_boxes(50, 3), random_boxes(50, 4)
    np.testing.assert_allclose(decode(encode(boxes, anchors), anchors, (4000, 4000)), boxes, atol=1e-3)


def test_growth_is_limited() -> None:
    anchor = tf.constant([[10.0, 10.0, 14.0, 14.0]])
    box = decode(tf.constant([[0.0, 0.0, 50.0, -1.0]]), anchor, IMAGE)[0].numpy()
    assert box[2] - box[0] == pytest.approx(4 * 144 / 16)
    assert box[3] - box[1] == pytest.approx(4 * np.exp(-1))


def test_code_of_rows_without_a_box_is_finite() -> None:
    assert np.isfinite(encode(tf.constant([[-1.0] * 4]), tf.constant([[5.0] * 4])).numpy()).all()


def test_clipping() -> None:
    np.testing.assert_allclose(clip(tf.constant([[-5.0, 3.0, 100.0, 150.0]]), IMAGE), [[0, 3, 96, 144]])


@pytest.mark.parametrize("limit", [0.3, 0.7])
def test_suppression_is_greedy_within_groups(limit: float) -> None:
    random = np.random.default_rng(5)
    boxes = np.stack([random_boxes(60, seed) for seed in (6, 7)])
    scores = random.random((2, 60)).astype(np.float32)
    groups = random.integers(0, 3, 60).astype(np.int32)
    indices, valid = suppress(boxes, scores, groups, iou=limit, most=60, above=0.05)
    for image in (0, 1):
        expected = greedy(boxes[image], scores[image], groups, limit, 0.05)
        assert indices[image][valid[image]].numpy().tolist() == expected


def test_suppression_keeps_the_best_and_fills_up() -> None:
    boxes = tf.constant([[[0.0, 0, 9, 9], [50, 50, 60, 60], [70, 70, 80, 80], [0, 0, 9, 8]]])
    scores = tf.constant([[0.5, 0.9, 0.2, 0.7]])
    groups = np.zeros(4, np.int32)
    indices, valid = suppress(boxes, scores, groups, iou=0.5, most=2, above=0.0)
    assert indices[0].numpy().tolist() == [1, 3]
    indices, valid = suppress(boxes, scores, groups, iou=0.5, most=4, above=0.3)
    assert valid[0].numpy().tolist() == [True, True, False, False]
    assert indices.shape == (1, 4)
