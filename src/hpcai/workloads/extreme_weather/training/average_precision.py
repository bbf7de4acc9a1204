"""Mean average precision at IoU 0.5; the paper leaves interpolation, averaging and cap open, so we define them here.

Per class, all detections of the set are ranked by score and matched greedily: a detection is right if it overlaps a
true box of its image by an IoU of at least 0.5 that no better-ranked one has taken. The average precision is the area
under the monotone envelope of precision over recall, at all points; the mean is over the classes that occur.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError

MATCH_IOU = 0.5
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Boxes:
    """Boxes of a whole set: image (n,), class (n,), score (n,), and corners (n, 4) as ymin, xmin, ymax, xmax."""

    image: Integers
    label: Integers
    score: Floats
    corners: Floats

    def where(self, mask: NDArray[np.bool_]) -> "Boxes":
        """Return some of the boxes."""
        return Boxes(self.image[mask], self.label[mask], self.score[mask], self.corners[mask])


def mean_average_precision(detections: Boxes, truths: Boxes) -> float:
    """Return the mean over the classes with at least one true box.

    Raises
    ------
    DatasetError
        If there is no true box at all.
    """
    labels = np.unique(truths.label)
    if not labels.size:
        raise DatasetError("validation split: found no box at all, expected at least one; correct the labels")
    precisions = [
        average_precision(detections.where(detections.label == label), truths.where(truths.label == label))
        for label in labels
    ]
    return float(np.mean(precisions))


def average_precision(detections: Boxes, truths: Boxes) -> float:
    """Return the area under the precision envelope of one class, which has at least one true box."""
    right = _right(detections, truths)
    hits = np.cumsum(right)
    precision = hits / np.arange(1, len(hits) + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    # Recall grows by one true box at each right detection.
    return float(envelope[right].sum() / len(truths.image))


def _right(detections: Boxes, truths: Boxes) -> NDArray[np.bool_]:
    """Return, from the highest score to the lowest, which detections are right."""
    # Image and corners break ties, so that the order of ranks and batches does not matter.
    order = np.lexsort((*detections.corners.T, detections.image, -detections.score))
    by_image = {int(image): truths.corners[truths.image == image] for image in np.unique(truths.image)}
    free = {image: np.ones(len(corners), bool) for image, corners in by_image.items()}
    right = np.zeros(len(order), bool)
    for rank, index in enumerate(order):
        image = int(detections.image[index])
        if image not in by_image:
            continue
        overlap = np.where(free[image], _iou(detections.corners[index], by_image[image]), 0.0)
        best = int(overlap.argmax())
        if overlap[best] >= MATCH_IOU:
            right[rank], free[image][best] = True, False
    return right


def _iou(box: Floats, others: Floats) -> Floats:
    """Return intersection over union of one box with others, (n,)."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    common = np.clip(high - low, 0, None).prod(axis=1)
    areas = (others[:, 2:] - others[:, :2]).prod(axis=1) + (box[2:] - box[:2]).prod()
    return np.asarray(common / (areas - common))
