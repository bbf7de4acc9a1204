"""Pauses in a timed run: a step, or an evaluation, that took much longer than its neighbours.

A rank that is stopped for a while (a suspended process, a file system that does not answer) delays all ranks: the run
continues and succeeds, but its times include the pause. Its cores were idle meanwhile, so the processor accounting
(:mod:`hpcai.core.disturbance`) cannot detect it.
"""

from collections.abc import Sequence
from statistics import median

from pydantic import BaseModel, ConfigDict, Field

from hpcai.core.messages import Message

STALLED = Message("stalls.stalled", "{longest_s:.3g} s where its neighbours take {beside_s:.2g} s")

NEIGHBOURS = 8
"""Number of neighbours before and after a step: enough for a median that a few pauses do not shift."""
FACTOR, LEAST_S = 5.0, 1.0
"""Undisturbed steps stay below three times their neighbours here, even a first step, which reads data."""
FEWEST = 4
"""With fewer times, the outlier cannot be identified."""


class Stalls(BaseModel):
    """Steps and evaluations that stalled: longer than `LEAST_S`, and than `FACTOR` times the median of `NEIGHBOURS`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: int = Field(ge=0)
    longest_s: float | None = Field(default=None, gt=0, description="The longest of them; None: no pause.")
    beside_s: float | None = Field(default=None, ge=0, description="Median of the neighbours of the longest.")


def find_stalls(*series: Sequence[float]) -> Stalls | None:
    """Find stalls in series of times, each compared with its own neighbours.

    Parameters
    ----------
    series
        Times of a run's steps, and of its evaluations, in the order of measurement [s].

    Returns
    -------
    Stalls or None
        None if all series are too short for a decision.
    """
    long_enough = [times_s for times_s in series if len(times_s) >= FEWEST]
    if not long_enough:
        return None
    found = [stall for times_s in long_enough for stall in _stalls_of(times_s)]
    if not found:
        return Stalls(count=0)
    longest_s, beside_s = max(found)
    return Stalls(count=len(found), longest_s=longest_s, beside_s=beside_s)


def _stalls_of(times_s: Sequence[float]) -> list[tuple[float, float]]:
    """Return the times that stalled [s], each with the median of its neighbours."""
    # No median is below the overall minimum, so long runs have few candidates.
    bound_s = max(LEAST_S, FACTOR * min(times_s))
    found = []
    for place, time_s in enumerate(times_s):
        if time_s > bound_s:
            before, after = times_s[max(place - NEIGHBOURS, 0) : place], times_s[place + 1 : place + 1 + NEIGHBOURS]
            beside_s = median([*before, *after])
            if time_s > FACTOR * beside_s:
                found.append((time_s, beside_s))
    return found


def say_stall(longest_s: float, beside_s: float) -> str:
    """Describe the longest pause, for display with the times that include it."""
    return STALLED(longest_s=longest_s, beside_s=beside_s)
