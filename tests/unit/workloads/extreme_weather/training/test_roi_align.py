"""RoIAlign against direct bilinear interpolation, its levels, and its gradient."""

import numpy as np
import pytest
import tensorflow as tf

from hpcai.workloads.extreme_weather.settings import Regions
from hpcai.workloads.extreme_weather.training.roi_align import assign_levels, roi_align

SHAPES = ((16, 24), (8, 12), (4, 6), (2, 3))
SETTINGS = Regions(canonical_size=32.0)


def maps(batch: int = 2, channels: int = 3) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.normal(size=(batch, *shape, channels)).astype(np.float32) for shape in SHAPES]


def bilinear(image: np.ndarray, row: float, column: float) -> np.ndarray:
    """Value at a place in units of cells, whose centres are at whole numbers; constant beyond the last ones."""
    row, column = np.clip(row, 0, image.shape[0] - 1), np.clip(column, 0, image.shape[1] - 1)
    top, left = int(row), int(column)
    bottom, right = min(top + 1, image.shape[0] - 1), min(left + 1, image.shape[1] - 1)
    down, along = row - top, column - left
    upper = image[top, left] * (1 - along) + image[top, right] * along
    lower = image[bottom, left] * (1 - along) + image[bottom, right] * along
    return upper * (1 - down) + lower * down


def direct(image: np.ndarray, box: np.ndarray, stride: int, settings: Regions) -> np.ndarray:
    """14 x 14 samples at the centres of equal parts, averaged 2 x 2 to 7 x 7."""
    per_edge = settings.resolution * settings.samples_per_cell
    samples = np.zeros((per_edge, per_edge, image.shape[-1]))
    for i in range(per_edge):
        for j in range(per_edge):
            row = box[0] + (i + 0.5) / per_edge * (box[2] - box[0])
            column = box[1] + (j + 0.5) / per_edge * (box[3] - box[1])
            samples[i, j] = bilinear(image, row / stride - 0.5, column / stride - 0.5)
    shape = (settings.resolution, settings.samples_per_cell, settings.resolution, settings.samples_per_cell, -1)
    return samples.reshape(shape).mean(axis=(1, 3))


@pytest.mark.parametrize("settings", [SETTINGS, Regions(canonical_size=32.0, samples_per_cell=1, resolution=3)])
def test_equal_to_direct_interpolation(settings: Regions) -> None:
    features = maps()
    regions = np.array(
        [
            [[3, 5, 9, 14], [0, 0, 64, 96], [20, 30, 50, 70], [0, 80, 30, 96]],
            [[50, 60, 64, 90], [1, 1, 2, 2], [10.5, 3.25, 40.75, 88], [0, 0, 0, 0]],
        ],
        np.float32,
    )
    found = roi_align(features, tf.constant(regions), settings).numpy()
    levels = assign_levels(tf.constant(regions), settings.canonical_size, 4).numpy()
    assert found.shape == (2, 4, settings.resolution, settings.resolution, 3)
    assert len(set(levels.ravel())) > 2
    for image in range(2):
        for number in range(4):
            level = levels[image, number]
            expected = direct(features[level][image], regions[image, number], 4 << level, settings)
            np.testing.assert_allclose(found[image, number], expected, rtol=1e-4, atol=1e-5)


def test_a_slope_is_reproduced() -> None:
    # Map values equal to their own place in pixels give the places of the cells' centres.
    rows = (np.arange(16) + 0.5) * 4
    slope = np.broadcast_to(rows[None, :, None, None], (1, 16, 24, 1)).astype(np.float32)
    found = roi_align([slope], tf.constant([[[8.0, 10.0, 36.0, 60.0]]]), SETTINGS).numpy()
    np.testing.assert_allclose(found[0, 0, :, 0, 0], 8 + (np.arange(7) + 0.5) * 4, rtol=1e-5)


def test_levels() -> None:
    sizes = [10, 111, 113, 223, 225, 447, 449, 3000]
    boxes = tf.constant([[0.0, 0.0, size, size] for size in sizes])
    # P2 below 112, P3 below 224, P4 below 448, P5 from there on.
    assert assign_levels(boxes, 224.0, 4).numpy().tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert assign_levels(tf.zeros([1, 4]), 224.0, 4).numpy().tolist() == [0]


def test_gradient() -> None:
    features = [tf.constant(feature) for feature in maps(1, 2)]
    regions = tf.constant([[[3.0, 5.0, 9.0, 14.0], [20.0, 30.0, 50.0, 70.0]]])
    weights = np.random.default_rng(2).normal(size=(1, 2, 7, 7, 2)).astype(np.float32)

    def value(finest: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(roi_align([finest, *features[1:]], regions, SETTINGS) * weights)

    with tf.GradientTape() as tape:
        tape.watch([features[0], regions])
        result = value(features[0])
    gradient, none = tape.gradient(result, [features[0], regions])
    assert none is None
    row, column = np.unravel_index(np.abs(tf.convert_to_tensor(gradient)[0, :, :, 0]).argmax(), (16, 24))
    step = np.zeros(features[0].shape, np.float32)
    step[0, row, column, 0] = 0.5
    difference = value(features[0] + step) - value(features[0] - step)
    assert float(difference) == pytest.approx(float(tf.convert_to_tensor(gradient)[0, row, column, 0]), rel=1e-3)
