"""Means, medians, intervals and variation over repeated runs; every result has its n and its method."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
"""Confidence level of all intervals."""
FEWEST_TO_DROP = 3
"""With fewer runs, nothing remains between the extremes after dropping fastest and slowest."""
FEWEST_PAIRS = 3
"""The range of two pairs could be mistaken for an interval."""
FEWEST_FOR_INTERVAL = 5
"""With fewer values, an interval would rely on a guess of their distribution, so their range is given instead."""
INTERVAL = f"{100 * LEVEL:.0f} % interval, range below {FEWEST_FOR_INTERVAL}"
"""Description of the bounds of a number from several runs (:func:`interval_of`), for legends, captions, definitions."""
NOT_MEASURED = "not measured"
MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, for many normal values; for few, it is up to 13 % less."""

_NAN = float("nan")
Statistic = Literal["mean", "median", "olympic"]
"""How several values become one; olympic: the mean without the highest and the lowest run."""
_METHODS: dict[Statistic, str] = {
    "mean": "arithmetic mean",
    "median": "median",
    "olympic": "mean without the extremes",
}
_RATIOS: dict[Statistic, str] = {
    "mean": "arithmetic means",
    "median": "medians",
    "olympic": "means without the extremes",
}


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
        Number of runs in the value.
    method
        Method of the value and the interval.
    note
        Remarks; blank if there are none.
    """

    value: float
    low: float
    high: float
    n: int
    method: str
    note: str = ""


def finite(values: Iterable[float]) -> NDArray[np.float64]:
    """Return the measured values: NaN and infinity mean "not measured" and are dropped."""
    return np.asarray([value for value in values if math.isfinite(value)], dtype=np.float64)


@dataclass(frozen=True)
class Sample:
    """Values of one quantity, one per run, and the statistic that combines them.

    Attributes
    ----------
    values
        Measured values [any unit] of non-negative quantities: times, rates, energies.
    statistic
        For an olympic mean, the values exclude the highest and the lowest run.
    slower
        In a median of times: runs without a value, which count as slower than all others.
    """

    values: NDArray[np.float64]
    statistic: Statistic = "mean"
    slower: int = 0

    @property
    def n(self) -> int:
        """Number of runs behind the value."""
        return len(self.values) + self.slower

    @property
    def value(self) -> float:
        """The combined value; NaN if nothing was measured, or if the middle run has no value."""
        if not len(self.values):
            return _NAN
        if self.statistic != "median":
            return float(self.values.mean())
        middle = float(np.median([*self.values, *[math.inf] * self.slower]))
        return middle if math.isfinite(middle) else _NAN

    @property
    def words(self) -> str:
        """The statistic with its n, as named in tables; blank without runs."""
        words = {"mean": f"mean of {self.n}", "median": f"median of {self.n}"}
        several = words.get(self.statistic, f"mean of {self.n}, extremes dropped")
        return {0: "", 1: "one run"}.get(self.n, several)

    @property
    def relative_error(self) -> float:
        """Standard error over the mean, of two values or more.

        For a mean it is ``sd / sqrt(n)``, for a median :data:`MEDIAN_ERROR` times as much (the median of two is their
        mean). For an olympic mean it follows Tukey and McLaughlin (1963): the excluded values count as the nearest
        remaining ones, ``sd * sqrt(n + 2) / n``.
        """
        n, mean = len(self.values), self.values.mean()
        if self.statistic == "olympic":
            winsorized = [self.values.min(), *self.values, self.values.max()]
            return float(np.std(winsorized, ddof=1) * math.sqrt(n + 2) / n / mean)
        factor = MEDIAN_ERROR if self.statistic == "median" and n > 2 else 1.0
        return float(factor * self.values.std(ddof=1) / math.sqrt(n) / mean)


def interval_of(sample: Sample, level: float = LEVEL) -> Estimate:
    """Return the combined value of a sample of positive values, with an interval that is positive, too.

    Parameters
    ----------
    sample
        Values and their statistic.
    level
        Confidence level of the interval, between 0 and 1.

    Returns
    -------
    Estimate
        ``value * exp(-+ t(level, n - 1) * e)`` with the relative error e of :attr:`Sample.relative_error`: the delta
        method on the logarithm, Student's t. With fewer than :data:`FEWEST_FOR_INTERVAL` values, or values that are not
        all positive, the bounds are the lowest and the highest value. They are NaN for fewer than two runs, and if runs
        without a value count.
    """
    values, n, word = sample.values, len(sample.values), _METHODS[sample.statistic]
    method = f"{word}, {level:.0%} interval (delta method on the logarithm, Student's t)"
    if math.isnan(sample.value):
        return Estimate(_NAN, _NAN, _NAN, sample.n, method, NOT_MEASURED)
    if sample.slower:
        return Estimate(sample.value, _NAN, _NAN, sample.n, word, "a run without a value counts: no interval")
    if n == 1:
        return Estimate(sample.value, _NAN, _NAN, 1, method, "one run: no interval")
    if n < FEWEST_FOR_INTERVAL or values.min() <= 0:
        return Estimate(sample.value, float(values.min()), float(values.max()), n, f"{word}, range of {n} runs")
    factor = math.exp(_quantile(n - 1, level) * sample.relative_error)
    return Estimate(sample.value, sample.value / factor, sample.value * factor, n, method)


def is_range(low: float, n: int) -> bool:
    """Return whether a lower bound of :func:`interval_of` is that of the range of n runs, and not of an interval."""
    return n < FEWEST_FOR_INTERVAL or low <= 0


def _quantile(freedom: float, level: float) -> float:
    """Return the quantile of Student's t distribution that bounds a two-sided interval."""
    from scipy.special import stdtrit  # its import takes longer than all else that a list of declared results needs

    return float(stdtrit(freedom, 0.5 + level / 2))


