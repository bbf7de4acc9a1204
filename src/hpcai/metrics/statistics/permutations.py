"""Permutation test of two sets of runs, independent of their distribution."""

import math
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

EXACT_ARRANGEMENTS = 20_000
"""Up to this many arrangements (8 runs against 8 have 12,870) all are counted; beyond, this many are drawn."""
DRAWS = 9_999


def permute_samples(
    before: NDArray[np.float64], after: NDArray[np.float64], *, logarithmic: bool
) -> tuple[float, float, str]:
    """Return the two-sided p, the smallest p that so many runs can reach, and the method.

    Parameters
    ----------
    before, after
        One value per run [the same unit], at least one on each side.
    logarithmic
        Whether the statistic is the logarithm of the ratio of the means, or their difference (Fisher 1935, 21).
    """
    pooled, chosen = np.concatenate([after, before]), len(after)
    smallest = smallest_permutation_p(len(before), len(after))
    picks, exact = arrange(len(pooled), chosen)
    sums = pooled[picks].sum(axis=1)
    # The mean of the others follows from the sum of the chosen values.
    means, others = sums / chosen, (pooled.sum() - sums) / len(before)
    statistics = np.abs(np.log(means) - np.log(others)) if logarithmic else np.abs(means - others)
    limit = statistics[0] * (1 - 1e-9) - (1e-12 if logarithmic else 1e-12 * np.abs(pooled).max())
    p = int((statistics >= limit).sum()) / len(picks)
    how = f"permutation test, {'all' if exact else 'of the measured and'} {len(picks) - (not exact)} "
    return p, max(smallest, 1 / len(picks)), how + ("arrangements" if exact else "drawn arrangements")


def smallest_permutation_p(n_base: int, n_new: int) -> float:
    """Return the smallest two-sided p of all arrangements of so many runs."""
    return (2 if n_base == n_new else 1) / math.comb(n_base + n_new, n_new)


@lru_cache(maxsize=16)
def arrange(total: int, chosen: int) -> tuple[NDArray[np.intp], bool]:
    """Return the members of the first side in each arrangement, the measured one first; and whether these are all."""
    if math.comb(total, chosen) <= EXACT_ARRANGEMENTS:
        return np.array(list(combinations(range(total), chosen)), dtype=np.intp), True
    everyone = np.tile(np.arange(total), (DRAWS, 1))
    drawn = np.random.default_rng(1).permuted(everyone, axis=1)[:, :chosen]
    return np.vstack([np.arange(chosen), drawn]), False
