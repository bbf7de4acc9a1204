"""The runs of a result that has more runs than its rules count: the window of consecutive ones with the median score.

The tables of scales, the tables of rounds and the submission all choose it here (:func:`find_window`), by the times of
the records, so that they agree.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hpcai.core.messages import Message

SECTION = "MLPerf Training rules, Benchmark Results, Scoring"
TOO_FEW = Message("window.too_few", "{runs} of the {needed} runs that the rules require")
CHOSEN = Message(
    "window.chosen",
    "runs {first} to {last} of {runs} in the order of their start: of {windows} windows of {by_rule} the one with the "
    "median score ({section})",
)


@dataclass(frozen=True)
class Window:
    """Consecutive runs of a result.

    Attributes
    ----------
    first, length
        Index of the first run in order of start, and number of runs.
    note
        How the window was chosen, or its defect.
    """

    first: int
    length: int
    note: str


def score_windows(times_s: Sequence[float], by_rule: int) -> list[float]:
    """Return the score of each window [s]: the mean time without the fastest and the slowest run.

    Parameters
    ----------
    times_s
        Times to train of all runs in the order of their start [s]; infinity for a run that missed the target.
    by_rule
        Number of runs that the rules count.

    Returns
    -------
    list
        One score per window, by its first run; infinity for a window with more than one such run.
    """
    parts = (sorted(times_s[first : first + by_rule])[1:-1] for first in range(len(times_s) - by_rule + 1))
    return [math.fsum(part) / len(part) if part and part[-1] < math.inf else math.inf for part in parts]


def choose_window(scores: Sequence[float], runs: int, by_rule: int) -> Window:
    """Choose the window of ``by_rule`` consecutive runs whose score is the median of all windows.

    Parameters
    ----------
    scores
        Score of each window [s], by its first run (:func:`score_windows`). Not used if there are no more runs than the
        rules count.
    runs
        Number of all runs, in the order of their start.
    by_rule
        Number of runs that the rules count.

    Returns
    -------
    Window
        With an even number of windows, the slower of the two in the middle, because both are equally close to the
        median; among equal scores, the earliest.

    References
    ----------
    MLPerf Training rules, Benchmark Results, Scoring: "N consecutive runs that are closest to the median result".
    """
    if runs <= by_rule:
        few = TOO_FEW(runs=runs, needed=by_rule) if runs < by_rule else ""
        return Window(0, runs, few)
    order = sorted(range(len(scores)), key=lambda first: (scores[first], first))
    first = order[len(order) // 2]
    facts = {"first": first + 1, "last": first + by_rule, "runs": runs, "windows": len(scores), "by_rule": by_rule}
    return Window(first, by_rule, CHOSEN(**facts, section=SECTION))


def find_window(
    starts: Sequence[tuple[str, int]], times_s: Iterable[float | None], by_rule: int
) -> tuple[list[int], str]:
    """Return the places of the runs that make a result, in the order of their start, and how they were chosen.

    Parameters
    ----------
    starts
        Start (UTC) and repetition of each run.
    times_s
        Time to train of each run by its record [s]; None or NaN for one without a time that counts.
    by_rule
        Number of runs that the rules count.
    """
    known = [math.inf if time_s is None or math.isnan(time_s) else time_s for time_s in times_s]
    order = sorted(range(len(starts)), key=starts.__getitem__)
    window = choose_window(score_windows([known[place] for place in order], by_rule), len(order), by_rule)
    return order[window.first : window.first + window.length], window.note
