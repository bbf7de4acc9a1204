"""Decide whether two sets of runs differ: the significance rule, and its tests.

Welch (1947) for the interval, the t test with the smaller side's degrees of freedom, Fisher's randomisation test for
the distribution-free check, Fisher's exact test for failures, Holm (1979) for many scores at once.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import stdtr

from hpcai.core.messages import Message
from hpcai.metrics.statistics.detectable import ALPHA, detectable_ratio
from hpcai.metrics.statistics.permutations import permute_samples
from hpcai.metrics.statistics.summaries import NOT_MEASURED, finite, ratio_interval

NOT_ON_SIDE = Message("significance.not_on_side", "not measured on the {side} side")
ONE_RUN = Message(
    "significance.one_run",
    "one run on a side: no test is possible; the new run is {where} the range of the base",
)
RESOLUTION = 1e-9
"""Relative differences below this are rounding, not scatter of a measurement: such values are equal."""
SAME_VALUES = "the same values on both sides"
T_TEST = "t test with the degrees of freedom of the smaller side"

_NAN = float("nan")


@dataclass(frozen=True)
class Significance:
    """Evidence of two sets of runs on a change of one score.

    Attributes
    ----------
    base_value, new_value
        Arithmetic means [the unit of the values].
    ratio, low, high
        ``new / base`` with its 95 % interval; bounds are NaN if a side has one run, or neither side has a spread.
    n_base, n_new
        Number of runs with a value on each side.
    p_t
        Two-sided p of Welch's t test, on the logarithm of the ratio or on the difference, matching the interval. NaN
        without a spread to test against.
    p_bounded
        Two-sided p of the same statistic with the degrees of freedom of the smaller side. This one decides: for normal
        scatter it is never too small, whatever the two spreads are (Mickey and Brown 1966, Ann. Math. Stat. 37, 639).
        Welch's can be ten times too small if few runs with a wide spread meet a correction for many scores.
    p_permutation, smallest_p
        Two-sided p of the permutation test, and the smallest that so few runs can reach.
    spread_ratio
        Standard deviation over mean, pooled over both sides.
    detectable_ratio
        The smallest change, as ``ratio - 1``, that :meth:`is_significant` detects in so many runs with this spread with
        80 % probability, if this is the only score.
    beyond_range
        Whether all values of the new side lie outside the range of the base side.
    identical
        Whether both sides have equal values, as equal seeds give equal qualities.
    method, note
        The method behind the numbers, and remarks.
    """

    base_value: float = _NAN
    new_value: float = _NAN
    ratio: float = _NAN
    low: float = _NAN
    high: float = _NAN
    n_base: int = 0
    n_new: int = 0
    p_t: float = _NAN
    p_bounded: float = _NAN
    p_permutation: float = _NAN
    smallest_p: float = _NAN
    spread_ratio: float = _NAN
    detectable_ratio: float = _NAN
    beyond_range: bool = False
    identical: bool = False
    method: str = ""
    note: str = ""

    @property
    def p_value(self) -> float:
        """The p to be corrected for many scores: of the t test or, without a spread, of the permutations."""
        return self.p_permutation if math.isnan(self.p_bounded) else self.p_bounded

    def is_significant(self, p_corrected: float) -> bool:
        """Return whether two tests detect a change: this is the rule for all comparisons.

        The first is :attr:`p_value` after its correction for many scores. The second is the permutation test at 5 %. It
        assumes nothing about the scatter, and is not corrected, because few runs cannot reach a small enough p (5
        against 5 runs: 2/252). With too few runs for 5 % (3 against 3: 2/20), all values of one side must lie beyond
        all of the other, and the finding relies on the t test's assumption of normal scatter. One run on a side, or few
        runs without any spread, never show a change.
        """
        agrees = self.beyond_range if self.rests_on_normal_scatter else self.p_permutation <= ALPHA
        return p_corrected <= ALPHA and agrees

    @property
    def rests_on_normal_scatter(self) -> bool:
        """Whether the runs are too few for the permutation test, so that the t test decides."""
        return self.smallest_p > ALPHA and math.isfinite(self.p_bounded)

    @property
    def can_be_significant(self) -> bool:
        """Whether the number of runs allows significance."""
        return self.smallest_p <= ALPHA or self.rests_on_normal_scatter


def compare_samples(base: Iterable[float], new: Iterable[float]) -> Significance:
    """Compare two sets of runs by the ratio of their means, with the significance that their number allows.

    Parameters
    ----------
    base, new
        One positive value per run [the same unit]; NaN is ignored.

    Returns
    -------
    Significance
        The ratio of the means with the interval of :func:`hpcai.metrics.statistics.summaries.ratio_interval`, and the
        tests of ``log(mean(new) / mean(base))``. With one run on a side neither exists.
    """
    before, after = finite(base), finite(new)
    about = _describe(before, after)
    if not (len(before) and len(after)):
        return Significance(**about, method="none", note=_nothing(before, after))
    if before.min() <= 0 or after.min() <= 0:
        return Significance(**about, method="none", note="values that are not positive have no ratio")
    ratio = ratio_interval(after, before)
    about["ratio"] = ratio.value
    if min(len(before), len(after)) == 1:
        return Significance(**about, method="ratio of means, no test", note=_one_run(beyond=about["beyond_range"]))
    tests = _test(before, after, logarithmic=True)
    spread = 0.0 if math.isnan(tests["p_t"]) else _pooled_spread(before, after)
    # Runs without any spread give no estimate of the scatter: an interval of zero width would be a false claim.
    bounds: dict[str, Any] = {"low": ratio.low, "high": ratio.high} if spread else {}
    detectable = detectable_ratio(spread, len(before), len(after))
    method = f"{ratio.method}; {tests.pop('method')}"
    return Significance(**about, **bounds, **tests, spread_ratio=spread, detectable_ratio=detectable, method=method)


def compare_differences(base: Iterable[float], new: Iterable[float]) -> Significance:
    """Compare two sets of runs by the difference of their means: for values without a true zero, such as a quality.

    Parameters
    ----------
    base, new
        One value per run [the same unit], of any sign; NaN is ignored.

    Returns
    -------
    Significance
        The tests of ``mean(new) - mean(base)`` by the same rule; the ratio and related values are NaN.
    """
    before, after = finite(base), finite(new)
    about = _describe(before, after)
    if not (len(before) and len(after)):
        return Significance(**about, method="none", note=_nothing(before, after))
    if min(len(before), len(after)) == 1:
        return Significance(**about, method="difference of means, no test", note=_one_run(beyond=about["beyond_range"]))
    return Significance(**about, **_test(before, after, logarithmic=False))


def correct_holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number, so that 5 % is the chance of any false alarm among all.

    ``p'_(i) = max_(j <= i) min(1, (m - j + 1) p_(j))`` over the sorted values (Holm 1979, Scand. J. Statist. 6, 65).
    NaN stays NaN and is not counted.
    """
    p = np.asarray(p_values, dtype=np.float64)
    corrected = np.full(len(p), _NAN)
    tested = np.flatnonzero(np.isfinite(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    corrected[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return [float(value) for value in corrected]


def no_spread(values: NDArray[np.float64]) -> bool:
    """Return whether the values of a side differ at most by rounding."""
    return bool(np.ptp(values) <= RESOLUTION * np.abs(values).max())


def compare_failures(ok_base: int, n_base: int, ok_new: int, n_new: int) -> float:
    """Return the one-sided p that the new side fails more often, by Fisher's exact test.

    Parameters
    ----------
    ok_base, ok_new
        Runs that did not fail.
    n_base, n_new
        All runs of each side; the result is NaN if one has none.

    Raises
    ------
    ValueError
        If a side has more successes than runs.
    """
    if not (0 <= ok_base <= n_base and 0 <= ok_new <= n_new):
        raise ValueError(f"found {ok_base} of {n_base} and {ok_new} of {n_new} runs; counts up to n are needed")
    if not (n_base and n_new):
        return _NAN
    table = [[n_new - ok_new, ok_new], [n_base - ok_base, ok_base]]
    return float(stats.fisher_exact(table, alternative="greater").pvalue)


def _describe(before: NDArray[np.float64], after: NDArray[np.float64]) -> dict[str, Any]:
    both = len(before) > 0 and len(after) > 0
    return {
        "base_value": _mean(before),
        "new_value": _mean(after),
        "n_base": len(before),
        "n_new": len(after),
        "beyond_range": bool(both and (after.min() > before.max() or after.max() < before.min())),
        "identical": both and _identical(before, after),
    }


def _identical(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    if len(before) == len(after):
        return bool(np.allclose(np.sort(before), np.sort(after), rtol=RESOLUTION, atol=0))
    return min(len(before), len(after)) > 1 and not _spread(np.concatenate([before, after]))


def _test(before: NDArray[np.float64], after: NDArray[np.float64], *, logarithmic: bool) -> dict[str, Any]:
    """Return the p values of both tests, their methods, and their limits."""
    p_permutation, smallest, how = permute_samples(before, after, logarithmic=logarithmic)
    p_t, p_bounded = _t_test(before, after, logarithmic=logarithmic)
    found: dict[str, Any] = {"p_t": p_t, "p_bounded": p_bounded, "p_permutation": p_permutation, "smallest_p": smallest}
    tests = Significance(**found)
    note = "" if math.isfinite(p_t) else SAME_VALUES if _identical(before, after) else _say_no_spread(tests)
    assumed = f"; {_ASSUMED.format(smallest)}" if tests.rests_on_normal_scatter else ""
    return {**found, "method": f"{T_TEST}; {how}{assumed}", "note": note}


_ASSUMED = (
    "too few for 5 % (smallest p {:.2g}): the t test decides if the values of the two sides do not overlap, assuming "
    "a normal distribution"
)


def _say_no_spread(tests: Significance) -> str:
    equal = "all runs of a side are equal: no spread, only the permutation test applies"
    few = f"too few runs for a conclusion: no permutation of them reaches p below {tests.smallest_p:.2g}"
    return equal if tests.can_be_significant else f"{equal}; {few}"


def _t_test(before: NDArray[np.float64], after: NDArray[np.float64], *, logarithmic: bool) -> tuple[float, float]:
    """Return p of Welch's t test, by the delta method for a ratio; and p with the smaller side's degrees of freedom."""
    sides = (before, after)
    spreads = [_spread(side) / (float(side.mean()) if logarithmic else 1.0) for side in sides]
    if max(spreads) == 0:
        return _NAN, _NAN
    levels = [math.log(side.mean()) if logarithmic else float(side.mean()) for side in sides]
    errors = [spread / math.sqrt(len(side)) for spread, side in zip(spreads, sides, strict=True)]
    error, freedoms = math.hypot(*errors), [len(side) - 1 for side in sides]
    statistic = -abs(levels[0] - levels[1]) / error
    welch = 1 / sum((one / error) ** 4 / freedom for one, freedom in zip(errors, freedoms, strict=True))
    return 2 * float(stdtr(welch, statistic)), 2 * float(stdtr(min(freedoms), statistic))


def _spread(side: NDArray[np.float64]) -> float:
    return 0.0 if no_spread(side) else float(side.std(ddof=1))


def _pooled_spread(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    squares = sum((len(side) - 1) * (_spread(side) / float(side.mean())) ** 2 for side in (before, after))
    return math.sqrt(squares / (len(before) + len(after) - 2))


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else _NAN


def _nothing(before: NDArray[np.float64], after: NDArray[np.float64]) -> str:
    if len(before) == len(after):
        return NOT_MEASURED
    return NOT_ON_SIDE(side="new" if len(before) else "base")


def _one_run(*, beyond: bool) -> str:
    return ONE_RUN(where="beyond" if beyond else "within")
