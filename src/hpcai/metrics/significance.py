"""Whether two sets of runs differ: tests and intervals that fit the number of runs, and what they could have found.

Welch (1947) for the interval and the t test, Fisher's randomisation test for the order-free check, Fisher's exact test
for failures, Holm (1979) for many scores at once.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hpcai.metrics.detectable import ALPHA, detectable_ratio
from hpcai.metrics.statistics import NOT_MEASURED, finite, ratio_interval

EXACT_ARRANGEMENTS = 20_000
"""Up to so many arrangements of the runs are all counted (8 runs against 8 have 12,870); beyond, so many are drawn."""
DRAWS = 9_999

_NAN = float("nan")


@dataclass(frozen=True)
class Significance:
    """What two sets of runs say about a change of one score.

    Attributes
    ----------
    base_value, new_value
        Arithmetic means [the unit of the values].
    ratio, low, high
        ``new / base`` with its 95 % interval; NaN bounds where a side has one run.
    n_base, n_new
        Number of runs with a value on each side.
    p_t
        Two-sided p of Welch's t test on the logarithm of the ratio; NaN where there is no spread to test against.
    p_permutation, smallest_p
        Two-sided p of the permutation test, and the smallest that so few runs can reach.
    spread_ratio
        Standard deviation over mean, pooled over both sides.
    detectable_ratio
        The smallest change, as ``ratio - 1``, that a t test of so many runs with this spread finds with 80 %
        probability.
    beyond_range
        Whether all values of the new side lie outside the range of the base side.
    identical
        Whether both sides have the very same values, as equal seeds give equal qualities.
    method, note
        How the numbers were made, and what a reader has to know besides.
    """

    base_value: float = _NAN
    new_value: float = _NAN
    ratio: float = _NAN
    low: float = _NAN
    high: float = _NAN
    n_base: int = 0
    n_new: int = 0
    p_t: float = _NAN
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
        """The p that is corrected for many scores: of the t test, or of the permutations where there is no spread."""
        return self.p_permutation if math.isnan(self.p_t) else self.p_t

    def is_significant(self, p_corrected: float) -> bool:
        """Return whether both tests see a change, the first one after its correction for many scores."""
        return p_corrected <= ALPHA and self.p_permutation <= ALPHA

    @property
    def can_be_significant(self) -> bool:
        """Whether the number of runs allows any significance."""
        return self.smallest_p <= ALPHA


def compare_samples(base: Iterable[float], new: Iterable[float]) -> Significance:
    """Return the change from one set of runs to another, with the significance that their number allows.

    Parameters
    ----------
    base, new
        One positive value per run [the same unit]; NaN is left out.

    Returns
    -------
    Significance
        The ratio of the means with the interval of :func:`hpcai.metrics.statistics.ratio_interval`, the t test that
        belongs to it, and the permutation test of ``log(mean(new) / mean(base))``. With one run on a side neither
        exists. The permutation test is not corrected for many scores: with few runs its p cannot become small enough
        (5 against 5 runs: 2/252); it has to agree, so that no t test of oddly distributed values decides alone.
    """
    before, after = finite(base), finite(new)
    counts: dict[str, Any] = {"n_base": len(before), "n_new": len(after)}
    counts["identical"] = len(before) > 0 and np.array_equal(np.sort(before), np.sort(after))
    if not (len(before) and len(after)):
        return Significance(_mean(before), _mean(after), **counts, method="none", note=_nothing(before, after))
    if before.min() <= 0 or after.min() <= 0:
        note = "values that are not positive have no ratio"
        return Significance(_mean(before), _mean(after), **counts, method="none", note=note)
    ratio = ratio_interval(after, before)
    means = {"base_value": float(before.mean()), "new_value": float(after.mean()), "ratio": ratio.value, **counts}
    beyond = bool(after.min() > before.max() or after.max() < before.min())
    if min(len(before), len(after)) == 1:
        return Significance(**means, beyond_range=beyond, method="ratio of means, no test", note=_one_run(beyond))
    p_permutation, smallest, how = _permutation_test(before, after)
    p_t = _welch_p(before, after)
    equal = "all runs of a side are equal: no spread, only the permutations are a test"
    return Significance(
        **means,
        low=ratio.low,
        high=ratio.high,
        p_t=p_t,
        p_permutation=p_permutation,
        smallest_p=smallest,
        spread_ratio=_pooled_spread(before, after),
        detectable_ratio=detectable_ratio(_pooled_spread(before, after), len(before), len(after)),
        beyond_range=beyond,
        method=f"{ratio.method}; Welch's t test; {how}",
        note="; ".join(filter(None, [equal if math.isnan(p_t) else "", _few_runs(smallest)])),
    )


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


def compare_failures(ok_base: int, n_base: int, ok_new: int, n_new: int) -> float:
    """Return the one-sided p that the new side fails more often, by Fisher's exact test.

    Parameters
    ----------
    ok_base, ok_new
        Runs that did not fail.
    n_base, n_new
        All runs of each side; NaN is returned if one has none.

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


