"""Which of more runs than the rules count are handed in: the window of consecutive ones with the median score."""

from collections.abc import Sequence
from dataclasses import dataclass

SECTION = "MLPerf Training rules, Benchmark Results, Scoring"


@dataclass(frozen=True)
class Window:
    """Consecutive runs of a result.

    Attributes
    ----------
    first, length
        Index of the first run in the order of their start, and their number.
    note
        How the window was chosen, or what is wrong with it.
    """

    first: int
    length: int
    note: str


def choose_window(scores: Sequence[float], runs: int, by_rule: int) -> Window:
    """Choose the window of ``by_rule`` consecutive runs whose score is the median of all windows' scores.

    Parameters
    ----------
    scores
        Score of each window [s], by its first run: the mean without the fastest and the slowest run, infinity for one
        that would be no valid result; empty where there are not more runs than the rules count.
    runs
        Number of all runs, in the order of their start.
    by_rule
        Number of runs that the rules count.

    Returns
    -------
    Window
        Of an even number of windows the slower of the two in the middle, because both are equally close to the median;
        of equal scores the earliest.

    References
    ----------
    MLPerf Training rules, Benchmark Results, Scoring: "N consecutive runs that are closest to the median result".
    """
    if runs <= by_rule:
        few = f"{runs} of the {by_rule} runs that the rules ask for" if runs < by_rule else ""
        return Window(0, runs, few)
    order = sorted(range(len(scores)), key=lambda first: (scores[first], first))
    first = order[len(order) // 2]
    note = (
        f"runs {first + 1} to {first + by_rule} of {runs} in the order of their start: of {len(scores)} windows of "
        f"{by_rule} the one with the median score ({SECTION})"
    )
    return Window(first, by_rule, note)
