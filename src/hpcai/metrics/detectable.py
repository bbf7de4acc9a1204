"""How small a change a number of runs can find, and how many runs a change needs."""

import math
from functools import lru_cache

from scipy import optimize, stats

from hpcai.metrics.statistics import LEVEL

ALPHA = 1 - LEVEL
"""Probability of a false alarm that is accepted."""
POWER = 0.8
"""Probability with which a change is to be found (Cohen 1988, section 2.4)."""
FEWEST_RUNS = 4
"""With four runs on each side the permutation test reaches 2/70, with three only 2/20."""
MOST_RUNS = 10_000
"""No campaign repeats a run more often; a number beyond is infinity."""

_NAN = float("nan")


def detectable_ratio(spread_ratio: float, n_base: int, n_new: int) -> float:
    """Return the smallest change that so many runs find with 80 % probability, as ``ratio - 1``.

    Two-sided t test at 5 % of two normal samples on the logarithm with a common standard deviation; the power is the
    exact one of the non-central t distribution (Cohen 1988, section 2.2).

    Parameters
    ----------
    spread_ratio
        Standard deviation over mean of both sides.
    n_base, n_new
        Number of runs; NaN is returned if a side has none, or both have one.
    """
    freedom = n_base + n_new - 2
    if min(n_base, n_new) < 1 or freedom < 1 or not math.isfinite(spread_ratio):
        return _NAN
    standard_error = spread_ratio * math.sqrt(1 / n_base + 1 / n_new)
    return math.expm1(_noncentrality(freedom) * standard_error)


def runs_needed(spread_ratio: float, change_ratio: float) -> float:
    """Return how many runs each side needs to find a change with 80 % probability.

    Parameters
    ----------
    spread_ratio
        Standard deviation over mean of one side's runs.
    change_ratio
        The change to be found, as ``ratio - 1``: 0.05 for 5 %.

    Returns
    -------
    float
        At least 4 (see :data:`FEWEST_RUNS`); infinity beyond 10,000; NaN if the spread is unknown.

    Raises
    ------
    ValueError
        If the change is not positive.
    """
    if change_ratio <= 0:
        raise ValueError(f"found a change of {change_ratio}; a positive one is needed")
    if not math.isfinite(spread_ratio):
        return _NAN
    low, high = FEWEST_RUNS, MOST_RUNS
    if detectable_ratio(spread_ratio, high, high) > change_ratio:
        return math.inf
    while low < high:
        middle = (low + high) // 2
        if detectable_ratio(spread_ratio, middle, middle) <= change_ratio:
            high = middle
        else:
            low = middle + 1
    return float(low)


@lru_cache(maxsize=4096)
def _noncentrality(freedom: int) -> float:
    """Return the distance of the means, in standard errors, that is found with 80 % probability."""
    critical = float(stats.t.ppf(1 - ALPHA / 2, freedom))
    return float(optimize.brentq(lambda shift: stats.nct.sf(critical, freedom, shift) - POWER, 0.1, 10 * critical))
