"""Time to compute a training step at a batch, from what was timed of its network: the step, or else its blocks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hpcai.core.messages import Message
from hpcai.predict.steps.accuracy import sum_blocks
from hpcai.predict.steps.report import StepTimes

TIMED = Message("compute.timed", "{what} timed at a batch of {batch} samples")
BETWEEN = Message("compute.between", "on the line between {what} timed at batches of {low} and {high} samples")
STEPS, BLOCKS = "steps", "blocks"
"""What was timed: whole steps, or the blocks that they are the sum of."""
NOT_TIMED = Message(
    "compute.not_timed",
    "no step of {network} was timed in {precision}; measure it (study key predict.step_blocks)",
)
OUTSIDE = Message(
    "compute.outside",
    "{what} of {network} timed at batches of {low} to {high} samples, not at {batch:g}: no time is guessed outside",
)


@dataclass(frozen=True)
class ComputedStep:
    """What one rank computes in a step, on one core; no input, no exchange.

    Attributes
    ----------
    gradients_s
        Forward and backward pass of one micro-batch [s]; NaN where `reason` says why.
    update_s
        Measured: one update of all parameters [s].
    basis
        What was timed, and at which batches.
    """

    gradients_s: float
    update_s: float
    basis: str = ""
    reason: str = ""


class Timed(NamedTuple):
    """Times of a network in one precision; none where `reason` says why.

    Attributes
    ----------
    times_s
        By batch, forward and backward pass of a micro-batch, and one update of all parameters [s].
    what
        `STEPS` or `BLOCKS`.
    """

    times_s: Mapping[int, tuple[float, float]]
    what: str
    reason: str = ""


def times_of(steps: Sequence[StepTimes], network: str, precision: str = "fp32") -> Timed:
    """Return the processor times of a network: of its whole steps, or of their blocks if a batch has no whole step.

    Between blocks, a step has operations that no block holds, and they do not shrink with the batch.

    Parameters
    ----------
    steps
        All that was measured on a machine.
    network
        Benchmark or reference network.
    precision
        Of the training.
    """
    own = [step for step in steps if (step.network, step.precision) == (network, precision)]
    sums = {step.batch: sum_blocks(step) for step in own}
    blocks = {size: (found.gradients_s, found.update_s) for size, found in sums.items() if not found.reason}
    if not blocks:
        reasons = dict.fromkeys(found.reason for found in sums.values())
        return Timed({}, BLOCKS, "; ".join(reasons) or NOT_TIMED(network=network, precision=precision))
    whole = {one.batch: (one.step_s - one.update_s, one.update_s) for one in own if one.step_s and one.update_s}
    return Timed(whole, STEPS) if whole.keys() >= blocks.keys() else Timed(blocks, BLOCKS)


def compute_at(steps: Sequence[StepTimes], network: str, batch: float, precision: str = "fp32") -> ComputedStep:
    """Return the processor time that a network computes at a batch, as `times_of` finds it.

    Between two timed batches the time is on the line between the nearest two.

    Parameters
    ----------
    steps, network, precision
        As for `times_of`.
    batch
        Samples of a micro-batch.
    """
    known, what, reason = times_of(steps, network, precision)
    if reason:
        return _unknown(reason)
    low = max((size for size in known if size <= batch), default=None)
    high = min((size for size in known if size >= batch), default=None)
    if low is None or high is None:
        return _unknown(OUTSIDE(what=what, network=network, low=min(known), high=max(known), batch=batch))
    if low == high:
        return ComputedStep(*known[low], TIMED(what=what, batch=low))
    share = (batch - low) / (high - low)
    gradients_s, update_s = (
        (1 - share) * one + share * other for one, other in zip(known[low], known[high], strict=True)
    )
    return ComputedStep(gradients_s, update_s, BETWEEN(what=what, low=low, high=high))


def _unknown(reason: str) -> ComputedStep:
    return ComputedStep(math.nan, math.nan, reason=reason)
