"""Limits beyond which a model gives no estimate for our own trainings, with a message for each.

They do not apply to published models of published machines, which keep their source's numbers.
"""

import math

from hpcai.core.messages import Message

TOO_EFFICIENT = Message(
    "model_limits.too_efficient",
    "no prediction: its efficiency would be {efficiency:.3g} against {base}, expected at most {most:g}: the base was "
    "measured too slow, or the model omits something that slows ranks down",
)
NOT_COVERED = Message(
    "model_limits.not_covered",
    "no estimate: {share} of the work is covered, expected at least {least:.0%}",
)
NOT_CALIBRATED = Message(
    "model_limits.not_calibrated",
    "no prediction: the measured computation is {ratio:.3g} times the modelled one, expected {low:g} to {high:g}: the "
    "model does not describe what takes the time",
)
LEAST_COVERED_RATIO = 0.90
"""Least share of a step's operations and memory traffic that must have an estimate (the smaller share counts):
omitted work takes time as well, by an unknown amount."""
CALIBRATION_RATIOS = (0.5, 2.0)
"""Measured over modelled computation of the step behind a prediction. Outside these limits something unmodelled takes
the time, and its scaling is unknown."""
MOST_EFFICIENCY_RATIO = 1.0
"""No model here explains superlinear scaling; a higher efficiency means that the base was measured too slow."""
ROUNDING_RATIO = 1e-9
"""Tolerance for model values at a limit, which differ only by the order of computation."""


def why_not_covered(covered_ratio: float) -> str:
    """Return why a sum that covers this share of the work is not an estimate; blank if it is one."""
    if covered_ratio >= LEAST_COVERED_RATIO:
        return ""
    share = "an unknown share" if math.isnan(covered_ratio) else f"{covered_ratio:.3%}"
    return NOT_COVERED(share=share, least=LEAST_COVERED_RATIO)


def why_not_calibrated(calibration_ratio: float) -> str:
    """Return why a model that needs this calibration factor cannot predict; blank if it can."""
    low, high = CALIBRATION_RATIOS
    if low <= calibration_ratio <= high:
        return ""
    return NOT_CALIBRATED(ratio=calibration_ratio, low=low, high=high)


def is_too_efficient(efficiency_ratio: float) -> bool:
    """Return whether an efficiency exceeds what a model may predict; an unknown one does not."""
    return efficiency_ratio > MOST_EFFICIENCY_RATIO * (1 + ROUNDING_RATIO)


def why_too_efficient(efficiency_ratio: float, base: str) -> str:
    """Return why this efficiency against a base is not a valid prediction; blank if it is."""
    if not is_too_efficient(efficiency_ratio):
        return ""
    return TOO_EFFICIENT(efficiency=efficiency_ratio, base=base, most=MOST_EFFICIENCY_RATIO)
