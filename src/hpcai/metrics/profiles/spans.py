"""Intervals of time: merged, measured and intersected."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def group_overlapping(starts: Floats, ends: Floats) -> NDArray[np.int64]:
    """Return, for intervals sorted by start, the union of overlapping intervals that each belongs to.

    Intervals that only touch do not overlap.

    Parameters
    ----------
    starts, ends
        Intervals in ascending order of starts [any unit].
    """
    if not len(starts):
        return np.empty(0, np.int64)
    reached = np.maximum.accumulate(ends)
    begins = np.append(True, starts[1:] >= reached[:-1])
    return np.asarray(np.cumsum(begins) - 1, np.int64)


def merge_intervals(starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Return starts and ends of the unions of overlapping intervals, in ascending order.

    Parameters
    ----------
    starts, ends
        Intervals in any order [any unit].
    """
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    first = np.flatnonzero(np.diff(group_overlapping(starts, ends), prepend=-1))
    return starts[first], np.maximum.reduceat(ends, first) if len(first) else ends


def covered_length(starts: Floats, ends: Floats, from_starts: Floats, from_ends: Floats) -> float:
    """Return the length of some intervals covered by others; each set is merged first [unit of the intervals].

    Parameters
    ----------
    starts, ends
        Intervals to be covered.
    from_starts, from_ends
        Covering intervals.
    """
    starts, ends = merge_intervals(starts, ends)
    other_starts, other_ends = merge_intervals(from_starts, from_ends)
    if not len(starts) or not len(other_starts):
        return 0.0
    return float(
        (_covered_until(ends, other_starts, other_ends) - _covered_until(starts, other_starts, other_ends)).sum()
    )


def _covered_until(times: Floats, starts: Floats, ends: Floats) -> Floats:
    """Return the total length of disjoint intervals before each time."""
    lengths = np.append(0.0, np.cumsum(ends - starts))
    number = np.searchsorted(starts, times, side="right")
    last = np.maximum(number - 1, 0)
    return np.asarray(lengths[number] - np.where(number > 0, np.maximum(ends[last] - times, 0.0), 0.0))


def touches(starts: Floats, ends: Floats, doubtful: pd.DataFrame | None) -> NDArray[np.bool_]:
    """Return which intervals overlap or touch a doubtful one.

    Parameters
    ----------
    starts, ends
        Intervals [s].
    doubtful
        ``start_s, end_s``, or None.
    """
    if doubtful is None or doubtful.empty or not len(starts):
        return np.zeros(len(starts), np.bool_)
    low, high = doubtful["start_s"].to_numpy(), doubtful["end_s"].to_numpy()
    begun = np.searchsorted(np.sort(low), ends, side="right")
    ended = np.searchsorted(np.sort(high), starts, side="left")
    return np.asarray(begun > ended)
