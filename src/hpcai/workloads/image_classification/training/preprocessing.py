"""From a record to pixels, as the reference does it (HPC AI500, resnet50v1.5/utils/image_processing.py)."""

import tensorflow as tf

CHANNELS = 3
MIN_OBJECT_COVERED = 0.1
ASPECT_RATIO_RANGE = (0.75, 1.33)
AREA_RANGE = (0.05, 1.0)
MAX_ATTEMPTS = 100
_SIDES = ("ymin", "xmin", "ymax", "xmax")
_JPEG = {"channels": CHANNELS, "fancy_upscaling": False, "dct_method": "INTEGER_FAST"}


def parse_record(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return JPEG data, label and boxes of a tf.train.Example.

    Returns
    -------
    tuple
        Scalar string; scalar int32, counted from 0 although the record counts from 1; boxes (1, n, 4) as ymin, xmin,
        ymax, xmax.
    """
    numbers = tf.io.FixedLenSequenceFeature([], tf.float32, allow_missing=True)
    sides = {f"image/object/bbox/{side}": numbers for side in _SIDES}
    example = tf.io.parse_single_example(
        record,
        {
            "image/encoded": tf.io.FixedLenFeature([], tf.string),
            "image/class/label": tf.io.FixedLenFeature([], tf.int64),
            **sides,
        },
    )
    boxes = tf.stack([example[side] for side in sides], axis=-1)
    return example["image/encoded"], tf.cast(example["image/class/label"], tf.int32) - 1, boxes[tf.newaxis]


def train_pixels(jpeg: tf.Tensor, boxes: tf.Tensor, crop: int, seed: tf.Tensor) -> tf.Tensor:
    """Return a random part of an image, mirrored half the time; (crop, crop, 3) float32 in 0..255.

    The part covers at least a tenth of one of the boxes. Without boxes the whole image counts as the box; it is also
    used if no part is found in 100 tries.

    Parameters
    ----------
    jpeg
        Scalar string.
    boxes
        Shape (1, n, 4): ymin, xmin, ymax, xmax, relative to the image.
    crop
        Edge of the result.
    seed
        Shape (2,) int32.
    """
    crop_seed, mirror_seed = tf.unstack(tf.random.split(seed, 2))
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(jpeg),
        bounding_boxes=boxes,
        seed=crop_seed,
        min_object_covered=MIN_OBJECT_COVERED,
        aspect_ratio_range=ASPECT_RATIO_RANGE,
        area_range=AREA_RANGE,
        max_attempts=MAX_ATTEMPTS,
        use_image_if_no_bounding_boxes=True,
    )
    window = tf.concat([begin[:2], size[:2]], axis=0)
    # Decode only the part; its pixels equal those of the whole image.
    pixels = tf.image.decode_and_crop_jpeg(jpeg, window, **_JPEG)
    # Before the resize, as in the reference: its bilinear samples do not lie symmetrically.
    pixels = tf.image.stateless_random_flip_left_right(pixels, mirror_seed)
    return tf.ensure_shape(_resize(pixels, tf.constant([crop, crop])), [crop, crop, CHANNELS])


def evaluation_pixels(jpeg: tf.Tensor, crop: int, resize_edge: int) -> tf.Tensor:
    """Return the centre of an image whose shorter side was made ``resize_edge``; (crop, crop, 3) float32 in 0..255."""
    pixels = tf.image.decode_jpeg(jpeg, **_JPEG)
    size = tf.shape(pixels)[:2]
    # Integers: the reference's float32 product can fall just short of the shorter side.
    resized = size * resize_edge // tf.reduce_min(size)
    pixels = _resize(pixels, resized)
    top, left = tf.unstack((resized - crop) // 2)
    return tf.ensure_shape(pixels[top : top + crop, left : left + crop], [crop, crop, CHANNELS])


def _resize(pixels: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Resize an image bilinearly as TensorFlow 1 did: samples at multiples of the scale, not at pixel centres."""
    return tf.raw_ops.ResizeBilinear(
        images=pixels[tf.newaxis], size=size, align_corners=False, half_pixel_centers=False
    )[0]
