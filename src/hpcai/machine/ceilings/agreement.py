"""When a ceiling has been repeated often enough: its best two repetitions agree, or a bound ends the attempts."""

import time
from collections.abc import Callable, Iterator, Sequence

from hpcai.core.messages import Message
from hpcai.machine.ceilings.sampling import Sample, Summary, best_of, summarise

KEYS = ("kind", "precision", "backend", "place", "threads")
"""What is its own ceiling; of several settings the fastest is in it."""
AGREEMENT_RATIO = 0.05
"""The best two repetitions of a way agree if the second is at most so far below the first: what was reached once may
be an accident, what was reached twice is a rate of the machine."""
MOST_ROUNDS = 12
"""So often ways whose best two do not agree are repeated at most, after the repetitions that all ways have."""
LONGEST_S = 5.0
"""For all these rounds of one process (or place of storage) together; a round that has begun is brought to its end."""
DISAGREE = Message(
    "agreement.disagree",
    "disturbed: the best two of {n} repetitions are {apart:.1%} apart, expected at most {most:.0%}",
)


def agrees(way: Summary) -> bool:
    """Return whether the best two repetitions of a way agree; a single one agrees with nothing."""
    return way.agreement_ratio is not None and way.agreement_ratio <= AGREEMENT_RATIO


def say_disagreement(way: Summary) -> str:
    """Return why a ceiling is called disturbed; blank if its best two repetitions agree."""
    if agrees(way):
        return ""
    if way.agreement_ratio is None:
        return "disturbed: a single repetition, with none to confirm it"
    return DISAGREE(n=way.n, apart=way.agreement_ratio, most=AGREEMENT_RATIO)


def unsettled(samples: Sequence[Sample]) -> tuple[Summary, ...]:
    """Return the fastest way of each ceiling, as far as its best two repetitions do not agree."""
    return tuple(way for way in best_of(summarise(samples), KEYS) if not agrees(way))


def further_rounds(
    seen: Callable[[], Sequence[Sample]], clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Summary, ...]]:
    """Yield, round by round, the ways that have to be repeated, until the best two agree or a bound is met.

    Parameters
    ----------
    seen
        Returns all samples so far; the caller adds to them between two rounds.
    clock
        Monotonic time [s].
    """
    until_s = clock() + LONGEST_S
    for _ in range(MOST_ROUNDS):
        ways = unsettled(seen())
        if not ways or clock() >= until_s:
            return
        yield ways
