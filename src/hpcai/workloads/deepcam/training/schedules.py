"""Learning rate of each optimizer step, as the reference's schedulers give it (utils/schedulers.py).

The reference passes 0 as the last step, so the counter is 1 at the first step; only the cosine without warm-up starts
at 0. The reference multiplies the previous rate; here the same values are functions of the step.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class WarmUp:
    """Linear growth over the first steps: from 0 to the base if the factor is 1, else from the base to factor x it."""

    steps: int
    factor: float = 1.0

    def rate(self, counter: int, base: float) -> float:
        """Return the learning rate while the counter is below the number of steps."""
        share = counter / self.steps
        return base * (share if self.factor == 1 else 1 + (self.factor - 1) * share)

    def last_rate(self, base: float) -> float:
        """Return the rate after the warm-up: the last one below the full value, because the counter is never 0."""
        return self.rate(self.steps - 1, base) if self.steps > 1 else base


def multistep_rate(step: int, base: float, warm_up: WarmUp, milestones: tuple[int, ...], decay_rate: float) -> float:
    """Return the learning rate of an optimizer step, counted from 0.

    After a warm-up over W steps a milestone m takes effect at the counter's m + W + 1, without one at m.
    """
    counter = step + 1
    if counter < warm_up.steps:
        return warm_up.rate(counter, base)
    delay = warm_up.steps + 1 if warm_up.steps else 0
    passed = sum(counter >= milestone + delay for milestone in milestones)
    return warm_up.last_rate(base) * decay_rate**passed


def cosine_rate(step: int, base: float, warm_up: WarmUp, t_max: int, eta_min: float) -> float:
    """Return the learning rate of an optimizer step, counted from 0.

    The first descent starts from the last rate of the warm-up; later rises peak at the base rate.
    """
    counter = step + 1 if warm_up.steps else step
    if counter < warm_up.steps:
        return warm_up.rate(counter, base)
    elapsed = counter - warm_up.steps
    highest = warm_up.last_rate(base) if elapsed <= t_max else base
    return eta_min + (highest - eta_min) * (1 + math.cos(math.pi * elapsed / t_max)) / 2
