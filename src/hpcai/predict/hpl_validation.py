"""Validate the HPL step model against real runs on processors: variant ``cpu`` with rates measured on the same machine.

Four models are compared (Hu and Lu 2021, doi 10.1007/s11227-021-03829-x, whose model only counts the update):

* ``GEMM only``: the update of the trailing matrix.
* ``credited / GEMM rate``: all operations that HPL credits, 2/3 N³ + 3/2 N², at the rate of the update.
* ``three rates``: update, triangular solve and panel, each at its own rate.
* ``all parts``: these three, and data movement: row exchanges, the panel's broadcast, back substitution.

On P x Q processes, all share the update. Columns only share the triangular solve, because every process row solves
for itself. Rows only share the panel: one process column factorises it and, without look-ahead, the others wait. Rates
depend on the order m of the remaining matrix. They are interpolated between the measured orders, with the nearest value
outside them, and each operation of a step uses the rate of its step.

Blocks are dealt to the processes in turn, so shares are not equal: the column that holds the next panel never has
fewer columns of the remaining matrix than another one, and all wait for that panel. ``all parts`` counts what this
column, and the row with the next diagonal block, have: m_Q columns and m_P rows. The others count m / Q and m / P.

Data moved in a step on P x Q processes: 32 NB m_Q bytes by row exchanges, in memory; with P > 1 also
16 NB m_Q (P - 1) / P bytes in messages; with Q > 1 the panel, 8 NB (m + NB)_P bytes in messages, once, because the
next panel's column gets it first. Back substitution reads the matrix once, 4 N² / (P Q) bytes.
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
    count_exchange_bytes,
    count_gemm_flop,
    count_panel_flop,
    count_panel_link_bytes,
    count_reported_flop,
    count_substitution_bytes,
    count_trsm_flop,
    deal_out,
    list_trailing_orders,
)
from hpcai.predict.hpl.scenario import NodeRates, Scenario
from hpcai.predict.hpl.simulate import simulate

Model = Literal["all parts", "three rates", "GEMM only", "credited / GEMM rate"]
PARTS = ("update_s", "solve_s", "panel_s", "exchange_s", "broadcast_s", "substitution_s")
"""Parts of the model ``all parts``: columns of the table."""
WITH_PARTS = ("all parts", "three rates")
GOAL_RATIO = 0.05
"""Accepted error of the predicted time."""
SHAPE = ["block", "process_rows", "process_columns"]
COLUMNS = columns_of("hpl_validation")
METHODS: dict[str, str] = {
    "all parts": "modelled: sum of all parts of the steps at measured rates interpolated over m",
    "three rates": "modelled: variant cpu, update, solve and panel at measured rates interpolated over m",
    "GEMM only": "modelled: variant cpu without solve and panel, as printed; measured rate of the update",
    "credited / GEMM rate": "modelled: credited operations over the measured rate of the update",
}
NO_RATES = Message("hpl_validation.no_rates", "nothing is predicted: the rates it needs were not measured")
UNKNOWN_LIBRARY = Message(
    "hpl_validation.unknown_library",
    "nothing is predicted: HPL's own library is not known, and rates of another one would not predict it",
)
OTHER_LIBRARY = Message(
    "hpl_validation.other_library",
    "nothing is predicted: HPL computes with {library}, and the measured rates are of {timed}",
)


@dataclass(frozen=True)
class ProcessRates:
    """Rates of one process over all steps of one run: work over the sum of its times; NaN if not measured.

    Attributes
    ----------
    gemm, trsm, panel
        [flop/s].
    exchange, substitution
        Row exchanges and back substitution, in memory [B/s].
    """

    gemm: float
    trsm: float
    panel: float
    exchange: float = float("nan")
    substitution: float = float("nan")


def validate_hpl(runs: pd.DataFrame, rates: pd.DataFrame, goal_ratio: float = GOAL_RATIO) -> pd.DataFrame:
    """Compare measured runs with the models' predictions from measured rates.

    Parameters
    ----------
    runs
        One row per start: ``order``, ``block``, ``process_rows``, ``process_columns``, ``attempt``, ``n``,
        ``measured_time_s``, ``measured_rate_flop_per_s``, ``spread_ratio``, ``message_rate_bytes_per_s``,
        ``residual``, ``threshold``, ``verdict``, ``cpu_ratio``, ``steal_ratio``, ``accepted``, ``reason``, ``source``,
        and the ``library`` that HPL computes with, blank if it is not known.
    rates
        Table ``hpl_rates``: ``routine``, ``remaining_order``, ``block``, ``process_rows``, ``process_columns``,
        ``rate_flop_per_s`` or ``rate_bytes_per_s`` of one process, and the ``library`` that they were measured of.
    goal_ratio
        Largest accepted magnitude of the error of the predicted time.

    Returns
    -------
    pandas.DataFrame
        One row per run and model, with the columns :data:`COLUMNS`. ``error_ratio`` is predicted over measured time,
        minus one. ``within_goal`` is empty if the run was rejected or there is no prediction.
    """
    rows = [row for run in runs.to_dict("records") for row in _compare(run, rates, goal_ratio)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype({"accepted": bool, "within_goal": "boolean"})


def rates_of_library(run: Mapping[Hashable, Any], rates: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rates of the library that a run computes with, and why a model may lack some."""
    library, known = str(run["library"]), rates.dropna(subset=["rate_flop_per_s", "rate_bytes_per_s"], how="all")
    own = known[known["library"] == library] if library else known.iloc[:0]
    if not library and np.isfinite(float(run["measured_time_s"])):
        return own, UNKNOWN_LIBRARY()
    if library and own.empty and len(known):
        return own, OTHER_LIBRARY(library=library, timed=", ".join(sorted(set(known["library"]))))
    return own, NO_RATES()


