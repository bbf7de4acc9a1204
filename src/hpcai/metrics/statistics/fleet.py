"""Find the members of a fleet that are slower than the others, from a few repetitions of each.

Values are compared as logarithms, so that a loss is a share. The spread of healthy members comes from the fleet: a
robust scale of the members' medians, which holds the differences between healthy members as well as the noise of the
repetitions. Fewer than :data:`LEAST_FLEET` members tell it too badly; then an assumed one joins the measured noise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEAST_TO_SEE, LEAST_FLEET = 8, 16
"""Members from which on their spread counts if it refutes the assumed one, and from which on it always does.

Of fewer, a single bad member would dominate it. Eight give it six degrees of freedom: alone, it would hide a loss of
24 %, where an assumed spread of 2 % shows one of 13 % (`bench/bench_acceptance.py`).
"""
DOUBT = 1.5
"""Spread of few members over the assumed one that refutes it; 5 % of fleets of eight that are as assumed exceed it."""
MOST_MEMBERS = 2000
"""Of larger fleets, this many members give the spread: pairs of members grow with the square."""
MOST_REPEATS = 50
"""Of more repetitions, this many give the noise."""
SHAMOS = 1 / (math.sqrt(2) * stats.norm.ppf(0.75))
"""Turns a median of absolute differences of pairs into a standard deviation of normal values (Shamos 1976)."""
EFFICIENCY = 0.86
"""Of this scale for normal values, relative to the standard deviation (Rousseeuw and Croux 1993): it scales the degrees
of freedom. The median absolute deviation has 0.37, and needs far more nodes for the same power."""
FLOOR = 0.05
"""Smaller shares of noise in a spread leave its degrees of freedom as they are: practically infinite."""
MEDIAN_VARIANCE = math.pi / 2
"""Variance of a median of normal values over that of their mean."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FleetTest:
    """What a member must show to count as slower.

    Attributes
    ----------
    tests
        Comparisons of the whole acceptance: p values are multiplied by it (Bonferroni).
    assumed_spread_ratio
        Standard deviation between healthy members of small fleets, relative.
    """

    tests: int
    assumed_spread_ratio: float


@dataclass(frozen=True)
class Place:
    """One member in its fleet.

    Attributes
    ----------
    value, fleet_median
        Median of its repetitions, and the reference: the median of all members' medians, of two the better one.
    loss_ratio
        How much slower than the reference; negative: faster.
    spread_ratio
        Standard deviation between members, relative: measured, or assumed in small fleets.
    noise_ratio
        Standard deviation of the repetitions, relative, pooled over the fleet.
    score
        Loss over the standard deviation of such a loss among healthy members (logarithms).
    p_value
        Of the score by Student's t, one-sided, times the number of tests; at most 1.
    """

    value: float
    fleet_median: float
    fleet_n: int
    loss_ratio: float
    spread_ratio: float
    noise_ratio: float
    score: float
    p_value: float


def place_in_fleet(
    values: Mapping[str, Sequence[float]], test: FleetTest, *, lower_is_better: bool, in_passes: bool = False
) -> dict[str, Place]:
    """Return the place of each member; a single member has no score and no p value (NaN).

    Parameters
    ----------
    values
        Repetitions of each member, all above 0, in one unit.
    lower_is_better
        For times.
    in_passes
        Whether value k of every member comes from the same pass over all members, as many of each. What a pass has in
        common, such as another load of shared hosts, then counts neither as a loss nor as noise.
    """
    sign = -1.0 if lower_is_better else 1.0
    logs = {name: sign * np.log(np.asarray(own, dtype=np.float64)) for name, own in values.items()}
    if in_passes:
        logs, factor = _less_passes(logs)
    else:
        factor = 1.0
    medians = np.array([_median(own) for own in logs.values()])
    noise, noise_df = _pooled_noise(list(logs.values()))
    noise, noise_df = noise * factor, noise_df / factor**2
    repeats = np.median([len(own) for own in logs.values()])
    own_noise = noise * math.sqrt(MEDIAN_VARIANCE / repeats) if repeats > 2 else noise / math.sqrt(repeats)
    spread, scale, freedom = _spread(medians, own_noise, noise_df, test)
    centre = float(np.max(medians)) if len(medians) == 2 else _median(medians)
    scale *= math.sqrt(2.0) if len(medians) == 2 else math.sqrt(1 + MEDIAN_VARIANCE / len(medians))
    scores = (centre - medians) / scale if len(medians) > 1 and scale > 0 else np.full(len(medians), np.nan)
    p_values = np.minimum(1.0, stats.t.sf(scores, freedom) * test.tests)
    return {
        name: Place(
            value=math.exp(sign * median),
            fleet_median=math.exp(sign * centre),
            fleet_n=len(medians),
            loss_ratio=1 - math.exp(median - centre),
            spread_ratio=spread,
            noise_ratio=noise,
            score=float(score),
            p_value=float(p_value),
        )
        for name, median, score, p_value in zip(logs, medians, scores, p_values, strict=True)
    }


