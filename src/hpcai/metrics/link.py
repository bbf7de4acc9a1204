"""Latency and bandwidth of a link, fitted to allreduce times over message sizes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

FEWEST_SIZES = 4
"""Two parameters and their errors need more sizes than three to say anything."""
LEAST_SPAN_RATIO = 100.0
"""Largest over smallest message: with less, either the latency or the bandwidth cannot be seen."""
HUBER_LIMIT = 1.345
"""Residuals beyond so many standard deviations count less (Huber: 95 % efficiency for normal errors)."""
ROUNDS = 50

_NAN = float("nan")


class AllreduceSample(BaseModel):
    """One allreduce, from the moment when all ranks were there to the end on the slowest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    size_bytes: int = Field(gt=0, description="Of the tensor of each rank.")
    duration_s: float = Field(gt=0, description="Maximum over ranks.")


class AllreduceReport(BaseModel):
    """What the ranks measured, or why they did not; the one contract between them and the analysis."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ranks: int | None = Field(default=None, ge=1, description="None: no rank has reported.")
    nodes: int | None = Field(default=None, ge=1)
    device: str = ""
    samples: tuple[AllreduceSample, ...] = Field(default=(), description="Without those that warm up.")
    not_measured: tuple[str, ...] = Field(default=(), description="One sentence for everything that is missing.")


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
        Message sizes that the fit stands on.
    misfit_ratio
        Largest distance between a time and the line, over that time: a link is no line if this is large.
    reason
        Why there is no fit; empty if there is one. Numbers without a fit are NaN.
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
        The line (alpha-beta model; Hockney, Parallel Computing 20, 1994) whose residuals relative to the times are
        smallest, so that a short message counts as much as a long one; times far from the line count less (Huber).
        Without a sensible line all numbers are NaN and the reason says why.
    """
    if len(sizes_bytes) != len(times_s):
        raise ValueError(f"found {len(sizes_bytes)} sizes and {len(times_s)} times, expected as many of each")
    pairs = [(size, time) for size, time in zip(sizes_bytes, times_s, strict=True) if _is_measured(size, time)]
    sizes, times = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    unfit = _why_not(sizes)
    if unfit:
        return _no_fit(len(pairs), unfit)
    # Both unknowns in units of their own: message sizes span eight orders of magnitude.
    scale_bytes = float(sizes.max())
    design = np.stack([np.ones_like(sizes), sizes / scale_bytes], axis=1) / times[:, np.newaxis]
    (alpha_s, slope_s), covariance = _solve(design)
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
        misfit_ratio=float(np.abs(1 - design @ (alpha_s, slope_s)).max()),
    )


def _is_measured(size_bytes: float, time_s: float) -> bool:
    return math.isfinite(size_bytes) and math.isfinite(time_s) and size_bytes > 0 and time_s > 0


def _why_not(sizes_bytes: NDArray[np.float64]) -> str:
    different = len(np.unique(sizes_bytes))
    if different < FEWEST_SIZES:
        return f"{different} message sizes with a time, at least {FEWEST_SIZES} are needed"
    span = float(sizes_bytes.max() / sizes_bytes.min())
    if span < LEAST_SPAN_RATIO:
        return f"the largest message is only {span:.3g} times the smallest, at least {LEAST_SPAN_RATIO:g} is needed"
    return ""


def _no_fit(n: int, reason: str) -> LinkFit:
    return LinkFit(_NAN, _NAN, _NAN, _NAN, n, _NAN, reason)


def _solve(design: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the unknowns of ``design @ unknowns = 1`` by Huber's iteration, and their covariance."""
    freedom = len(design) - design.shape[1]
    weights = np.ones(len(design))
    unknowns = np.zeros(design.shape[1])
    for _ in range(ROUNDS):
        before = unknowns
        root = np.sqrt(weights)
        unknowns = np.linalg.lstsq(design * root[:, np.newaxis], root, rcond=None)[0]
        residuals = np.abs(1 - design @ unknowns)
        # The median is not moved by the outliers that it shall find; 0.6745 makes it a standard deviation.
        deviation = float(np.median(residuals)) / 0.6745
        if deviation < 1e-12 or np.allclose(unknowns, before, rtol=1e-10, atol=0):
            break
        weights = np.minimum(1.0, HUBER_LIMIT * deviation / np.maximum(residuals, 1e-300))
    variance = float(np.sum(weights * residuals**2)) / freedom
    return unknowns, variance * np.linalg.inv((design * weights[:, np.newaxis]).T @ design)
