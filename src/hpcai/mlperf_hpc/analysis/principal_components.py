"""Log-PCA of epochs and throughput: whether convergence or the machine makes the runs of a submission differ."""

import math
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.mlperf_hpc.analysis.columns import PRINCIPAL_COLUMNS
from hpcai.mlperf_hpc.analysis.run_quantities import NAN

Floats = NDArray[np.float64]
_RESULT = ["origin", "submission", "benchmark"]


@dataclass(frozen=True, slots=True)
class Axes:
    """Centre and principal axes of points (log10 epochs, log10 epoch throughput).

    Attributes
    ----------
    runs
        Number of points.
    centre_epochs, centre_epoch_rate_per_s
        Geometric means.
    std1_log10, std2_log10
        Standard deviations along the axes, the larger first; 10 to their power is a half axis as a factor.
    axis1_epochs, axis1_rate, axis2_epochs, axis2_rate
        Unit vectors. Their sign is arbitrary; here the coordinate of epochs is not negative.
    variance1_ratio
        Share of the variance along the first axis.
    correlation_ratio
        Of log epochs and log throughput; NaN where one of them is the same in all runs.
    """

    runs: int
    centre_epochs: float = NAN
    centre_epoch_rate_per_s: float = NAN
    std1_log10: float = NAN
    axis1_epochs: float = NAN
    axis1_rate: float = NAN
    std2_log10: float = NAN
    axis2_epochs: float = NAN
    axis2_rate: float = NAN
    variance1_ratio: float = NAN
    correlation_ratio: float = NAN


def principal_axes(epochs: Floats, epoch_rates_per_s: Floats) -> Axes:
    """Return the principal axes of the sample covariance (divisor: runs - 1) of the logarithms.

    A long first axis along the epochs says that convergence, not the machine, makes runs differ, because
    log T_epochs = log n - log(n / T_epochs) (Fig. 3 of the paper; mlperf_logs.md 6). The authors' released analysis
    feeds epoch times into it and labels the axis throughput: its sign of the second coordinate is the other one.

    Parameters
    ----------
    epochs, epoch_rates_per_s
        n and n / T_epochs [1/s] of the kept runs.

    Returns
    -------
    Axes
        All NaN but ``runs`` with fewer than two runs, or with one that is not a positive number.
    """
    points = np.stack([epochs, epoch_rates_per_s]).astype(np.float64)
    if points.shape[1] < 2 or not (np.isfinite(points) & (points > 0)).all():
        return Axes(points.shape[1])
    logs = np.log10(points)
    # Relative to the first run the same number of epochs in all runs gives exact zeros.
    offsets = logs - logs[:, :1]
    covariance = np.cov(offsets)
    variances, vectors = np.linalg.eigh(covariance)
    stds = np.sqrt(np.clip(variances, 0.0, None))
    first, second = _orient(vectors[:, 1]), _orient(vectors[:, 0])
    centre = 10 ** logs.mean(axis=1)
    total = float(variances.sum())
    spread = math.sqrt(covariance[0, 0] * covariance[1, 1])
    return Axes(
        runs=points.shape[1],
        centre_epochs=float(centre[0]),
        centre_epoch_rate_per_s=float(centre[1]),
        std1_log10=float(stds[1]),
        axis1_epochs=float(first[0]),
        axis1_rate=float(first[1]),
        std2_log10=float(stds[0]),
        axis2_epochs=float(second[0]),
        axis2_rate=float(second[1]),
        variance1_ratio=float(variances[1]) / total if total else NAN,
        correlation_ratio=float(covariance[0, 1]) / spread if spread else NAN,
    )


def principal_table(runs: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Return the principal axes of each result (Fig. 3).

    Parameters
    ----------
    runs, results
        The run table and the result table made from it.

    Returns
    -------
    DataFrame
        ``PRINCIPAL_COLUMNS``, in the order of the results.
    """
    kept = runs[runs["kept_by_status"]]
    rows = []
    for result in results.to_dict("records"):
        own = kept[kept[_RESULT].eq([result[name] for name in _RESULT]).all(axis=1)]
        axes = principal_axes(own["epochs"].to_numpy(np.float64), own["epoch_rate_per_s"].to_numpy(np.float64))
        named = {name: result[name] for name in ("origin", "submission", "label", "benchmark", "division")}
        rows.append({**named, **asdict(axes)})
    return pd.DataFrame(rows, columns=PRINCIPAL_COLUMNS)


def _orient(axis: Floats) -> Floats:
    """Turn an axis so that its coordinate of epochs, or else that of throughput, is not negative."""
    leading = axis[0] or axis[1]
    return np.asarray((-axis if leading < 0 else axis) + 0.0)