def find_level_shift(values: Sequence[float], seed: int = 1) -> tuple[int, float]:
    """Return after how many values a series changes its level most, and the p of that change.

    The largest standardised difference of the means before and after any place, of the logarithms, against the same
    of shuffled series: one value per result, because runs of one result are no independent witnesses of a shift
    between results. Fewer than eight values cannot reach 5 %.

    Parameters
    ----------
    values
        Positive values in the order of time, without gaps.
    seed
        Of the shuffles: equal arguments give equal results.
    """
    if len(values) < 4 or min(values) <= 0:
        return 0, _NAN
    logs = np.log(np.asarray(values, dtype=np.float64))
    shuffled = np.random.default_rng(seed).permuted(np.tile(logs, (DRAWS, 1)), axis=1)
    found = _shift_statistics(logs[np.newaxis])[0]
    drawn = _shift_statistics(shuffled).max(axis=1)
    p = (1 + int((drawn >= found.max() - 1e-12).sum())) / (DRAWS + 1)
    return int(found.argmax()) + 1, float(p)


def _shift_statistics(series: NDArray[np.float64]) -> NDArray[np.float64]:
    """Difference of the means before and after each place, over its standard error but for a common factor."""
    count = series.shape[1]
    before = np.arange(1, count)
    centred = np.cumsum(series - series.mean(axis=1, keepdims=True), axis=1)[:, :-1]
    statistics: NDArray[np.float64] = np.abs(centred) / np.sqrt(before * (count - before) / count)
    return statistics


def _permutation_test(before: NDArray[np.float64], after: NDArray[np.float64]) -> tuple[float, float, str]:
    """Return p, the smallest p that can be reached, and how it was made."""
    pooled, chosen = np.concatenate([after, before]), len(after)
    total = math.comb(len(pooled), chosen)
    smallest = (2 if len(before) == len(after) else 1) / total
    picks, exact = _arrangements(len(pooled), chosen)
    sums = pooled[picks].sum(axis=1)
    # The mean of the others follows from the sum of the chosen.
    statistics = np.abs(np.log(sums / chosen) - np.log((pooled.sum() - sums) / len(before)))
    as_extreme = int((statistics >= statistics[0] * (1 - 1e-9) - 1e-12).sum())
    p = as_extreme / len(picks)
    how = f"permutation test, {'all' if exact else 'of the measured and'} {len(picks) - (not exact)} "
    return p, max(smallest, 1 / len(picks)), how + ("arrangements" if exact else "drawn arrangements")


@lru_cache(maxsize=16)
def _arrangements(total: int, chosen: int) -> tuple[NDArray[np.intp], bool]:
    """Return which values form the first side in each arrangement, the measured one first; and if these are all."""
    if math.comb(total, chosen) <= EXACT_ARRANGEMENTS:
        return np.array(list(combinations(range(total), chosen)), dtype=np.intp), True
    everyone = np.tile(np.arange(total), (DRAWS, 1))
    drawn = np.random.default_rng(1).permuted(everyone, axis=1)[:, :chosen]
    return np.vstack([np.arange(chosen), drawn]), False


def _welch_p(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """Return p of the logarithm of the ratio of means, by the delta method: the test of `ratio_interval`."""
    spreads = [float(side.std(ddof=1) / side.mean()) for side in (before, after)]
    if max(spreads) == 0:
        return _NAN
    logs = [math.log(side.mean()) for side in (before, after)]
    test = stats.ttest_ind_from_stats(
        logs[0], spreads[0], len(before), logs[1], spreads[1], len(after), equal_var=False
    )
    return float(test.pvalue)


def _pooled_spread(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    squares = sum((len(side) - 1) * float(side.var(ddof=1) / side.mean() ** 2) for side in (before, after))
    return math.sqrt(squares / (len(before) + len(after) - 2))


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else _NAN


def _nothing(before: NDArray[np.float64], after: NDArray[np.float64]) -> str:
    if len(before) == len(after):
        return NOT_MEASURED
    return f"{NOT_MEASURED} on the {'new' if len(before) else 'base'} side"


def _one_run(beyond: bool) -> str:
    where = "beyond the range of the base" if beyond else "within the range of the base"
    return f"one run on a side: no test is possible; the new side is {where}"


def _few_runs(smallest: float) -> str:
    if smallest <= ALPHA:
        return ""
    return f"too few runs for a conclusion: no arrangement of them reaches p below {smallest:.2g}"
