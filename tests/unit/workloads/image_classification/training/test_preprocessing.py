"""From records to pixels, against NumPy and Pillow."""

import io
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from numpy.typing import NDArray
from PIL import Image
from unit.workloads.image_classification.data.image_files import picture, record

from hpcai.workloads.image_classification.data.record import encode_record
from hpcai.workloads.image_classification.training.preprocessing import evaluation_pixels, parse_record, train_pixels

NO_BOXES = np.zeros((1, 0, 4), np.float32)


def smooth_picture(height: int, width: int) -> bytes:
    """A picture whose red grows to the right and whose green grows downwards; JPEG keeps it nearly as it is."""
    y, x = np.mgrid[0:height, 0:width]
    pixels = np.stack([255 * x / (width - 1), 255 * y / (height - 1), 0 * x + 128], axis=-1)
    stream = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8), "RGB").save(stream, "JPEG", quality=100, subsampling=0)
    return stream.getvalue()


def seed(*numbers: int) -> tf.Tensor:
    return tf.constant(numbers, tf.int32)


def test_labels_count_from_zero_and_boxes_are_in_tensorflow_s_order() -> None:
    boxes = ((0.125, 0.25, 0.5, 0.75), (0.0, 0.0, 1.0, 0.5))
    jpeg, label, found = parse_record(tf.constant(encode_record(record(label=1, boxes=boxes))))
    assert jpeg.numpy() == picture()
    assert (label.numpy(), label.dtype) == (0, tf.int32)
    np.testing.assert_array_equal(found, [boxes])


def test_records_without_boxes() -> None:
    _, _, boxes = parse_record(tf.constant(encode_record(record(boxes=()))))
    assert boxes.shape == (1, 0, 4)


def legacy_bilinear(image: NDArray[Any], height: int, width: int) -> NDArray[np.float64]:
    """Bilinear samples at i x scale, as TensorFlow 1 took them."""
    result = image.astype(np.float64)
    for axis, size in enumerate((height, width)):
        places = np.arange(size) * (image.shape[axis] / size)
        low = np.floor(places).astype(int)
        high = np.minimum(low + 1, image.shape[axis] - 1)
        part = (places - low).reshape([-1 if n == axis else 1 for n in range(3)])
        result = np.take(result, low, axis) * (1 - part) + np.take(result, high, axis) * part
    return result


@pytest.mark.parametrize(("height", "width"), [(60, 48), (48, 90), (64, 64), (53, 97)])
def test_evaluation_takes_the_centre_of_the_resized_image(height: int, width: int) -> None:
    jpeg = smooth_picture(height, width)
    decoded = tf.image.decode_jpeg(jpeg, fancy_upscaling=False, dct_method="INTEGER_FAST").numpy()
    shorter = min(height, width)
    resized = legacy_bilinear(decoded, height * 40 // shorter, width * 40 // shorter)
    assert min(resized.shape[:2]) == 40
    top, left = ((edge - 32) // 2 for edge in resized.shape[:2])
    expected = resized[top : top + 32, left : left + 32]
    found = evaluation_pixels(jpeg, 32, 40)
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, expected, atol=1e-2)


def test_every_size_of_image_gives_the_crop() -> None:
    for edge in (32, 33, 47, 61, 83, 499):
        assert evaluation_pixels(picture(edge, 50), 32, 32).shape == (32, 32, 3)


def test_grey_images_get_three_channels() -> None:
    found = evaluation_pixels(picture(40, 40, mode="L"), 32, 40).numpy()
    np.testing.assert_array_equal(found[..., 0], found[..., 2])


def extent(pixels: tf.Tensor) -> tuple[float, float, float, float]:
    """Where a part of a smooth picture comes from: its edges left, right, top, bottom in 0..1."""
    values = pixels.numpy() / 255
    return (values[:, 0, 0].mean(), values[:, -1, 0].mean(), values[0, :, 1].mean(), values[-1, :, 1].mean())


def test_training_takes_parts_of_the_stated_shapes_and_mirrors_half_of_them() -> None:
    jpeg = smooth_picture(80, 100)
    parts = [extent(train_pixels(jpeg, NO_BOXES, 32, seed(number, 5))) for number in range(60)]
    mirrored = [right < left for left, right, _, _ in parts]
    assert 15 < sum(mirrored) < 45
    assert all(bottom > top for _, _, top, bottom in parts)
    widths = np.array([abs(right - left) for left, right, _, _ in parts]) * 100
    heights = np.array([bottom - top for _, _, top, bottom in parts]) * 80
    # Up to a pixel at each side, because the last sample lies before the part's end.
    ratios = (widths + 2) / (heights + 2)
    assert ratios.min() > 0.65
    assert ratios.max() < 1.5
    areas = (widths + 2) * (heights + 2) / 8000
    assert 0.03 < areas.min() < 0.3
    assert 0.6 < areas.max() < 1.1


def test_training_looks_at_the_box() -> None:
    jpeg = smooth_picture(80, 100)
    box = np.array([[[0.0, 0.0, 0.2, 0.2]]], np.float32)
    for number in range(30):
        left, right, top, _ = extent(train_pixels(jpeg, box, 32, seed(number, 5)))
        assert min(left, right) < 0.2
        assert top < 0.2


def test_a_part_is_the_same_as_that_part_of_the_whole_image() -> None:
    jpeg = smooth_picture(80, 100)
    found = train_pixels(jpeg, NO_BOXES, 32, seed(3, 4))
    crop_seed, mirror_seed = tf.unstack(tf.random.split(seed(3, 4), 2))
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        [80, 100, 3], NO_BOXES, crop_seed, 0.1, (0.75, 1.33), (0.05, 1.0), 100, use_image_if_no_bounding_boxes=True
    )
    whole = tf.image.decode_jpeg(jpeg, fancy_upscaling=False, dct_method="INTEGER_FAST")
    part = tf.image.stateless_random_flip_left_right(tf.slice(whole, begin, size), mirror_seed).numpy()
    np.testing.assert_allclose(found, legacy_bilinear(part, 32, 32), atol=1e-2)


def test_augmentation_follows_the_seed_alone() -> None:
    jpeg = smooth_picture(80, 100)
    first, second, other = (train_pixels(jpeg, NO_BOXES, 32, seed(*pair)).numpy() for pair in ((1, 2), (1, 2), (2, 1)))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()
