"""Mean average precision on cases worked out by hand."""

import numpy as np
import pytest

from hpcai.core.errors import DatasetError
from hpcai.workloads.extreme_weather.training.average_precision import Boxes, average_precision, mean_average_precision

SQUARE = (0.0, 0.0, 10.0, 10.0)
FAR = (50.0, 50.0, 60.0, 60.0)
Row = tuple[int, int, float, tuple[float, float, float, float]]


def boxes(*rows: Row) -> Boxes:
    """Rows: image, class, score, corners."""
    image, label, score, corners = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Boxes(
        np.array(image, np.int64), np.array(label, np.int64), np.array(score), np.array(corners, float).reshape(-1, 4)
    )


def test_perfect_detections() -> None:
    truths = boxes((1, 0, 0, SQUARE), (2, 1, 0, FAR))
    assert mean_average_precision(boxes((1, 0, 0.9, SQUARE), (2, 1, 0.6, FAR)), truths) == 1


def test_no_detection() -> None:
    assert mean_average_precision(boxes(), boxes((1, 0, 0, SQUARE))) == 0


def test_area_under_the_envelope() -> None:
    # Right, wrong, right, wrong, right, and one of four boxes not found.
    # Precisions 1, 1/2, 2/3, 1/2, 3/5 at recalls 1/4, 1/4, 1/2, 1/2, 3/4.
    truths = boxes(*[(image, 0, 0.0, SQUARE) for image in range(4)])
    found = [(0, SQUARE), (0, FAR), (1, SQUARE), (1, FAR), (2, SQUARE)]
    detections = boxes(*[(image, 0, 1 - rank / 10, corners) for rank, (image, corners) in enumerate(found)])
    assert average_precision(detections, truths) == pytest.approx((1 + 2 / 3 + 3 / 5) / 4)


def test_the_envelope_is_monotone() -> None:
    # Wrong, then right: precision 1/2 at recall 1.
    truths = boxes((0, 0, 0.0, SQUARE))
    assert average_precision(boxes((0, 0, 0.9, FAR), (0, 0, 0.8, SQUARE)), truths) == pytest.approx(0.5)
    # Wrong, right, right: precisions 0, 1/2, 2/3; the envelope is 2/3 throughout.
    truths = boxes((0, 0, 0.0, SQUARE), (1, 0, 0.0, SQUARE))
    detections = boxes((0, 0, 0.9, FAR), (0, 0, 0.8, SQUARE), (1, 0, 0.7, SQUARE))
    assert average_precision(detections, truths) == pytest.approx(2 / 3)


def test_one_detection_per_box() -> None:
    truths = boxes((0, 0, 0.0, SQUARE), (1, 0, 0.0, SQUARE))
    detections = boxes((0, 0, 0.9, SQUARE), (0, 0, 0.8, SQUARE), (1, 0, 0.7, SQUARE))
    assert average_precision(detections, truths) == pytest.approx((1 + 2 / 3) / 2)


def test_a_second_detection_may_take_another_box() -> None:
    near = (0.0, 2.0, 10.0, 12.0)
    truths = boxes((0, 0, 0.0, SQUARE), (0, 0, 0.0, near))
    middle = (0.0, 0.5, 10.0, 10.5)
    assert average_precision(boxes((0, 0, 0.9, SQUARE), (0, 0, 0.8, middle)), truths) == 1


def test_overlap_of_exactly_one_half_counts() -> None:
    truths = boxes((0, 0, 0.0, SQUARE))
    assert average_precision(boxes((0, 0, 0.9, (0.0, 0.0, 10.0, 5.0))), truths) == 1
    assert average_precision(boxes((0, 0, 0.9, (0.0, 0.0, 10.0, 4.9))), truths) == 0


def test_other_images_and_classes_do_not_count() -> None:
    truths = boxes((0, 0, 0.0, SQUARE))
    assert mean_average_precision(boxes((1, 0, 0.9, SQUARE)), truths) == 0
    assert mean_average_precision(boxes((0, 1, 0.9, SQUARE)), truths) == 0
    # The class without a box is left out, its detections with it.
    assert mean_average_precision(boxes((0, 0, 0.9, SQUARE), (0, 3, 0.9, SQUARE)), truths) == 1


def test_mean_over_the_classes_that_occur() -> None:
    truths = boxes((0, 0, 0.0, SQUARE), (0, 2, 0.0, FAR))
    assert mean_average_precision(boxes((0, 0, 0.9, SQUARE)), truths) == 0.5


def test_order_does_not_matter_even_with_ties() -> None:
    random = np.random.default_rng(1)
    truths = boxes(*[(image, 0, 0.0, SQUARE) for image in range(8)])
    rows = [
        (int(random.integers(8)), 0, round(random.random(), 1), (0.0, 0.0, 10.0, w)) for w in random.uniform(3, 12, 30)
    ]
    scores = {average_precision(boxes(*[rows[i] for i in random.permutation(30)]), truths) for _ in range(10)}
    assert len(scores) == 1


def test_a_set_without_boxes() -> None:
    with pytest.raises(DatasetError, match="found no box at all"):
        mean_average_precision(boxes((0, 0, 0.9, SQUARE)), boxes())
