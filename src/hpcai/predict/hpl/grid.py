"""HPL on a grid of P x Q processes: the analysis of HPL itself behind eq. 2 of Hu and Lu 2021."""

import numpy as np
from numpy.typing import ArrayLike

from hpcai.errors import ConfigError
from hpcai.predict.hpl.counts import Floats, count_reported_flop


def grid_communication_s(
    order: ArrayLike,
    block: ArrayLike,
    process_rows: ArrayLike,
    process_columns: ArrayLike,
    latency_s: ArrayLike,
    double_s: ArrayLike,
) -> Floats:
    """Return the communication time [s] of one process.

    β N² (3P + Q) / (2PQ) + α N ((NB + 1) log₂P + P) / NB, with α = ``latency_s`` of a message and β = ``double_s``, the
    time of one double. Source: HPL's documentation, "scalability", which eq. 2 abbreviates to a term without a unit.

    Raises
    ------
    ConfigError
        If a size is not positive or a time is negative.
    """
    n, nb, p, q = (np.asarray(value, dtype=np.float64) for value in (order, block, process_rows, process_columns))
    latency, double = np.asarray(latency_s, dtype=np.float64), np.asarray(double_s, dtype=np.float64)
    if any(np.any(~(value >= 1)) for value in (n, nb, p, q)):
        raise ConfigError("order, block, process_rows and process_columns have to be 1 or more")
    if np.any(~(latency >= 0)) or np.any(~(double >= 0)):
        raise ConfigError("latency_s and double_s have to be 0 or more")
    moved = double * n * n * (3 * p + q) / (2 * p * q)
    return np.asarray(moved + latency * n * ((nb + 1) * np.log2(p) + p) / nb, dtype=np.float64)


def grid_time_s(
    order: ArrayLike,
    process_rows: ArrayLike,
    process_columns: ArrayLike,
    rate_flop_per_s: ArrayLike,
    communication_s: ArrayLike,
) -> Floats:
    """Return reported flop / (P Q rate of one process) + communication [s] (eq. 2 corrected)."""
    work = count_reported_flop(np.asarray(order, dtype=np.float64))
    processes = np.asarray(process_rows, dtype=np.float64) * np.asarray(process_columns, dtype=np.float64)
    rate = np.asarray(rate_flop_per_s, dtype=np.float64)
    if np.any(~(rate > 0)) or np.any(~(processes > 0)):
        raise ConfigError("the rate of a process and the number of processes have to be positive")
    return np.asarray(work / (processes * rate) + np.asarray(communication_s, dtype=np.float64), dtype=np.float64)
