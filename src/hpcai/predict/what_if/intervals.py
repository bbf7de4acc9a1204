"""Intervals of predictions from the model's own errors where measurements are available."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from hpcai.core.messages import Message

FEWEST_ERRORS = 3
"""Mean and standard deviation of two numbers do not predict a third."""
CONFIDENCE = 0.95
TOO_FEW_ERRORS = Message("intervals.too_few_errors", "no interval: {n} held-out points of {kind}, expected {needed}")
CENTRED = Message(
    "intervals.centred",
    "interval ({percent:g} %) of log(measured / predicted), around no error, from {n} held-out points of {kind}",
)
CENTRED_AND = Message("intervals.centred_and", "{basis}, and from {more}")
T_INTERVAL = Message(
    "intervals.t_interval",
    "t interval ({percent:g} %) of log(measured / predicted) over {n} held-out points of {kind}; those of one variant "
    "share measurements",
)


@dataclass(frozen=True)
class ErrorInterval:
    """Factors of a prediction between which the measurement is expected.

    Attributes
    ----------
    low_ratio, high_ratio
        Measured over predicted; NaN without an interval.
    n
        Number of held-out points.
    basis
        Basis of the interval, or why there is none.
    """

    low_ratio: float
    high_ratio: float
    n: int
    basis: str

    def around(self, predicted: float) -> tuple[float, float]:
        """Return the bounds around a prediction."""
        return predicted * self.low_ratio, predicted * self.high_ratio


@dataclass(frozen=True)
class Variance:
    """Of a logarithm, besides that of the errors; by default there is none.

    Attributes
    ----------
    value
        The variance.
    freedom
        Its degrees of freedom.
    basis
        What it was computed from.
    """

    value: float = 0.0
    freedom: float = math.inf
    basis: str = ""


def interval_from(
    measured: Sequence[float], predicted: Sequence[float], kind: str, confidence: float = CONFIDENCE
) -> ErrorInterval:
    """Return the interval of a further prediction of the same kind.

    Parameters
    ----------
    measured, predicted
        Held-out points, which did not calibrate the model.
    kind
        Kind of prediction, in words.
    confidence
        Share of further predictions that it should contain.

    Returns
    -------
    ErrorInterval
        The t interval of a new observation of log(measured / predicted), ``mean +- t s sqrt(1 + 1 / n)``,
        widened if necessary to include every observed error and the prediction itself.
    """
    errors = _log_errors(measured, predicted)
    n = len(errors)
    if n < FEWEST_ERRORS:
        return _no_interval(n, kind)
    reach = stats.t.ppf((1 + confidence) / 2, n - 1) * errors.std(ddof=1) * math.sqrt(1 + 1 / n)
    low = min(errors.mean() - reach, errors.min(), 0.0)
    high = max(errors.mean() + reach, errors.max(), 0.0)
    basis = T_INTERVAL(percent=100 * confidence, n=n, kind=kind)
    return ErrorInterval(math.exp(low), math.exp(high), n, basis)


def centred_interval(
    measured: Sequence[float], predicted: Sequence[float], kind: str, confidence: float, more: Variance | None = None
) -> ErrorInterval:
    """Return the interval of a further prediction whose model has nothing left to correct.

    Parameters
    ----------
    measured, predicted
        Held-out points, of which the model was told nothing.
    kind
        Kind of prediction, in words.
    confidence
        Share of further predictions that it should contain.
    more
        Of what else scatters; by default nothing.

    Returns
    -------
    ErrorInterval
        ``+- t_n r sqrt(1 + 1 / n)``, with r the root mean square of n values of log(measured / predicted). A mean error
        of few points is more chance than bias, so it is not taken off, and widens the interval instead. Another
        variance adds to ``r^2 (1 + 1 / n)``; the degrees of freedom of the sum are those of Welch and Satterthwaite
        (JCGM 100:2008, equation G.2b).
    """
    errors = _log_errors(measured, predicted)
    n = len(errors)
    if n < FEWEST_ERRORS:
        return _no_interval(n, kind)
    own, freedom = float((errors**2).mean()) * (1 + 1 / n), float(n)
    total, basis = own, CENTRED(percent=100 * confidence, n=n, kind=kind)
    if more and more.value:
        total, basis = own + more.value, CENTRED_AND(basis=basis, more=more.basis)
        freedom = total**2 / (own**2 / n + more.value**2 / more.freedom)
    reach = stats.t.ppf((1 + confidence) / 2, freedom) * math.sqrt(total)
    return ErrorInterval(math.exp(-reach), math.exp(reach), n, basis)


def _log_errors(measured: Sequence[float], predicted: Sequence[float]) -> NDArray[np.float64]:
    """Return log(measured / predicted) of the points that have both."""
    errors = np.log(np.asarray(measured, float) / np.asarray(predicted, float))
    finite: NDArray[np.float64] = errors[np.isfinite(errors)]
    return finite


def _no_interval(n: int, kind: str) -> ErrorInterval:
    return ErrorInterval(math.nan, math.nan, n, TOO_FEW_ERRORS(n=n, kind=kind, needed=FEWEST_ERRORS))