def _less_passes(logs: Mapping[str, Floats]) -> tuple[dict[str, Floats], float]:
    """Return logarithms less the mean of their pass, and the factor that this took from their standard deviation.

    With the mean, a slow member moves all values alike, so no difference between or within members changes by it; with
    a median, the middle one of three would have no noise at all.
    """
    rows = np.array(list(logs.values()))
    if len(rows) < 2:
        return dict(logs), 1.0
    apart = rows - rows.mean(axis=0) + rows.mean()
    return dict(zip(logs, apart, strict=True)), math.sqrt(len(rows) / (len(rows) - 1))


def _spread(medians: Floats, own_noise: float, noise_df: float, test: FleetTest) -> tuple[float, float, float]:
    """Return the spread between members, the standard deviation of a healthy member's median, and its freedom."""
    assumed = test.assumed_spread_ratio
    scale = math.hypot(assumed, own_noise)
    # Without the slowest: of eight members, one that is bad would raise the spread by half.
    seen = shamos(np.sort(medians)[1:]) if LEAST_TO_SEE <= len(medians) < LEAST_FLEET else 0.0
    if len(medians) < LEAST_FLEET and seen <= DOUBT * scale:
        # Only the noise was estimated (Satterthwaite 1946: freedom of a sum of variances, of which one is known).
        return assumed, scale, max(noise_df, 1.0) / max(own_noise / scale, FLOOR) ** 4
    fleet = shamos(medians[:: -(-len(medians) // MOST_MEMBERS)])
    fleet_df = EFFICIENCY * (len(medians) - 1)
    return fleet, max(fleet, own_noise), fleet_df if fleet >= own_noise else max(noise_df, 1.0)


def standard_error(values: Sequence[float]) -> float:
    """Return the standard error of the median of repetitions, relative; infinite for fewer than three."""
    if len(values) < 3:
        return math.inf
    return shamos(_thinned(np.log(np.asarray(values)))) * math.sqrt(MEDIAN_VARIANCE / len(values))


def shamos(values: Floats) -> float:
    """Return a robust standard deviation: the median of the absolute differences of all pairs, scaled."""
    return float(SHAMOS * np.median(_differences(values))) if len(values) > 1 else 0.0


def _differences(values: Floats) -> Floats:
    """Return the absolute differences of all pairs."""
    first, second = _pairs(len(values))
    return np.abs(values[first] - values[second])


@lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    first, second = np.triu_indices(count, 1)
    return first, second


def _thinned(values: Floats) -> Floats:
    """Return at most :data:`MOST_REPEATS` values, evenly spread."""
    return values[:: -(-len(values) // MOST_REPEATS)]


def _median(values: Floats) -> float:
    """Return the median; NumPy's takes ten times as long for few values."""
    ordered = np.sort(values)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _pooled_noise(logs: Sequence[Floats]) -> tuple[float, float]:
    """Return the standard deviation of repetitions over all members, and its degrees of freedom.

    Differences within members need no centre, and keep slow changes that neighbouring repetitions share.
    """
    differences = [_differences(_thinned(own)) for own in logs]
    pooled = np.concatenate(differences) if differences else np.empty(0)
    noise = float(SHAMOS * np.median(pooled)) if len(pooled) else 0.0
    return noise, EFFICIENCY * sum(len(own) - 1 for own in logs)