def mean_interval(values: Iterable[float], level: float = LEVEL) -> Estimate:
    """Return the arithmetic mean of all measured values with its interval (:func:`interval_of`); NaN is ignored."""
    return interval_of(Sample(finite(values)), level)


def variation_ratio(values: Iterable[float]) -> float:
    """Return the sample standard deviation over the mean of all values (HPC AI500 V2.0, 4.3)."""
    measured = finite(values)
    if len(measured) < 2 or measured.mean() == 0:
        return _NAN
    return float(measured.std(ddof=1) / measured.mean())


def median(values: Iterable[float]) -> float:
    """Return the median of the measured values; NaN if there are none."""
    return Sample(finite(values), "median").value


def ratio_interval(numerator: Iterable[float], denominator: Iterable[float], level: float = LEVEL) -> Estimate:
    """Return the ratio of the means of two independent samples of positive values; NaN is ignored."""
    return ratio_of(Sample(finite(numerator)), Sample(finite(denominator)), level)


def ratio_of(above: Sample, below: Sample, level: float = LEVEL) -> Estimate:
    """Return the ratio of the combined values of two independent samples of positive values, with an interval.

    Parameters
    ----------
    above, below
        One positive value per run [the same unit].
    level
        Confidence level of the interval, between 0 and 1.

    Returns
    -------
    Estimate
        ``r = a / b`` and ``r * exp(-+ t * s)`` with ``s^2 = e_a^2 + e_b^2`` of the relative errors
        (:attr:`Sample.relative_error`): the delta method on the logarithm, degrees of freedom after Welch (1947).
        ``n`` is the smaller number of runs.
    """
    n = min(above.n, below.n)
    same = above.statistic == below.statistic
    words = _RATIOS[above.statistic] if same else f"a {_METHODS[above.statistic]} to a {_METHODS[below.statistic]}"
    method = f"ratio of {words}, {level:.0%} interval (delta method on the logarithm, Welch's t)"
    ratio = above.value / below.value if below.value else _NAN
    if math.isnan(ratio):
        return Estimate(_NAN, _NAN, _NAN, n, method, NOT_MEASURED)
    if above.slower or below.slower:
        return Estimate(ratio, _NAN, _NAN, n, method, "a run without a value counts: no interval")
    if n == 1:
        return Estimate(ratio, _NAN, _NAN, 1, method, "one run on a side: no interval")
    parts = [side.relative_error**2 for side in (above, below)]
    variance = sum(parts)
    if variance == 0:
        return Estimate(ratio, ratio, ratio, n, method)
    freedom = variance**2 / sum(part**2 / (side.n - 1) for part, side in zip(parts, (above, below), strict=True))
    factor = math.exp(_quantile(freedom, level) * math.sqrt(variance))
    return Estimate(ratio, ratio / factor, ratio * factor, n, method)


def paired_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Estimate:
    """Return the ratio of two medians of positive values measured in pairs, with the range of the pairs.

    Effects that slow both members of a pair alike, such as drift of the machine, do not change the range.

    Parameters
    ----------
    numerator, denominator : (n,)
        Values i of both were measured together [the same unit]; at least :data:`FEWEST_PAIRS`.

    Returns
    -------
    Estimate
        ``r = median(a) / median(b)`` as :func:`ratio_of`, between the smallest and the largest ``a_i / b_i``: if no a_i
        exceeds h b_i, the median of a does not exceed h times that of b.

    Raises
    ------
    ValueError
        If there are too few pairs, or one of them is incomplete.
    """
    above, below = np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)
    n = len(above)
    if n < FEWEST_PAIRS or len(below) != n or not np.isfinite([above, below]).all():
        raise ValueError(f"found {n} and {len(below)} values, expected {FEWEST_PAIRS} or more pairs of numbers")
    ratios, ratio = above / below, float(np.median(above) / np.median(below))
    # Rounding may move the ratio of two medians a digit beyond that of its pair.
    low, high = min(float(ratios.min()), ratio), max(float(ratios.max()), ratio)
    return Estimate(ratio, low, high, n, f"ratio of medians, range of {n} pairs")
