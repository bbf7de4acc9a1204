"""Boxes as tensors (..., 4) of ymin, xmin, ymax, xmax [pixels]: overlap, coding, clipping, suppression."""

import tensorflow as tf

_SMALLEST = 1e-3
"""Minimum edge [pixels]; keeps values finite that are masked out later."""
_GROWTH_DIVISOR = 16.0
"""Log-sizes are clipped at log(edge of the image / 16) (tensorpack, examples/FasterRCNN/modeling/model_box.py)."""


def area(boxes: tf.Tensor) -> tf.Tensor:
    """Return the areas of boxes, (...); 0 for inverted boxes."""
    sizes = tf.nn.relu(boxes[..., 2:] - boxes[..., :2])
    return sizes[..., 0] * sizes[..., 1]


def pairwise_iou(one: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
    """Return intersection over union of all pairs of boxes, (..., n, m), from (..., n, 4) and (..., m, 4)."""
    first, second = one[..., :, None, :], other[..., None, :, :]
    corners = [tf.maximum(first[..., :2], second[..., :2]), tf.minimum(first[..., 2:], second[..., 2:])]
    common = area(tf.concat(corners, axis=-1))
    union = area(one)[..., :, None] + area(other)[..., None, :] - common
    return tf.math.divide_no_nan(common, union)


def encode(boxes: tf.Tensor, anchors: tf.Tensor) -> tf.Tensor:
    """Return boxes relative to anchors: (dy / h, dx / w, log dh, log dw) (Ren et al. 2015, eq. 2)."""
    centre, size = _centre_and_size(boxes)
    anchor_centre, anchor_size = _centre_and_size(anchors)
    return tf.concat([(centre - anchor_centre) / anchor_size, tf.math.log(size / anchor_size)], axis=-1)


def decode(deltas: tf.Tensor, anchors: tf.Tensor, image: tuple[int, int]) -> tf.Tensor:
    """Return boxes from deltas; the inverse of `encode`.

    Parameters
    ----------
    deltas, anchors
        Shape (..., 4).
    image
        Height and width [pixels]. To avoid overflow, an edge grows at most by a factor of the image's longer edge / 16.
    """
    anchor_centre, anchor_size = _centre_and_size(anchors)
    most = tf.math.log(max(image) / _GROWTH_DIVISOR)
    centre = deltas[..., :2] * anchor_size + anchor_centre
    half = tf.exp(tf.minimum(deltas[..., 2:], most)) * anchor_size / 2
    return tf.concat([centre - half, centre + half], axis=-1)


def clip(boxes: tf.Tensor, image: tuple[int, int]) -> tf.Tensor:
    """Clip boxes to an image of a given height and width."""
    height, width = image
    return tf.clip_by_value(boxes, 0.0, tf.constant([height, width, height, width], tf.float32))


def suppress(
    boxes: tf.Tensor, scores: tf.Tensor, groups: tf.Tensor, *, iou: float, most: int, above: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Keep the boxes with the highest scores, none of which overlaps a better one of its group.

    Parameters
    ----------
    boxes
        Shape (batch, n, 4), without negative coordinates.
    scores
        Shape (batch, n).
    groups
        Shape (n,), whole numbers from 0: boxes of different groups do not suppress each other.
    iou
        Of two boxes that overlap more, the lower-scoring one is dropped.
    most
        Number of boxes to return per image.
    above
        Only boxes with a higher score are kept.

    Returns
    -------
    tuple
        Indices (batch, most) in the order of falling scores, and which of them are valid, (batch, most) bool.
    """
    # Shift groups apart: one greedy pass then equals one pass per group followed by a common ranking.
    offsets = tf.cast(groups, tf.float32) * (tf.reduce_max(boxes) + 1)
    apart = boxes + offsets[None, :, None]
    indices, counts = [], []
    for image_boxes, image_scores in zip(tf.unstack(apart), tf.unstack(scores), strict=True):
        kept, count = tf.raw_ops.NonMaxSuppressionV4(
            boxes=image_boxes,
            scores=image_scores,
            max_output_size=most,
            iou_threshold=iou,
            score_threshold=above,
            pad_to_max_output_size=True,
        )
        indices.append(tf.ensure_shape(kept, [most]))
        counts.append(count)
    return tf.stack(indices), tf.sequence_mask(tf.stack(counts), most)


def _centre_and_size(boxes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    low, high = boxes[..., :2], boxes[..., 2:]
    return (low + high) / 2, tf.maximum(high - low, _SMALLEST)
