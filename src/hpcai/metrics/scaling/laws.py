"""Laws of throughput over ranks: Amdahl, Gustafson, universal scalability, and Karp and Flatt's serial fraction."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize, stats

from hpcai.core.messages import Message
from hpcai.metrics.statistics.summaries import LEVEL, Estimate

TOO_FEW_COUNTS = Message("laws.too_few_counts", "{law}: found {found} numbers of ranks, expected more than {free}")


def karp_flatt(speedup_ratio: float, ranks: float, base_ranks: float = 1) -> float:
    """Return the serial fraction that explains one speed-up (Karp and Flatt, Communications of the ACM 33(5), 1990).

    Parameters
    ----------
    speedup_ratio
        Rate at ``ranks`` over the rate at ``base_ranks``.
    ranks, base_ranks
        Numbers of ranks of both.

    Returns
    -------
    float
        ``(1/S - 1/p) / (1 - 1/p)`` from one rank to p; from a larger base, the share of one rank's time for which
        Amdahl's law gives the same speed-up. Below 0 for superlinear speed-ups, above 1 for slow-downs; NaN if the rate
        drops so steeply from its base that no share explains it.
    """
    _check_speedup(speedup_ratio, ranks, base_ranks)
    ideal = ranks / base_ranks
    below = speedup_ratio * (ranks - 1) - ideal * (base_ranks - 1)
    return (ideal - speedup_ratio) / below if below > 0 else math.nan


def gustafson_fraction(speedup_ratio: float, ranks: float, base_ranks: float = 1) -> float:
    """Return the serial fraction of weak scaling that explains a speed-up (Gustafson, CACM 31, 1988).

    Parameters
    ----------
    speedup_ratio
        Rate at ``ranks`` over the rate at ``base_ranks``.
    ranks, base_ranks
        Numbers of ranks of both.

    Returns
    -------
    float
        ``(p - S) / (p - 1)`` from one rank to p, the share of a rank's own time; from a larger base, the share for
        which Gustafson's law gives the same speed-up. Below 0 for superlinear speed-ups, above 1 for slow-downs; NaN if
        the rate rises so steeply from its base that a single rank would have a rate of zero or less.
    """
    _check_speedup(speedup_ratio, ranks, base_ranks)
    below = (ranks - 1) - speedup_ratio * (base_ranks - 1)
    return (ranks - speedup_ratio * base_ranks) / below if below > 0 else math.nan


def _check_speedup(speedup_ratio: float, ranks: float, base_ranks: float) -> None:
    if not ranks > base_ranks >= 1 or speedup_ratio <= 0:
        raise ValueError(f"found a speed-up of {speedup_ratio:g} from {base_ranks:g} to {ranks:g} ranks, expected more")


LawName = Literal["amdahl", "gustafson", "universal", "karp_flatt"]
FREE: dict[LawName, int] = {"amdahl": 2, "gustafson": 2, "universal": 3, "karp_flatt": 2}
"""Free parameters of each law: rate of one rank, serial fraction (contention), coherency."""
SMALLEST_DEVIATION = 1e-9
"""Smaller deviations are rounding of the times: laws with smaller misfits are indistinguishable."""

Floats = NDArray[np.float64]
_NAN = float("nan")


@dataclass(frozen=True)
class LawFit:
    """A law with its parameters, fitted to rates over ranks.

    Attributes
    ----------
    law
        Name of the law.
    log_rate, serial_fraction_ratio, coherency_ratio
        Logarithm of the rate of one rank [samples/s]; sigma; kappa (0 where the law has none).
    covariance
        Covariance of these three, 3 x 3; NaN without degrees of freedom.
    n
        Runs in the fit.
    deviation
        Standard deviation of the logarithms of measured over fitted rates, with ``n - FREE[law]`` degrees of freedom.
    aicc
        Akaike's information criterion, corrected for few runs (Hurvich and Tsai 1989); infinite where undefined.
    at_bound
        Names of the parameters that the data would push out of the law's range.
    """

    law: LawName
    log_rate: float
    serial_fraction_ratio: float
    coherency_ratio: float
    covariance: Floats
    n: int
    deviation: float
    aicc: float
    at_bound: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether two numbers of ranks determine the law exactly, which leaves no degree of freedom."""
        return math.isnan(self.deviation)

    @cached_property
    def student(self) -> float:
        """Half-width of an interval in standard errors; NaN without a degree of freedom."""
        freedom = self.n - FREE[self.law]
        return float(stats.t.ppf(0.5 + LEVEL / 2, freedom)) if freedom > 0 else _NAN

    def interval(self, which: Literal["rate", "serial_fraction", "coherency"]) -> Estimate:
        """Return one parameter with its 95 % t interval, clipped to the law's valid range."""
        place = ("rate", "serial_fraction", "coherency").index(which)
        value = (self.log_rate, self.serial_fraction_ratio, self.coherency_ratio)[place]
        half = self.student * math.sqrt(self.covariance[place, place])
        method = "least squares on logarithms, t interval from the covariance"
        if which == "rate":
            return Estimate(math.exp(value), math.exp(value - half), math.exp(value + half), self.n, method)
        most = 1.0 if which == "serial_fraction" else math.inf
        low, high = (
            min(max(bound, 0.0), most) if math.isfinite(half) else _NAN for bound in (value - half, value + half)
        )
        return Estimate(value, low, high, self.n, method)

    def rates(self, ranks: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return the law's rates at some ranks with the bounds of the 95 % band of its mean [samples/s].

        The band follows from the covariance (delta method on the logarithm), so it widens away from the measured ranks.
        It covers the scatter of the runs, not the possibility that another law applies.
        """
        counts = np.asarray(ranks, dtype=float)
        slopes = _slopes(self.law, counts, self.serial_fraction_ratio, self.coherency_ratio)
        variance = np.einsum("ij,jk,ik->i", slopes, self.covariance, slopes)
        half = self.student * np.sqrt(np.maximum(variance, 0.0))
        middle = self.log_rate + _log_speedup(self.law, counts, self.serial_fraction_ratio, self.coherency_ratio)
        return np.exp(middle), np.exp(middle - half), np.exp(middle + half)


def parallel_efficiency(rate: float, ranks: float, base_rate: float, base_ranks: float) -> float:
    """Return the parallel efficiency of a rate against a base [ratio].

    Parameters
    ----------
    rate, base_rate
        Rates of the result and of its base [the same unit]: throughput, FLOP/s or VFLOPS. If the base has other
        settings (precision, compression), the ratio includes their effect.
    ranks, base_ranks
        Ranks (or devices) that each of them used.

    Returns
    -------
    float
        ``(rate / base_rate) / (ranks / base_ranks)``; NaN where a rate is NaN.

    Raises
    ------
    ValueError
        If ranks or the base rate are not positive, or the rate is negative.
    """
    for name, value in (("ranks", ranks), ("base_ranks", base_ranks), ("base_rate", base_rate)):
        if value <= 0:
            raise ValueError(f"{name}: found {value:g}, expected a number above 0")
    if rate < 0:
        raise ValueError(f"rate: found {rate:g}, expected 0 or more")
    return float(rate / base_rate * base_ranks / ranks)


def solve_serial_fraction(ranks: ArrayLike, rates: ArrayLike, law: Literal["karp_flatt", "gustafson"]) -> LawFit:
    """Return the law through the rates at two numbers of ranks: exactly determined, so without intervals.

    Parameters
    ----------
    ranks, rates
        As for :func:`fit_law`, with two numbers of ranks; several rates at one number are averaged.
    law
        ``karp_flatt``: Amdahl's law, for strong scaling; ``gustafson``: for weak scaling.
    """
    counts, values = np.asarray(ranks, dtype=float), np.asarray(rates, dtype=float)
    first, second = np.unique(counts)
    means = [float(values[counts == count].mean()) for count in (first, second)]
    share = (karp_flatt if law == "karp_flatt" else gustafson_fraction)(means[1] / means[0], second, first)
    log_rate = math.log(means[0]) - float(_log_speedup(law, np.array([first]), share, 0.0)[0])
    return LawFit(law, log_rate, share, 0.0, np.full((3, 3), _NAN), len(values), _NAN, _NAN)


def fit_law(law: LawName, ranks: ArrayLike, rates: ArrayLike) -> LawFit:
    """Fit a law to the rates of all runs by least squares on their logarithms.

    Parameters
    ----------
    law
        ``amdahl``: ``R(p) = r p / (1 + sigma (p - 1))`` (Amdahl 1967), for strong scaling; ``gustafson``: ``R(p) = r
        (sigma + (1 - sigma) p)`` (Gustafson, Communications of the ACM 31, 1988), for weak scaling; ``universal``:
        ``R(p) = r p / (1 + sigma (p - 1) + kappa p (p - 1))`` (Gunther, Guerrilla Capacity Planning, 2007), whose sigma
        is contention and kappa coherency. ``0 <= sigma <= 1``, ``kappa >= 0``.
    ranks, rates
        One pair for each run: ranks, and throughput [samples/s], both above 0.

    Raises
    ------
    ValueError
        If the number of distinct ranks does not exceed the number of the law's parameters.
    """
    counts, values = np.asarray(ranks, dtype=float), np.log(np.asarray(rates, dtype=float))
    free = FREE[law]
    if len(np.unique(counts)) <= free:
        raise ValueError(TOO_FEW_COUNTS(law=law, found=len(np.unique(counts)), free=free))
    lower, upper = (-math.inf, 0.0, 0.0)[:free], (math.inf, 1.0, math.inf)[:free]
    found = optimize.least_squares(
        lambda numbers: numbers[0] + _log_speedup(law, counts, *_shares(numbers)) - values,
        _start(law, counts, values),
        jac=lambda numbers: _slopes(law, counts, *_shares(numbers))[:, :free],
        bounds=(lower, upper),
        x_scale="jac",
        method="dogbox",
        ftol=1e-14,
        xtol=1e-12,
        gtol=1e-14,
        max_nfev=2000,
    )
    squares = max(2 * float(found.cost), len(values) * SMALLEST_DEVIATION**2)
    deviation = math.sqrt(squares / (len(values) - free))
    names = ("rate", "serial_fraction_ratio", "coherency_ratio")
    serial_fraction, coherency = _shares(found.x)
    return LawFit(
        law=law,
        log_rate=float(found.x[0]),
        serial_fraction_ratio=serial_fraction,
        coherency_ratio=coherency,
        covariance=deviation**2 * _inverse_information(found.jac),
        n=len(values),
        deviation=deviation,
        aicc=_aicc(squares, len(values), free + 1),
        at_bound=tuple(name for name, side in zip(names, found.active_mask, strict=False) if side),
    )


def _shares(numbers: Floats) -> tuple[float, float]:
    return float(numbers[1]), float(numbers[2]) if len(numbers) > 2 else 0.0


def _loss(ranks: Floats, serial_fraction: float, coherency: float) -> Floats:
    """Return the time per sample relative to the ideal time."""
    loss: Floats = 1 + serial_fraction * (ranks - 1) + coherency * ranks * (ranks - 1)
    return loss


def _log_speedup(law: LawName, ranks: Floats, serial_fraction: float, coherency: float) -> Floats:
    speedup = (
        ranks - serial_fraction * (ranks - 1)
        if law == "gustafson"
        else ranks / _loss(ranks, serial_fraction, coherency)
    )
    logarithm: Floats = np.log(speedup)
    return logarithm


def _slopes(law: LawName, ranks: Floats, serial_fraction: float, coherency: float) -> Floats:
    """Return the derivatives of the log rate by the law's three parameters, one row per number of ranks."""
    if law == "gustafson":
        by_share = -(ranks - 1) / (ranks - serial_fraction * (ranks - 1))
        return np.stack([np.ones_like(ranks), by_share, np.zeros_like(ranks)], axis=1)
    loss = _loss(ranks, serial_fraction, coherency)
    return np.stack([np.ones_like(ranks), -(ranks - 1) / loss, -ranks * (ranks - 1) / loss], axis=1)


def _start(law: LawName, ranks: Floats, log_rates: Floats) -> Floats:
    """Return the start of the search: a linear fit in non-negative parameters.

    Time per sample and rank is linear in 1/r, sigma/r and kappa/r; for Gustafson's law the rate is linear in r sigma
    and r (1 - sigma).
    """
    if law == "gustafson":
        serial, parallel = _solve_positive(np.stack([np.ones_like(ranks), ranks], axis=1), np.exp(log_rates))
        return np.array([math.log(serial + parallel), min(max(serial / (serial + parallel), 1e-9), 0.99)])
    columns = np.stack([np.ones_like(ranks), ranks - 1, ranks * (ranks - 1)], axis=1)[:, : FREE[law]]
    times = ranks / np.exp(log_rates)
    found = _solve_positive(columns, times)
    base = found[0] if found[0] > 0 else times.min()
    # The search requires a start strictly within the bounds.
    shares = np.maximum(found[1:] / base, 1e-9)
    shares[0] = min(shares[0], 0.99)
    return np.array([-math.log(base), *shares])


def _solve_positive(columns: Floats, values: Floats) -> Floats:
    """Return non-negative coefficients that minimise the relative deviation of the sum of columns from the values."""
    scaled = columns / values[:, np.newaxis]
    size = np.abs(scaled).max(axis=0)
    found: Floats = optimize.nnls(scaled / size, np.ones_like(values))[0] / size
    return found


def _inverse_information(slopes: Floats) -> Floats:
    """Return the inverse of J^T J for the fitted parameters; rows and columns of missing parameters are 0."""
    size = np.linalg.norm(slopes, axis=0)
    inverse = np.linalg.pinv(slopes / size)
    filled = np.zeros((3, 3))
    free = slopes.shape[1]
    filled[:free, :free] = inverse @ inverse.T / np.outer(size, size)
    return filled


def _aicc(squares: float, n: int, numbers: int) -> float:
    if n <= numbers + 1:
        return math.inf
    return n * math.log(squares / n) + 2 * numbers + 2 * numbers * (numbers + 1) / (n - numbers - 1)
