"""Errors of estimated times against measured ones, per case and in total.

Barrachina et al. 2023 (doi 10.1007/s00607-021-00997-9). The printed sums run over ``0..K`` and divide by ``K``; here
they have K terms. Signed errors above 0 mean that the estimate is too long.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def relative_errors(estimated_s: ArrayLike, measured_s: ArrayLike) -> Floats:
    """Return RE, the error of each estimate over its own measured time.

    Parameters
    ----------
    estimated_s, measured_s
        Equally many of each, measured times above 0; any common unit.

    Raises
    ------
    ValueError
        If the numbers of times differ, there are none, or a measured time is not above 0.
    """
    estimated, measured = _check(estimated_s, measured_s)
    return (estimated - measured) / measured


def weighted_errors(estimated_s: ArrayLike, measured_s: ArrayLike) -> Floats:
    """Return WRE, the error of each estimate over the mean of all measured times: short times have little weight.

    Parameters
    ----------
    estimated_s, measured_s
        As in `relative_errors`.
    """
    estimated, measured = _check(estimated_s, measured_s)
    return np.asarray((estimated - measured) / measured.mean())


def weighted_error_ratio(estimated_s: ArrayLike, measured_s: ArrayLike) -> float:
    """Return WRE_S, the mean of the absolute weighted errors: all absolute errors over all measured time.

    It is never below the error of the sums, where errors of different sign cancel (`total_error_ratio`).

    Parameters
    ----------
    estimated_s, measured_s
        As in `relative_errors`.
    """
    return float(np.abs(weighted_errors(estimated_s, measured_s)).mean())


def total_error_ratio(estimated_s: ArrayLike, measured_s: ArrayLike) -> float:
    """Return the signed error of the sum of all estimates over the sum of all measured times.

    Parameters
    ----------
    estimated_s, measured_s
        As in `relative_errors`.
    """
    return float(weighted_errors(estimated_s, measured_s).mean())


def _check(estimated_s: ArrayLike, measured_s: ArrayLike) -> tuple[Floats, Floats]:
    estimated, measured = np.atleast_1d(np.asarray(estimated_s, float)), np.atleast_1d(np.asarray(measured_s, float))
    if estimated.shape != measured.shape or not measured.size:
        raise ValueError(
            f"found {estimated.size} estimated and {measured.size} measured times, expected as many of each"
        )
    if not (measured > 0).all():
        raise ValueError("found measured times that are not above 0: leave out what was not measured")
    return estimated, measured
