"""Decide when a ceiling was repeated often enough: its best two repetitions agree, or a limit is reached."""

import time
from collections.abc import Callable, Iterator, Sequence

from hpcai.core.messages import Message
from hpcai.machine.ceilings.sampling import Sample, Summary, best_of, summarise

KEYS = ("kind", "precision", "backend", "place", "threads")
"""Fields that identify a ceiling; the fastest of several settings represents it."""
AGREEMENT_RATIO = 0.05
"""Maximum relative gap between the best two repetitions that agree: a rate reached once may be an accident, a rate
reached twice belongs to the machine."""
MOST_ROUNDS = 12
"""Maximum number of additional repetitions of a method whose best two disagree."""
LONGEST_S = 5.0
"""Time for all these rounds of one process (or storage location) [s]; a started round is completed."""
DISAGREE = Message(
    "agreement.disagree",
    "disturbed: the best two of {n} repetitions are {apart:.1%} apart, expected at most {most:.0%}",
)


def agrees(way: Summary) -> bool:
    """Return whether the best two repetitions of a method agree; a single one agrees with nothing."""
    return way.agreement_ratio is not None and way.agreement_ratio <= AGREEMENT_RATIO


def say_disagreement(way: Summary) -> str:
    """Return why a ceiling is disturbed; blank if its best two repetitions agree."""
    if agrees(way):
        return ""
    if way.agreement_ratio is None:
        return "disturbed: a single repetition, with none to confirm it"
    return DISAGREE(n=way.n, apart=way.agreement_ratio, most=AGREEMENT_RATIO)


def unsettled(samples: Sequence[Sample]) -> tuple[Summary, ...]:
    """Return the fastest method of each ceiling whose best two repetitions disagree."""
    return tuple(way for way in best_of(summarise(samples), KEYS) if not agrees(way))


def further_rounds(
    seen: Callable[[], Sequence[Sample]], clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Summary, ...]]:
    """Yield, round by round, the methods to repeat, until the best two agree or a limit is reached.

    Parameters
    ----------
    seen
        Returns all samples so far; the caller adds to them between rounds.
    clock
        Monotonic time [s].
    """
    until_s = clock() + LONGEST_S
    for _ in range(MOST_ROUNDS):
        ways = unsettled(seen())
        if not ways or clock() >= until_s:
            return
        yield ways
