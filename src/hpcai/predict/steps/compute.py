"""Time to compute a training step at a batch, from the measured blocks of its network."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hpcai.core.messages import Message
from hpcai.predict.steps.accuracy import sum_blocks
from hpcai.predict.steps.report import StepTimes

TIMED = Message("compute.timed", "blocks timed at a batch of {batch} samples")
BETWEEN = Message("compute.between", "on the line between blocks timed at batches of {low} and {high} samples")
NOT_TIMED = Message(
    "compute.not_timed",
    "no block of {network} was timed in {precision}; measure it (study key predict.step_blocks)",
)
OUTSIDE = Message(
    "compute.outside",
    "the blocks of {network} were timed at batches of {low} to {high} samples, not at {batch:g}: no time is guessed "
    "outside",
)


@dataclass(frozen=True)
class ComputedStep:
    """What one rank computes in a step, on one core; no input, no exchange.

    Attributes
    ----------
    gradients_s
        Modelled: forward and backward pass of one micro-batch [s]; NaN where `reason` says why.
    update_s
        Measured: one update of all parameters [s].
    basis
        At which batches blocks were timed.
    """

    gradients_s: float
    update_s: float
    basis: str = ""
    reason: str = ""


def compute_at(steps: Sequence[StepTimes], network: str, batch: float, precision: str = "fp32") -> ComputedStep:
    """Return the processor time that a network computes at a batch.

    A timed batch is the sum of its blocks. Between two timed batches the time is on the line between the nearest two.

    Parameters
    ----------
    steps
        All that was measured on a machine.
    network
        Benchmark or reference network.
    batch
        Samples of a micro-batch.
    precision
        Of the training.
    """
    own = {step.batch: sum_blocks(step) for step in steps if (step.network, step.precision) == (network, precision)}
    known = {size: found for size, found in own.items() if not found.reason}
    if not known:
        reasons = dict.fromkeys(found.reason for found in own.values())
        return _unknown("; ".join(reasons) or NOT_TIMED(network=network, precision=precision))
    low = max((size for size in known if size <= batch), default=None)
    high = min((size for size in known if size >= batch), default=None)
    if low is None or high is None:
        return _unknown(OUTSIDE(network=network, low=min(known), high=max(known), batch=batch))
    if low == high:
        return ComputedStep(known[low].gradients_s, known[low].update_s, TIMED(batch=low))
    share = (batch - low) / (high - low)
    ends = (known[low], known[high])
    gradients_s, update_s = (
        (1 - share) * one + share * other
        for one, other in ([end.gradients_s for end in ends], [end.update_s for end in ends])
    )
    return ComputedStep(gradients_s, update_s, BETWEEN(low=low, high=high))


def _unknown(reason: str) -> ComputedStep:
    return ComputedStep(math.nan, math.nan, reason=reason)
