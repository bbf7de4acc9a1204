"""Limits beyond which a model gives no estimate of our own trainings, with the messages for each.

They do not apply to published models of published machines, whose numbers are their source's.
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
LEAST_COVERED_RATIO = 0.90
"""Of a step's operations and of its memory traffic at least so much must have an estimate, the smaller share counts:
what is left out takes time as well, and nothing tells how much."""
CALIBRATION_RATIOS = (0.5, 2.0)
"""Measured over modelled computation of the step that a prediction starts from: beyond, something else than what is
modelled takes the time, and nothing tells how that scales."""
MOST_EFFICIENCY_RATIO = 1.0
"""No model here knows why more ranks should do more than their share each: above, a base was measured too slow."""
ROUNDING_RATIO = 1e-9
"""So far above a limit a number of a model may be: it is that limit, computed in another order."""


def why_not_covered(covered_ratio: float) -> str:
    """Return why a sum that covers such a share of the work is not an estimate; blank if it is one."""
    if covered_ratio >= LEAST_COVERED_RATIO:
        return ""
    share = "an unknown share" if math.isnan(covered_ratio) else f"{covered_ratio:.3%}"
    return NOT_COVERED(share=share, least=LEAST_COVERED_RATIO)


def why_not_calibrated(calibration_ratio: float) -> str:
    """Return why a model that has to be scaled by such a factor predicts nothing; blank if it may."""
    low, high = CALIBRATION_RATIOS
    if low <= calibration_ratio <= high:
        return ""
    return (
        f"no prediction: the measured computation is {calibration_ratio:.3g} times the modelled one, expected {low:g} "
        f"to {high:g}: the model does not describe what takes the time"
    )


def is_too_efficient(efficiency_ratio: float) -> bool:
    """Return whether an efficiency is above what a model may predict; one that is not known is not."""
    return efficiency_ratio > MOST_EFFICIENCY_RATIO * (1 + ROUNDING_RATIO)


def why_too_efficient(efficiency_ratio: float, base: str) -> str:
    """Return why such an efficiency against a base is not a prediction; blank if it may be one."""
    if not is_too_efficient(efficiency_ratio):
        return ""
    return TOO_EFFICIENT(efficiency=efficiency_ratio, base=base, most=MOST_EFFICIENCY_RATIO)