def average_rates(order: int, block: int, process_rows: int, process_columns: int, rates: pd.DataFrame) -> ProcessRates:
    """Return the rates of one process over all steps of one run.

    Parameters
    ----------
    order, block, process_rows, process_columns
        N, NB, P and Q; only rates measured for this NB, P and Q count, and for this N if there are any.
    rates
        Table ``hpl_rates``.
    """
    found = rates.assign(rate=rates["rate_flop_per_s"].fillna(rates["rate_bytes_per_s"])).dropna(subset=["rate"])
    for name, value in zip(SHAPE, (block, process_rows, process_columns), strict=True):
        found = found[found[name] == value]
    # Taken in turns with this test, if any were: those of another one belong to another time.
    own = found[found["order"] == order]
    found = found if own.empty else own
    m = list_trailing_orders(order, block)
    panels: Floats = m + block

    def over_steps(routine: str, work: Floats, orders: Floats = m) -> float:
        return _average(found[found["routine"] == routine], work, orders)

    return ProcessRates(
        gemm=over_steps("dgemm", count_gemm_flop(m, block)),
        trsm=over_steps("dtrsm", count_trsm_flop(m, block)),
        panel=over_steps("panel", count_panel_flop(m, block), panels),
        exchange=over_steps("dlaswp", count_exchange_bytes(m, block)),
        substitution=over_steps("dgemv", np.full(1, float(order)), np.full(1, float(order))),
    )


def part_times(run: Mapping[Hashable, Any], rates: ProcessRates) -> dict[str, float]:
    """Return the time [s] of each part of a run, in the order of :data:`PARTS`; NaN for an unknown rate."""
    order, block = int(run["order"]), int(run["block"])
    rows, columns = int(run["process_rows"]), int(run["process_columns"])
    m = list_trailing_orders(order, block)
    height, width = deal_out(m, block, rows), deal_out(m, block, columns)
    below: Floats = deal_out(m + block, block, rows) - block
    messages = float(run.get("message_rate_bytes_per_s", float("nan")))
    pairs = float(count_exchange_bytes(width, block).sum())
    spread_s = pairs / 2 * (rows - 1) / rows / messages if rows > 1 else 0.0
    panels = float(count_panel_link_bytes(below, block).sum()) / 2
    return {
        "update_s": 2 * block * float((height * width).sum()) / rates.gemm,
        "solve_s": float(count_trsm_flop(width, block).sum()) / rates.trsm,
        "panel_s": float(count_panel_flop(below, block).sum()) / rates.panel,
        "exchange_s": pairs / rates.exchange + spread_s,
        "broadcast_s": panels / messages if columns > 1 else 0.0,
        "substitution_s": count_substitution_bytes(float(order)) / rates.substitution / (rows * columns),
    }


def predict_time_s(model: Model, run: Mapping[Hashable, Any], rates: ProcessRates) -> float:
    """Return the time [s] that a model predicts for a run on P x Q processes; NaN for an unknown rate."""
    order, block = int(run["order"]), int(run["block"])
    rows, columns = int(run["process_rows"]), int(run["process_columns"])
    if model == "all parts":
        return float(sum(part_times(run, rates).values()))
    together = rates.gemm * rows * columns
    wanted = (rates.gemm, rates.trsm, rates.panel) if model == "three rates" else (rates.gemm,)
    if not np.all(np.isfinite(wanted)):
        return float("nan")
    if model == "credited / GEMM rate":
        return float(count_reported_flop(float(order)) / together)
    with_parts = 1.0 if model == "three rates" else float("nan")
    # A missing rate omits its part.
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
    """Return all work over the sum of its times, at rates interpolated over the order."""
    if found.empty:
        return float("nan")
    known = found.groupby("remaining_order")["rate"].median()
    rate = np.interp(orders, known.index.to_numpy(dtype=np.float64), known.to_numpy(dtype=np.float64))
    return float(work.sum() / (work / rate).sum()) if work.sum() > 0 else float("nan")


def _compare(run: Mapping[Hashable, Any], rates: pd.DataFrame, goal_ratio: float) -> Iterator[dict[str, Any]]:
    order, block, rows, columns = (int(run[name]) for name in ("order", *SHAPE))
    own, no_rates = rates_of_library(run, rates)
    process = average_rates(order, block, rows, columns, own)
    unknown_parts = dict.fromkeys(PARTS, float("nan"))
    for model in get_args(Model):
        predicted_s = predict_time_s(model, run, process)
        error = predicted_s / float(run["measured_time_s"]) - 1
        judged = bool(run["accepted"]) and np.isfinite(error)
        unknown = "" if np.isfinite(predicted_s) else no_rates
        yield {
            **{name: run[name] for name in COLUMNS if name in run},
            "model": model,
            "gemm_rate_flop_per_s": process.gemm,
            "trsm_rate_flop_per_s": process.trsm if model in WITH_PARTS else float("nan"),
            "panel_rate_flop_per_s": process.panel if model in WITH_PARTS else float("nan"),
            **(part_times(run, process) if model == "all parts" else unknown_parts),
            "predicted_time_s": predicted_s,
            "error_ratio": error,
            "goal_ratio": goal_ratio,
            "within_goal": abs(error) <= goal_ratio if judged else None,
            "reason": "; ".join(words for words in (str(run["reason"]), unknown) if words),
            "method": METHODS[model],
            "source": run["source"],
        }
