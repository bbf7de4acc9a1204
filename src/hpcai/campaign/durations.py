"""Total time covered by a set of time spans, and how many overlap."""

from collections.abc import Iterable, Sequence


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return how long there was any of some spans [s]."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    return covered


def mean_width(spans: Sequence[tuple[float, float]]) -> float:
    """Return how many spans overlapped on average while there was any."""
    covered = covered_s(spans)
    # Start times are whole seconds: short runs one after another may seem to overlap, never the other way round.
    return max(sum(end - start for start, end in spans) / covered, 1.0) if covered else 1.0
