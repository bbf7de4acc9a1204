"""From which of the measured scales a step is predicted: the nearest from which anything can be."""

import math
from collections.abc import Sequence

from hpcai.predict.scales.measured import MeasuredScales
from hpcai.predict.scales.model import Asked, ScaleStep, predict_scale
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import Setting


def predict_from_nearest(measured: MeasuredScales, own: Sequence[Point], asked: Asked) -> tuple[Point, ScaleStep]:
    """Return the step that is asked for, and the measured scale that it starts from.

    Parameters
    ----------
    measured
        The study and what was measured of its machine.
    own
        Measured scales of one benchmark, at least one. The one that is asked for counts only if there is no other.
    asked
        What is wanted.

    Returns
    -------
    tuple
        If no scale leads to a prediction, the nearest one, and the reason in the step.
    """
    others = [point for point in own if point.setting != asked.setting] or list(own)
    found = [
        (point, predict_scale(measured, point, asked))
        for point in sorted(others, key=lambda point: _farness(point.setting, asked.setting))
    ]
    return next(((point, step) for point, step in found if not step.reason), found[0])


def _farness(one: Setting, asked: Setting) -> tuple[bool, float, float]:
    """Order measured scales: those of the same batch of a rank first, then by octaves of ranks and of batches."""
    batches = abs(math.log2(max(asked.micro_batch, 1e-9) / one.micro_batch))
    return (
        one.accumulation != asked.accumulation or batches > 0,
        abs(math.log2(asked.ranks / one.ranks)),
        batches,
    )
