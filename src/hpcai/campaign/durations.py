"""Total time covered by a set of time spans, and how many overlap."""

from collections.abc import Iterable, Sequence


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """Return the time covered by at least one of some spans [s]."""
    covered, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        covered += max(end - max(start, reached), 0.0)
        reached = max(reached, end)
    return covered


def mean_width(spans: Sequence[tuple[float, float]]) -> float:
    """Return the mean number of overlapping spans while there is at least one."""
    covered = covered_s(spans)
    # Start times are whole seconds: consecutive short runs may seem to overlap, but never the reverse.
    return max(sum(end - start for start, end in spans) / covered, 1.0) if covered else 1.0
