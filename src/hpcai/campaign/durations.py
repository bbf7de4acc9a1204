"""Long durations as people say them, and how many things went on at the same time."""

from collections.abc import Iterable, Sequence


def say_duration(seconds: float | None) -> str:
    """Return a duration [s] in days, hours, minutes and seconds: the two largest; "not known" for None."""
    if seconds is None:
        return "not known"
    whole = round(seconds)
    parts = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    first = next((number for number, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count or unit == parts[first][1])


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
    # Start times are whole seconds: short runs one after the other may seem to overlap, never the other way round.
    return max(sum(end - start for start, end in spans) / covered, 1.0) if covered else 1.0
