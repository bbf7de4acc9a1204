"""Fits the three parameters of ``calibrated`` to rates of several configurations; a fit is no prediction."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from hpcai.core.errors import ConfigError
from hpcai.predict.hpl.counts import Floats
from hpcai.predict.hpl.scenario import NodeRates, Scenario
from hpcai.predict.hpl.simulate import simulate
from hpcai.predict.links import plain_network

COLUMNS = ("nodes", "gpus_per_node", "order", "block")


@dataclass(frozen=True)
class Calibration:
    """Effective rates g of one GPU and c of the processors of a node [flop/s], b of the network [B/s].

    b is NaN, with a reason, where no row has more than one node.
    """

    gpu_rate_flop_per_s: float
    cpu_rate_flop_per_s: float
    network_bytes_per_s: float
    reason: str = ""

    def scenario_of(self, rows: pd.DataFrame) -> Scenario:
        """Return the scenario of all rows (nodes, gpus_per_node, order, block)."""
        nodes, gpus, order, block = (rows[name].to_numpy(dtype=np.float64) for name in COLUMNS)
        return Scenario(
            order=order,
            block=block,
            nodes=nodes,
            variant="calibrated",
            rates=NodeRates(
                gpu_rate_flop_per_s=gpus * self.gpu_rate_flop_per_s, cpu_rate_flop_per_s=self.cpu_rate_flop_per_s
            ),
            network=plain_network(8 * self.network_bytes_per_s, "fitted"),
        )


def fit_calibration(rows: pd.DataFrame, rate_flop_per_s: Sequence[float] | Floats) -> Calibration:
    """Fit g, c and b by least squares on the relative errors of the rate.

    Parameters
    ----------
    rows
        nodes, gpus_per_node, order, block; at least three rows.
    rate_flop_per_s
        The rate of each row [flop/s].

    Raises
    ------
    ConfigError
        If a column is missing, there are too few rows, or a rate is not positive.
    """
    rates = np.asarray(rate_flop_per_s, dtype=np.float64)
    missing = [name for name in COLUMNS if name not in rows]
    if missing or len(rows) != len(rates) or not np.all(rates > 0):
        raise ConfigError(
            f"to calibrate, rows with {', '.join(COLUMNS)} and one rate above 0 for each are needed; missing: "
            f"{', '.join(missing) or 'rates'}"
        )
    several = bool((rows["nodes"] > 1).any())
    if len(rows) < 2 + several or rows["gpus_per_node"].nunique() < 2:
        raise ConfigError(
            "to calibrate, three rows with two numbers of GPUs per node are needed: g and c cannot be told apart"
        )
    per_device = float(np.max(rates / (rows["nodes"] * rows["gpus_per_node"])))
    start = np.log([per_device, per_device / 3, 3e9][: 2 + several])

    def residuals(logs: Floats) -> Floats:
        return np.asarray(simulate(_calibration(logs).scenario_of(rows)).rate_flop_per_s / rates - 1, dtype=np.float64)

    # Logarithms keep parameters positive and of one size.
    return _calibration(least_squares(residuals, start, xtol=1e-14, ftol=1e-14, gtol=1e-14).x)


def _calibration(logs: Floats) -> Calibration:
    values = np.exp(logs)
    if len(values) == 3:
        return Calibration(float(values[0]), float(values[1]), float(values[2]))
    return Calibration(float(values[0]), float(values[1]), np.nan, "no row has more than one node")


def leave_one_out(rows: pd.DataFrame, rate_flop_per_s: Sequence[float] | Floats) -> pd.DataFrame:
    """Return the error of each row when its whole configuration (nodes and GPUs per node) was left out of the fit.

    Columns: nodes, gpus_per_node, order, block, rate_flop_per_s (predicted), error_ratio (predicted / given - 1),
    reason.
    What cannot be predicted, a network that no other row has, is NaN with the reason.
    """
    rates = np.asarray(rate_flop_per_s, dtype=np.float64)
    parts = []
    for _, part in rows.reset_index(drop=True).groupby(["nodes", "gpus_per_node"], sort=False):
        rest = np.ones(len(rows), dtype=bool)
        rest[part.index] = False
        predicted, reason = np.full(len(part), np.nan), ""
        try:
            fit = fit_calibration(rows[rest], rates[rest])
            if part["nodes"].iloc[0] > 1 and np.isnan(fit.network_bytes_per_s):
                reason = fit.reason
            else:
                predicted = simulate(fit.scenario_of(part)).rate_flop_per_s
        except ConfigError as error:
            reason = str(error)
        errors = predicted / rates[part.index] - 1
        parts.append(part[list(COLUMNS)].assign(rate_flop_per_s=predicted, error_ratio=errors, reason=reason))
    return pd.concat(parts, ignore_index=True)
