"""Latency and bandwidth of a link, fitted to allreduce times over message sizes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from hpcai.catalogue.points import USUAL_ENGINE
from hpcai.core.disturbance import Disturbance
from hpcai.core.text import say_share

CALL, TRANSFER = "call", "transfer"
"""What is timed: everything that a training step waits for (negotiation, Horovod's next cycle, the transfer, the way
back), or the transfer alone, which is what a timeline shows for the batches of a training."""
FEWEST_SIZES = 4
"""Two parameters and their errors need more than three sizes."""
LEAST_SPAN_RATIO = 100.0
"""Largest over smallest message: with a smaller span, either latency or bandwidth is not visible."""
HUBER_LIMIT = 1.345
"""Residuals beyond this many standard deviations count less (Huber: 95 % efficiency for normal errors)."""
ROUNDS = 50

_NAN = float("nan")
Floats = NDArray[np.float64]


class AllreduceSample(BaseModel):
    """One allreduce: the whole call, and the transfer in it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size_bytes: int = Field(gt=0, description="Of the tensor of each rank.")
    duration_s: float = Field(gt=0, description="From the arrival of the last rank to the end on the slowest rank.")
    transfer_s: float | None = Field(
        default=None, gt=0, description="In the communication library, on rank 0, by Horovod's timeline."
    )


class AllreduceReport(BaseModel):
    """Measurements of the ranks, or why there are none; the only interface between ranks and analysis."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ranks: int | None = Field(default=None, ge=1, description="None: no rank has reported.")
    engine: str = Field(
        default=USUAL_ENGINE, description="Library that exchanged; absent in reports of versions without this choice."
    )
    nodes: int | None = Field(default=None, ge=1)
    device: str = ""
    samples: tuple[AllreduceSample, ...] = Field(default=(), description="Without warm-up.")
    not_measured: tuple[str, ...] = Field(default=(), description="One sentence for each missing value.")
    transfers_missing: tuple[str, ...] = Field(default=(), description="Why samples lack the time of their transfer.")
    disturbance: tuple[Disturbance, ...] = Field(default=(), description="Use of each node by others meanwhile.")


@dataclass(frozen=True)
class LinkFit:
    """Time of an allreduce: ``t(size) = latency_s + size / bandwidth_bytes_per_s``.

    Attributes
    ----------
    latency_s, latency_error_s
        alpha, and its standard error.
    bandwidth_bytes_per_s, bandwidth_error_bytes_per_s
        1 / beta: the algorithm bandwidth that long messages approach, and its standard error.
    n
        Number of message sizes in the fit.
    misfit_ratio
        Largest deviation of a time from the line, relative to that time; a large value means that the model does not
        fit.
    reason
        Why there is no fit; blank if there is one. Without a fit, numbers are NaN.
    """

    latency_s: float
    latency_error_s: float
    bandwidth_bytes_per_s: float
    bandwidth_error_bytes_per_s: float
    n: int
    misfit_ratio: float
    reason: str = ""


def fit_link(sizes_bytes: Sequence[float], times_s: Sequence[float]) -> LinkFit:
    """Fit latency and bandwidth to times over message sizes.

    Parameters
    ----------
    sizes_bytes
        Message sizes [bytes]; several times of one size are allowed.
    times_s
        Time of each [s], for example the median over repetitions.

    Returns
    -------
    LinkFit
        The line (alpha-beta model; Hockney, Parallel Computing 20, 1994) with the smallest deviation of the logarithms
        of the times, so that short messages count as much as long ones; outliers count less (Huber). Without a sensible
        line all numbers are NaN, and the reason explains why.
    """
    if len(sizes_bytes) != len(times_s):
        raise ValueError(f"found {len(sizes_bytes)} sizes and {len(times_s)} times, expected as many of each")
    pairs = [(size, time) for size, time in zip(sizes_bytes, times_s, strict=True) if _is_measured(size, time)]
    sizes, times = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    unfit = _why_not(sizes)
    if unfit:
        return _no_fit(len(pairs), unfit)
    # Scale both unknowns: message sizes span eight orders of magnitude.
    scale_bytes = float(sizes.max())
    (alpha_s, slope_s), covariance = _solve(sizes / scale_bytes, times)
    errors_s = np.sqrt(np.diag(covariance))
    if alpha_s <= 0 or slope_s <= 0:
        name, value, error = (
            ("latency", alpha_s, errors_s[0])
            if alpha_s <= 0
            else ("time per byte", slope_s / scale_bytes, errors_s[1] / scale_bytes)
        )
        return _no_fit(len(pairs), f"the line of best fit has a {name} of {value:.3g} ± {error:.3g} s, not above 0")
    bandwidth = scale_bytes / slope_s
    return LinkFit(
        latency_s=float(alpha_s),
        latency_error_s=float(errors_s[0]),
        bandwidth_bytes_per_s=float(bandwidth),
        bandwidth_error_bytes_per_s=float(bandwidth * errors_s[1] / slope_s),
        n=len(pairs),
        misfit_ratio=float(np.abs(1 - (alpha_s + slope_s * sizes / scale_bytes) / times).max()),
    )


def say_misfit(misfit_ratio: float) -> str:
    """Say how far a fitted line is from a measured time at most; beyond one, it is that many times the time or more."""
    if math.isnan(misfit_ratio):
        return "its deviation is not known"
    if misfit_ratio > 1:
        return f"up to {1 + misfit_ratio:.3g} times a measured time"
    return f"at most {say_share(misfit_ratio)} off a measured time"


def of_engine(view: pd.DataFrame, engine: object) -> pd.DataFrame:
    """Return the rows of a view of links or link fits that were measured with a run's engine."""
    own: pd.DataFrame = view if view.empty else view[view["engine"] == engine]
    return own


