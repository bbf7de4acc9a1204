"""From scores and deltas to boxes: the proposals of the first stage and the detections of the second."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from hpcai.workloads.extreme_weather.settings import Detections
from hpcai.workloads.extreme_weather.training.anchors import AnchorGrid
from hpcai.workloads.extreme_weather.training.boxes import area, clip, decode, suppress

DELTA_SCALE = np.array([10.0, 10.0, 5.0, 5.0], np.float32)
"""Factors between the box head's deltas and the plain ones (tensorpack, BBOX_REG_WEIGHTS)."""
_NO_SCORE = -1e30


@dataclass(frozen=True)
class Found:
    """Detections of a batch: boxes (batch, n, 4) [pixels], classes from 0, scores, and which slots hold one."""

    boxes: tf.Tensor
    classes: tf.Tensor
    scores: tf.Tensor
    valid: tf.Tensor


def propose(
    objectness: tf.Tensor, deltas: tf.Tensor, grid: AnchorGrid, image: tuple[int, int], *, most: int, iou: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the proposals of each image, without a gradient: boxes (batch, n, 4), and which exist, (batch, n) bool.

    Takes the best of each level, suppressed within the level, then the best of all levels.

    Parameters
    ----------
    objectness
        Logits of all anchors, (batch, anchors).
    deltas
        Deltas of all anchors, (batch, anchors, 4).
    grid
        The anchors.
    image
        Height and width [pixels].
    most
        Maximum number of proposals per level, and in total.
    iou
        Limit of the suppression.
    """
    scores, indices, groups, begin = [], [], [], 0
    for level, count in enumerate(grid.level_counts):
        best = tf.math.top_k(tf.stop_gradient(objectness[:, begin : begin + count]), min(most, count))
        scores.append(best.values)
        indices.append(best.indices + begin)
        groups.append(np.full(min(most, count), level, np.int32))
        begin += count
    index = tf.concat(indices, axis=1)
    chosen = tf.gather(tf.stop_gradient(deltas), index, batch_dims=1)
    boxes = clip(decode(chosen, tf.gather(grid.boxes, index), image), image)
    # Boxes outside the image have no area after clipping.
    score = tf.where(area(boxes) > 0, tf.concat(scores, axis=1), _NO_SCORE)
    most = min(most, index.shape[1])
    kept, valid = suppress(boxes, score, np.concatenate(groups), iou=iou, most=most, above=_NO_SCORE)
    return tf.gather(boxes, kept, batch_dims=1), valid


def detect(
    logits: tf.Tensor,
    deltas: tf.Tensor,
    regions: tuple[tf.Tensor, tf.Tensor],
    image: tuple[int, int],
    settings: Detections,
) -> Found:
    """Return the detections of each image: boxes with good scores, suppressed per class, the best of all classes.

    Parameters
    ----------
    logits
        Scores of background and classes, (batch, n, classes + 1).
    deltas
        Deltas of each class, (batch, n, classes + 1, 4).
    regions
        Boxes (batch, n, 4), and which exist, (batch, n) bool.
    image
        Height and width [pixels].
    settings
        Limits.
    """
    proposals, exist = regions
    batch, count, outputs = logits.shape
    # Class by class, without the background.
    scores = tf.where(exist[..., None], tf.nn.softmax(logits), 0.0)[..., 1:]
    boxes = clip(decode(deltas[:, :, 1:] / DELTA_SCALE, proposals[:, :, None, :], image), image)
    flat_scores = tf.reshape(scores, [batch, -1])
    flat_boxes = tf.reshape(boxes, [batch, -1, 4])
    classes = np.tile(np.arange(outputs - 1, dtype=np.int32), count)
    most = min(settings.per_image, len(classes))
    kept, valid = suppress(flat_boxes, flat_scores, classes, iou=settings.iou, most=most, above=settings.score)
    return Found(
        boxes=tf.gather(flat_boxes, kept, batch_dims=1),
        classes=tf.gather(classes, kept),
        scores=tf.gather(flat_scores, kept, batch_dims=1),
        valid=valid,
    )
