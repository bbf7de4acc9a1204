"""Choose the instances of a weak-scaling result to prune for the most models per minute."""

from collections.abc import Sequence

import numpy as np

from hpcai.mlperf_hpc.rounds.model import Span


def time_to_train_all(spans: Sequence[Span]) -> float:
    """Return the last stop minus the first start [s]."""
    return (max(span.stop_ms for span in spans) - min(span.start_ms for span in spans)) / 1000


def best_pruning(spans: Sequence[Span], at_least: int) -> tuple[int, float]:
    """Return the number of instances that gives the most models per minute, and their time for all [s].

    Parameters
    ----------
    spans
        Run intervals of the instances that count, at least ``at_least``.
    at_least
        Fewest instances that must remain.

    Notes
    -----
    An optimal choice is all instances within a window from the start of one to the stop of another: any other instance
    in the window can be added at no cost. All such windows are tried.
    """
    starts = np.array([span.start_ms for span in spans])
    stops = np.array([span.stop_ms for span in spans])
    best = (len(spans), time_to_train_all(spans))
    for first in np.unique(starts):
        ends = np.sort(stops[starts >= first])[at_least - 1 :]
        if not len(ends):
            break
        times_s = (ends - first) / 1000
        place = int(np.argmax((at_least + np.arange(len(ends))) / times_s))
        choice = (at_least + place, float(times_s[place]))
        if choice[0] * best[1] > best[0] * choice[1]:
            best = choice
    return best
