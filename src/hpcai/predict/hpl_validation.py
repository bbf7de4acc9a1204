"""The HPL step model against real runs of HPL on processors: variant ``cpu`` with rates measured on the same machine.

Three models are compared (Hu and Lu 2021, doi 10.1007/s11227-021-03829-x, whose model counts the update alone):

* ``GEMM only``: the update of the trailing matrix.
* ``credited / GEMM rate``: all operations that HPL credits, 2/3 N³ + 3/2 N², at the rate of the update.
* ``three rates``: update, triangular solve and panel, each at its own rate.

On P x Q processes the update is shared by all. The triangular solve is shared by columns only, since every process row
solves for itself; the panel by rows only, since one process column factorises it and, without look-ahead, the others
wait. Rates depend on the order m of the remaining matrix: between the measured orders they are interpolated, outside
them the nearest counts, and each operation of a step is done at the rate of its step.
"""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.predict.hpl.counts import (
    Floats,
    count_gemm_flop,
    count_panel_flop,
    count_reported_flop,
    count_trsm_flop,
    list_trailing_orders,
)
from hpcai.predict.hpl.scenario import NodeRates, Scenario
from hpcai.predict.hpl.simulate import simulate

Model = Literal["three rates", "GEMM only", "credited / GEMM rate"]
GOAL_RATIO = 0.10
"""Accepted error of the predicted time."""
SHAPE = ["block", "process_rows", "process_columns"]
COLUMNS = columns_of("hpl_validation")
METHODS: dict[str, str] = {
    "three rates": "modelled: variant cpu, update, solve and panel at measured rates interpolated over m",
    "GEMM only": "modelled: variant cpu without solve and panel, as printed; measured rate of the update",
    "credited / GEMM rate": "modelled: credited operations over the measured rate of the update",
}
NO_RATES = Message("hpl_validation.no_rates", "nothing is predicted: the rates it needs were not measured")


@dataclass(frozen=True)
class ProcessRates:
    """Rates of one process [flop/s], each over all steps of one run: operations over the sum of their times.

    Attributes
    ----------
    gemm, trsm, panel
        NaN where nothing was measured.
    """

    gemm: float
    trsm: float
    panel: float


def validate_hpl(runs: pd.DataFrame, rates: pd.DataFrame, goal_ratio: float = GOAL_RATIO) -> pd.DataFrame:
    """Compare measured runs with what the models predict from measured rates.

    Parameters
    ----------
    runs
        One row per start: ``order``, ``block``, ``process_rows``, ``process_columns``, ``attempt``,
        ``measured_time_s``, ``measured_rate_flop_per_s``, ``residual``, ``threshold``, ``verdict``, ``cpu_ratio``,
        ``steal_ratio``, ``accepted``, ``reason``, ``source``.
    rates
        Table ``hpl_rates``: ``routine``, ``remaining_order``, ``block``, ``process_rows``, ``process_columns``,
        ``rate_flop_per_s`` of one process.
    goal_ratio
        Largest accepted magnitude of the error of the predicted time.

    Returns
    -------
    pandas.DataFrame
        One row per run and model, the columns of :data:`COLUMNS`. ``error_ratio`` is predicted over measured time,
        less one. ``within_goal`` is empty where the run was not accepted or nothing is predicted.
    """
    rows = [row for run in runs.to_dict("records") for row in _compare(run, rates, goal_ratio)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype({"accepted": bool, "within_goal": "boolean"})


def average_rates(order: int, block: int, process_rows: int, process_columns: int, rates: pd.DataFrame) -> ProcessRates:
    """Return the rates of one process over all steps of one run.

    Parameters
    ----------
    order, block, process_rows, process_columns
        N, NB, P and Q; only rates that were measured for this NB, P and Q count.
    rates
        Table ``hpl_rates``.
    """
    found = rates.dropna(subset=["rate_flop_per_s"])
    for name, value in zip(SHAPE, (block, process_rows, process_columns), strict=True):
        found = found[found[name] == value]
    m = list_trailing_orders(order, block)
    panels: Floats = m + block
    return ProcessRates(
        gemm=_average(found[found["routine"] == "dgemm"], count_gemm_flop(m, block), m),
        trsm=_average(found[found["routine"] == "dtrsm"], count_trsm_flop(m, block), m),
        panel=_average(found[found["routine"] == "panel"], count_panel_flop(m, block), panels),
    )


def predict_time_s(model: Model, run: Mapping[Hashable, Any], rates: ProcessRates) -> float:
    """Return the time [s] that a model predicts for a run on P x Q processes; NaN if a rate is not known."""
    order, block = int(run["order"]), int(run["block"])
    rows, columns = int(run["process_rows"]), int(run["process_columns"])
    together = rates.gemm * rows * columns
    wanted = (rates.gemm, rates.trsm, rates.panel) if model == "three rates" else (rates.gemm,)
    if not np.all(np.isfinite(wanted)):
        return float("nan")
    if model == "credited / GEMM rate":
        return float(count_reported_flop(float(order)) / together)
    with_parts = 1.0 if model == "three rates" else float("nan")
    # A rate that is not given leaves its part out.
    node = NodeRates(cpu_rate_flop_per_s=together)
    scenario = Scenario(
        order=order,
        block=block,
        rates=node,
        variant="cpu",
        trsm_rate_flop_per_s=with_parts * rates.trsm * columns,
        panel_rate_flop_per_s=with_parts * rates.panel * rows,
    )
    return float(simulate(scenario).time_s)


def _average(found: pd.DataFrame, work: Floats, orders: Floats) -> float:
    """Return all operations over the sum of their times, at rates interpolated over the order."""
    if found.empty:
        return float("nan")
    known = found.groupby("remaining_order")["rate_flop_per_s"].median()
    rate = np.interp(orders, known.index.to_numpy(dtype=np.float64), known.to_numpy(dtype=np.float64))
    return float(work.sum() / (work / rate).sum()) if work.sum() > 0 else float("nan")


def _compare(run: Mapping[Hashable, Any], rates: pd.DataFrame, goal_ratio: float) -> Iterator[dict[str, Any]]:
    order, block, rows, columns = (int(run[name]) for name in ("order", *SHAPE))
    process = average_rates(order, block, rows, columns, rates)
    for model in get_args(Model):
        predicted_s = predict_time_s(model, run, process)
        error = predicted_s / float(run["measured_time_s"]) - 1
        judged = bool(run["accepted"]) and np.isfinite(error)
        unknown = "" if np.isfinite(predicted_s) else NO_RATES()
        yield {
            **{name: run[name] for name in COLUMNS if name in run},
            "model": model,
            "gemm_rate_flop_per_s": process.gemm,
            "trsm_rate_flop_per_s": process.trsm if model == "three rates" else float("nan"),
            "panel_rate_flop_per_s": process.panel if model == "three rates" else float("nan"),
            "predicted_time_s": predicted_s,
            "error_ratio": error,
            "goal_ratio": goal_ratio,
            "within_goal": abs(error) <= goal_ratio if judged else None,
            "reason": "; ".join(words for words in (str(run["reason"]), unknown) if words),
            "method": METHODS[model],
            "source": run["source"],
        }
