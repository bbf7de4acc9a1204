"""Anchors, and which anchors or regions the losses see: assignment to the true boxes and balanced random sampling."""

from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from hpcai.workloads.extreme_weather.settings import Anchors

FINEST_STRIDE = 4
"""Pixels per cell of P2; each next level has twice as many."""


@dataclass(frozen=True)
class AnchorGrid:
    """All anchors of an image: boxes (n, 4) [pixels], and the number of anchors of each level."""

    boxes: NDArray[np.float32]
    level_counts: tuple[int, ...]


@dataclass(frozen=True)
class Assignment:
    """Training targets of candidates (batch, n): positive, negative or neither, and the index of the true box."""

    positive: tf.Tensor
    negative: tf.Tensor
    matched: tf.Tensor


@dataclass(frozen=True)
class Sample:
    """Randomly chosen candidates: indices (batch, k), which are positive, and which slots are used, both bool."""

    indices: tf.Tensor
    positive: tf.Tensor
    used: tf.Tensor


def make_anchors(settings: Anchors, image: tuple[int, int]) -> AnchorGrid:
    """Return the anchors of all levels, from P2 on; within a level by row, column, ratio.

    An anchor of size s and ratio r has the height s sqrt(r) and the width s / sqrt(r), and the centre of its cell.
    Anchors that reach beyond the image are kept.

    Parameters
    ----------
    settings
        Sizes and ratios.
    image
        Height and width [pixels].
    """
    roots = np.sqrt(settings.ratios)
    levels = []
    for number, size in enumerate(settings.sizes):
        stride = FINEST_STRIDE << number
        rows, columns = (-(-edge // stride) for edge in image)
        centres = np.stack(np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij"), axis=-1)
        half = size / 2 * np.stack([roots, 1 / roots], axis=-1)
        middle = (centres[:, :, None, :] + 0.5) * stride
        levels.append(np.concatenate([middle - half, middle + half], axis=-1).reshape(-1, 4))
    return AnchorGrid(np.concatenate(levels).astype(np.float32), tuple(len(level) for level in levels))


def assign_anchors(iou: tf.Tensor, present: tf.Tensor, settings: Anchors) -> Assignment:
    """Assign anchors to true boxes.

    An anchor is positive if it overlaps a box enough, or as much as the best anchor of that box does. It is negative if
    it overlaps every box too little (Ren et al. 2015, section 3.1.2).

    Parameters
    ----------
    iou
        Overlap of anchors and boxes, (batch, n, m).
    present
        Which boxes exist, (batch, m) bool.
    settings
        Limits.
    """
    # Absent boxes overlap nothing.
    iou = tf.where(present[:, None, :], iou, -1.0)
    best = tf.reduce_max(iou, axis=2)
    best_of_box = tf.reduce_max(iou, axis=1, keepdims=True)
    is_best = tf.reduce_any((iou == best_of_box) & (iou > 0), axis=2)
    positive = (best >= settings.positive_iou) | is_best
    return Assignment(
        positive, (best < settings.negative_iou) & ~positive, tf.argmax(iou, axis=2, output_type=tf.int32)
    )


def assign_regions(iou: tf.Tensor, present: tf.Tensor, valid: tf.Tensor, positive_iou: float) -> Assignment:
    """Assign regions to true boxes: foreground from a minimum overlap, background below it.

    Parameters
    ----------
    iou
        Overlap of regions and boxes, (batch, n, m).
    present
        Which boxes exist, (batch, m) bool.
    valid
        Which regions exist, (batch, n) bool.
    positive_iou
        Minimum overlap of foreground.
    """
    iou = tf.where(present[:, None, :], iou, -1.0)
    best = tf.reduce_max(iou, axis=2)
    matched = tf.argmax(iou, axis=2, output_type=tf.int32)
    return Assignment(valid & (best >= positive_iou), valid & (best < positive_iou), matched)


def sample(assignment: Assignment, size: int, most_positive: int, seed: tf.Tensor) -> Sample:
    """Choose candidates at random: positive ones up to a limit, then negative ones as far as available.

    Parameters
    ----------
    assignment
        Positive and negative candidates, (batch, n).
    size
        Candidates per image; at most n are chosen.
    most_positive
        Largest number of positive candidates.
    seed
        Shape (2,) int32.
    """
    count = assignment.positive.shape[1]
    size = min(size, count)
    keys = tf.random.stateless_uniform(tf.shape(assignment.positive), seed)
    positive, positive_count = _draw(assignment.positive, keys, min(most_positive, size))
    negative, negative_count = _draw(assignment.negative, keys, size)
    # Slot j holds positive candidate j or, after the last positive one, the next negative candidate.
    slots = tf.range(size)[None, :]
    is_positive = slots < positive_count
    after = slots - positive_count
    order = tf.where(is_positive, tf.minimum(slots, positive.shape[1] - 1), positive.shape[1] + tf.nn.relu(after))
    indices = tf.gather(tf.concat([positive, negative], axis=1), order, batch_dims=1)
    return Sample(indices, is_positive, is_positive | (after < negative_count))


def _draw(wanted: tf.Tensor, keys: tf.Tensor, most: int) -> tuple[tf.Tensor, tf.Tensor]:
    """Return indices (batch, most) that begin with the wanted candidates of the highest keys, and their numbers."""
    found = tf.math.top_k(tf.where(wanted, keys, -1.0), most)
    return found.indices, tf.reduce_sum(tf.cast(found.values >= 0, tf.int32), axis=1, keepdims=True)
