"""The smallest change detectable with a number of runs, and the number of runs needed to detect a change."""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from hpcai.metrics.statistics.permutations import arrange, smallest_permutation_p
from hpcai.metrics.statistics.summaries import LEVEL

ALPHA = 1 - LEVEL
"""Accepted probability of a false alarm."""
POWER = 0.8
"""Probability of detecting a change (Cohen 1988, section 2.4)."""
FEWEST_RUNS = 2
"""A single run on a side never shows a change."""
MOST_RUNS = 10_000
"""Larger numbers of runs are reported as infinity; no campaign repeats a run more often."""
SIMULATED_ARRANGEMENTS = 1_000
"""Up to this many arrangements (6 runs against 6 have 924) the rule is simulated; beyond, only its t test counts."""
CAMPAIGNS = 5_000
"""Simulated campaigns: the power of 80 % is then accurate to 0.6 percentage points."""

_NAN = float("nan")


def detectable_ratio(spread_ratio: float, n_base: int, n_new: int, scores: int = 1) -> float:
    """Return the smallest change detected with 80 % probability by so many runs, as ``ratio - 1``.

    The power is that of the actual rule
    (:meth:`hpcai.metrics.statistics.significance.Significance.is_significant`) for normal samples with a common
    standard deviation, on the logarithm. With few arrangements of the runs it comes from simulated campaigns; with
    many, from the non-central t distribution (Cohen 1988, section 2.2) with the critical value of the smaller side's
    degrees of freedom.

    Parameters
    ----------
    spread_ratio
        Standard deviation over mean of both sides.
    n_base, n_new
        Number of runs; the result is NaN if a side has fewer than two, or if the runs show no spread.
    scores
        Number of scores tested at once. The change is that of one score alone, for which Holm's correction equals
        Bonferroni's; if others change as well, smaller changes are detected.
    """
    if min(n_base, n_new) < FEWEST_RUNS or not math.isfinite(spread_ratio) or spread_ratio <= 0:
        return _NAN
    fewer, more = sorted((n_base, n_new))
    exponent = _shift_needed(fewer, more, max(scores, 1)) * spread_ratio
    return math.expm1(exponent) if exponent < math.log(1e9) else math.inf


def runs_needed(spread_ratio: float, change_ratio: float, scores: int = 1) -> float:
    """Return how many runs each side needs to detect a change with 80 % probability.

    Parameters
    ----------
    spread_ratio
        Standard deviation over mean of one side's runs.
    change_ratio
        The change to detect, as ``ratio - 1``: 0.05 for 5 %.
    scores
        Number of scores tested at once, see :func:`detectable_ratio`.

    Returns
    -------
    float
        At least 2; infinity beyond 10,000; NaN if the spread is unknown or zero.

    Raises
    ------
    ValueError
        If the change is not positive.
    """
    if change_ratio <= 0:
        raise ValueError(f"found a change of {change_ratio}; a positive one is needed")
    if not math.isfinite(spread_ratio) or spread_ratio <= 0:
        return _NAN
    low, high = FEWEST_RUNS, MOST_RUNS
    if detectable_ratio(spread_ratio, high, high, scores) > change_ratio:
        return math.inf
    while low < high:
        middle = (low + high) // 2
        if detectable_ratio(spread_ratio, middle, middle, scores) <= change_ratio:
            high = middle
        else:
            low = middle + 1
    return float(low)


@lru_cache(maxsize=4096)
def _shift_needed(fewer: int, more: int, scores: int) -> float:
    """Return the distance of the means, in standard deviations of one run, detected with 80 % probability."""
    critical = float(stats.t.isf(ALPHA / scores / 2, fewer - 1))
    if math.comb(fewer + more, fewer) > SIMULATED_ARRANGEMENTS:
        error = math.sqrt(1 / fewer + 1 / more)
        return _noncentrality(critical, fewer + more - 2) * error
    base, new = _campaigns(fewer, more)
    errors = np.sqrt(base.var(axis=1, ddof=1) / fewer + new.var(axis=1, ddof=1) / more)
    by_t = critical * errors - (new.mean(axis=1) - base.mean(axis=1))
    return float(np.quantile(np.maximum(by_t, _shifts_by_order(fewer, more)), POWER))


def _noncentrality(critical: float, freedom: int) -> float:
    """Return the distance of the means, in standard errors, that exceeds a critical value with 80 % probability."""
    return float(optimize.brentq(lambda shift: stats.nct.sf(critical, freedom, shift) - POWER, 0.0, 10 * critical + 10))


def _campaigns(n_base: int, n_new: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the runs of simulated campaigns without a change."""
    random = np.random.default_rng(1)
    return random.normal(size=(CAMPAIGNS, n_base)), random.normal(size=(CAMPAIGNS, n_new))


@lru_cache(maxsize=64)
def _shifts_by_order(n_base: int, n_new: int) -> NDArray[np.float64]:
    """Return, per simulated campaign, the shift of its new side from which the order of its runs is significant.

    That is the permutation test at 5 % or, if it cannot reach 5 %, all values beyond those of the other side.
    """
    base, new = _campaigns(n_base, n_new)
    if smallest_permutation_p(n_base, n_new) > ALPHA:
        separated: NDArray[np.float64] = base.max(axis=1) - new.min(axis=1)
        return separated
    picks, _ = arrange(n_base + n_new, n_new)
    moved = (picks < n_new).sum(axis=1)
    chosen = np.zeros((n_base + n_new, len(picks)))
    np.put_along_axis(chosen, picks.T, 1.0, axis=0)
    # A shift s adds s * slope to an arrangement's difference of means, and s itself to the measured difference.
    slopes = moved / n_new - (n_new - moved) / n_base
    differences = np.hstack([new, base]) @ (chosen / n_new - (1 - chosen) / n_base)
    measured = differences[:, :1]
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(slopes < 1, (differences - measured) / (1 - slopes), np.inf)
        below = np.where(slopes > -1, (-differences - measured) / (1 + slopes), np.inf)
    # Up to these shifts an arrangement is as extreme as the measured one; at most 5 % of the arrangements may be.
    until = np.maximum(above, below)
    allowed = math.floor(ALPHA * len(picks) + 1e-9)
    found: NDArray[np.float64] = np.partition(until, -allowed - 1, axis=1)[:, -allowed - 1]
    return found