def rate_at(links: pd.DataFrame, what: str, ranks: int, size_bytes: float, scope: str | None = None) -> float:
    """Return the best algorithm bandwidth of the measured allreduce for a message of some size [bytes/s].

    Interpolated on logarithmic scales between the measured sizes, from the fastest repetition of each; NaN outside
    them. Times `2 (n - 1) / n` it is the bus bandwidth.

    Parameters
    ----------
    links
        View of links.
    what
        `CALL` or `TRANSFER`.
    ranks, size_bytes
        Ranks that exchange, and the size of the tensor or batch of each.
    scope
        ``node`` or ``network``; None for the faster one.
    """
    if links.empty:
        return _NAN
    own = links[(links["what"] == what) & (links["ranks"] == ranks) & (links["time_min_s"] > 0) & (links["bytes"] > 0)]
    times = (own if scope is None else own[own["scope"] == scope]).groupby("bytes")["time_min_s"].min()
    sizes = times.index.to_numpy(dtype=float)
    if not (len(sizes) and sizes[0] <= size_bytes <= sizes[-1]):
        return _NAN
    return float(np.exp(np.interp(math.log(size_bytes), np.log(sizes), np.log(sizes / times.to_numpy(dtype=float)))))


def _is_measured(size_bytes: float, time_s: float) -> bool:
    return math.isfinite(size_bytes) and math.isfinite(time_s) and size_bytes > 0 and time_s > 0


def _why_not(sizes_bytes: Floats) -> str:
    different = len(np.unique(sizes_bytes))
    if different < FEWEST_SIZES:
        return f"{different} message sizes with a time, at least {FEWEST_SIZES} are needed"
    span = float(sizes_bytes.max() / sizes_bytes.min())
    if span < LEAST_SPAN_RATIO:
        return f"the largest message is only {span:.3g} times the smallest, at least {LEAST_SPAN_RATIO:g} is needed"
    return ""


def _no_fit(n: int, reason: str) -> LinkFit:
    return LinkFit(_NAN, _NAN, _NAN, _NAN, n, _NAN, reason)


def _solve(shares: Floats, times_s: Floats) -> tuple[Floats, Floats]:
    """Return alpha and the time of the largest message beyond it, by Gauss-Newton and Huber, and their covariance.

    Residuals are logarithms of measured over modelled time: relative to the measured time alone, a line far below all
    points would never be more than 100 % off.

    Parameters
    ----------
    shares
        Message sizes over the largest one.
    times_s
        Their times [s].
    """
    columns = np.stack([np.ones_like(shares), shares], axis=1)
    modelled_s, weights = times_s, np.ones(len(times_s))
    unknowns = np.zeros(2)
    for _ in range(ROUNDS):
        before, residuals = unknowns, np.log(times_s / modelled_s)
        design, root = columns / modelled_s[:, np.newaxis], np.sqrt(weights)
        unknowns = np.linalg.lstsq(design * root[:, np.newaxis], root * (1 + residuals), rcond=None)[0]
        # During the search, a line may become negative, where the logarithm is undefined.
        modelled_s = np.maximum(columns @ unknowns, modelled_s / 10)
        residuals = np.abs(np.log(times_s / modelled_s))
        # The median ignores the outliers that it must detect; the factor 0.6745 converts it to a standard deviation.
        deviation = float(np.median(residuals)) / 0.6745
        if deviation < 1e-12 or np.allclose(unknowns, before, rtol=1e-10, atol=0):
            break
        weights = np.minimum(1.0, HUBER_LIMIT * deviation / np.maximum(residuals, 1e-300))
    design = columns / modelled_s[:, np.newaxis]
    variance = float(np.sum(weights * residuals**2)) / (len(times_s) - 2)
    return unknowns, variance * np.linalg.inv((design * weights[:, np.newaxis]).T @ design)
