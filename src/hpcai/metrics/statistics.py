"""Means, intervals and variation over repeated runs; every result says its n and its method."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.95
"""Confidence level of all intervals."""
FEWEST_TO_DROP = 3
"""With fewer runs nothing is left, or nothing between the extremes, after dropping fastest and slowest."""
FEWEST_PAIRS = 3
"""Two pairs have one degree of freedom, with which an interval is wider than that of unpaired values."""
FEWEST_FOR_INTERVAL = 5
"""Of fewer values an interval would rest on a guess of their distribution: their range is told instead."""
INTERVAL = f"{100 * LEVEL:.0f} % interval, range below {FEWEST_FOR_INTERVAL}"
"""What stands beside a mean (:func:`mean_interval`), in the words of legends, captions and definitions."""
NOT_MEASURED = "not measured"

_NAN = float("nan")


@dataclass(frozen=True)
class Estimate:
    """One number from several runs.

    Attributes
    ----------
    value
        The estimate, in the unit of the values; NaN if there is none.
    low, high
        Bounds of the interval; NaN if the runs are too few for one.
    n
        Number of runs that the value rests on.
    method
        How the value and the interval were made.
    note
        What a reader has to know besides; empty if nothing.
    """

    value: float
    low: float
    high: float
    n: int
    method: str
    note: str = ""


def finite(values: Iterable[float]) -> NDArray[np.float64]:
    """Return the measured values: NaN and infinity mean "not measured" and are left out."""
    return np.asarray([value for value in values if math.isfinite(value)], dtype=np.float64)


def olympic_mean(values: Iterable[float], *, failed: int = 0, runs_by_rule: int | None = None) -> Estimate:
    """Return the mean after dropping the fastest and the slowest run.

    A failed run counts as the slowest one, so that one failure can be dropped and two leave no valid result
    (MLPerf HPC training rules: 10 runs of CosmoFlow, 5 of DeepCAM and of OpenCatalyst).

    Parameters
    ----------
    values
        One value per successful run [any unit]; NaN is left out.
    failed
        Number of runs without a valid value.
    runs_by_rule
        Number of runs that the rules ask for; the note says when there are fewer or more.

    Returns
    -------
    Estimate
        ``(sum - min - max) / (n - 2)``, without an interval; the plain mean if there are fewer than three runs and
        none failed; NaN where the rules leave no valid result.
    """
    measured = np.sort(finite(values))
    total = len(measured) + failed
    note = _number_of_runs(total, runs_by_rule)
    if len(measured) == 0:
        return Estimate(_NAN, _NAN, _NAN, 0, "olympic mean", NOT_MEASURED)
    if failed >= 2 or (failed and total < FEWEST_TO_DROP):
        may = "at most one may be dropped" if failed >= 2 else f"nothing can be dropped from {total} runs"
        return Estimate(_NAN, _NAN, _NAN, total, "olympic mean", f"no valid result: {failed} of {total} failed, {may}")
    if total < FEWEST_TO_DROP:
        few = f"nothing dropped: {total} of the {FEWEST_TO_DROP} runs that dropping two needs"
        return Estimate(
            float(measured.mean()), _NAN, _NAN, total, "arithmetic mean", "; ".join(filter(None, [few, note]))
        )
    kept = measured[1:] if failed else measured[1:-1]
    dropped = "fastest and failed run dropped" if failed else "fastest and slowest dropped"
    return Estimate(float(kept.mean()), _NAN, _NAN, total, f"olympic mean ({dropped})", note)


def _number_of_runs(total: int, by_rule: int | None) -> str:
    if by_rule is None or total == by_rule:
        return ""
    if total < by_rule:
        return f"too few runs ({total} of {by_rule} that the rules ask for)"
    return f"more runs than the {by_rule} that the rules count: all {total} are used, not their window of {by_rule}"


def variation_ratio(values: Iterable[float]) -> float:
    """Return the sample standard deviation over the mean of all values (HPC AI500 V2.0, 4.3)."""
    measured = finite(values)
    if len(measured) < 2 or measured.mean() == 0:
        return _NAN
    return float(measured.std(ddof=1) / measured.mean())


def median(values: Iterable[float]) -> float:
    """Return the median of the measured values; NaN if there are none."""
    measured = finite(values)
    return float(np.median(measured)) if len(measured) else _NAN


def mean_interval(values: Iterable[float], level: float = LEVEL) -> Estimate:
    """Return the arithmetic mean of positive values with an interval that is positive, too.

    Parameters
    ----------
    values
        One value per run [any unit]; NaN is left out. Times, rates, energies: what cannot be negative.
    level
        Confidence level of the interval, between 0 and 1.

    Returns
    -------
    Estimate
        ``mean * exp(-+ t(level, n - 1) * sd / (mean * sqrt(n)))``: the delta method on the logarithm, Student's t. Of
        fewer than :data:`FEWEST_FOR_INTERVAL` runs, or of values that are not all positive, the bounds are the lowest
        and the highest value; they are NaN for fewer than two runs.
    """
    measured = finite(values)
    n = len(measured)
    method = f"arithmetic mean, {level:.0%} interval (delta method on the logarithm, Student's t)"
    if n == 0:
        return Estimate(_NAN, _NAN, _NAN, 0, method, NOT_MEASURED)
    mean = float(measured.mean())
    if n == 1:
        return Estimate(mean, _NAN, _NAN, 1, method, "one run: no interval")
    if n < FEWEST_FOR_INTERVAL or measured.min() <= 0:
        return Estimate(mean, float(measured.min()), float(measured.max()), n, f"arithmetic mean, range of {n} runs")
    factor = math.exp(float(stats.t.ppf(0.5 + level / 2, n - 1) * measured.std(ddof=1) / (mean * math.sqrt(n))))
    return Estimate(mean, mean / factor, mean * factor, n, method)


def ratio_interval(numerator: Iterable[float], denominator: Iterable[float], level: float = LEVEL) -> Estimate:
    """Return the ratio of two independent means of positive values, with an interval.

    Parameters
    ----------
    numerator, denominator
        One positive value per run [the same unit]; NaN is left out.
    level
        Confidence level of the interval, between 0 and 1.

    Returns
    -------
    Estimate
        ``r = mean(a) / mean(b)`` and ``r * exp(-+ t * s)`` with ``s^2 = (sd_a / mean_a)^2 / n_a + (sd_b / mean_b)^2 /
        n_b``: the delta method on the logarithm, degrees of freedom after Welch (1947). ``n`` is the smaller number
        of runs.
    """
    above, below = finite(numerator), finite(denominator)
    n = min(len(above), len(below))
    method = f"ratio of arithmetic means, {level:.0%} interval (delta method on the logarithm, Welch's t)"
    if n == 0:
        return Estimate(_NAN, _NAN, _NAN, 0, method, NOT_MEASURED)
    ratio = float(above.mean() / below.mean())
    if n == 1:
        return Estimate(ratio, _NAN, _NAN, 1, method, "one run on a side: no interval")
    parts = [float(side.var(ddof=1) / side.mean() ** 2 / len(side)) for side in (above, below)]
    variance = sum(parts)
    if variance == 0:
        return Estimate(ratio, ratio, ratio, n, method)
    freedom = variance**2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (above, below), strict=True))
    factor = math.exp(float(stats.t.ppf(0.5 + level / 2, freedom)) * math.sqrt(variance))
    return Estimate(ratio, ratio / factor, ratio * factor, n, method)


def paired_ratio_interval(numerator: Sequence[float], denominator: Sequence[float], level: float = LEVEL) -> Estimate:
    """Return the ratio of two means of positive values that were measured in pairs, with an interval.

    What makes both members of a pair slower alike, such as a machine that drifts, leaves the interval as it is.

    Parameters
    ----------
    numerator, denominator : (n,)
        Value i of both was measured side by side [the same unit]; at least :data:`FEWEST_PAIRS`.
    level
        Confidence level of the interval, between 0 and 1.

    Returns
    -------
    Estimate
        ``r = mean(a) / mean(b)`` as :func:`ratio_interval`, and ``r * exp(-+ t * s)`` with ``s = sd(a_i / mean(a) - b_i
        / mean(b)) / sqrt(n)``: the delta method on the logarithm, covariance included; n - 1 degrees of freedom.

    Raises
    ------
    ValueError
        If there are too few pairs, or one of them is not whole.
    """
    above, below = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    n = len(above)
    if n < FEWEST_PAIRS or len(below) != n or not np.isfinite([above, below]).all():
        raise ValueError(f"found {n} and {len(below)} values, expected {FEWEST_PAIRS} or more pairs of numbers")
    ratio = float(above.mean() / below.mean())
    spread = float((above / above.mean() - below / below.mean()).std(ddof=1) / math.sqrt(n))
    factor = math.exp(float(stats.t.ppf(0.5 + level / 2, n - 1)) * spread)
    method = (
        f"ratio of arithmetic means, {level:.0%} interval of {n} pairs (delta method on the logarithm, Student's t)"
    )
    return Estimate(ratio, ratio / factor, ratio * factor, n, method)
