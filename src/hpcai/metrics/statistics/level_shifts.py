"""Where the level of a series of results shifts."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpcai.metrics.statistics.permutations import DRAWS

_NAN = float("nan")


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
