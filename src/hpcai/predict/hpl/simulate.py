"""Run the step model: thousands of scenarios at once, or all steps of one as a table (Hu and Lu 2021)."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from hpcai.core.errors import ConfigError
from hpcai.predict.hpl.counts import (
    Floats,
    count_gemm_flop,
    count_network_bytes,
    count_panel_flop,
    count_reported_flop,
    count_trsm_flop,
    list_trailing_orders,
)
from hpcai.predict.hpl.scenario import Columns, Rows, Scenario, lay_out
from hpcai.predict.hpl.variants import STEPS, network_step_s

STEPS_AT_ONCE = 2**13
"""Scenarios times steps computed together: arrays of 64 KiB fit in a core's cache, and the allocator reuses their
memory instead of requesting it each time (measured: 2 to 3 times faster than 256 KiB)."""


@dataclass(frozen=True)
class Prediction:
    """Result of the model; arrays have the broadcast shape of the scenario.

    Attributes
    ----------
    time_s
        Sum of all steps.
    rate_flop_per_s
        Reported operations over this time.
    peak_flop_per_s, efficiency_ratio
        Peak of all GPUs of all nodes (``cpu``: of all processors), and the rate over it; NaN if no peak is known.
    variant, form, flop_count, method
        The equations used.
    """

    time_s: Floats
    rate_flop_per_s: Floats
    peak_flop_per_s: Floats
    efficiency_ratio: Floats
    variant: str
    form: str
    flop_count: str
    method: str = "modelled"


def simulate(scenario: Scenario) -> Prediction:
    """Predict time, rate and efficiency of every scenario.

    Returns
    -------
    Prediction
        Arrays of the broadcast shape, 0-dimensional for one scenario.

    Raises
    ------
    ConfigError
        If a scenario cannot be computed; names the field.
    """
    columns, shape = lay_out(scenario)
    time_s = np.empty_like(columns.order)
    for rows in _share_out(columns):
        time_s[rows] = _sum_steps(columns.take(rows), scenario)
    rate = count_reported_flop(columns.order, scenario.flop_count) / time_s
    peak = columns.nodes * (columns.cpu_peak if scenario.variant == "cpu" else columns.gpu_peak)
    return Prediction(
        time_s=time_s.reshape(shape),
        rate_flop_per_s=rate.reshape(shape),
        peak_flop_per_s=peak.reshape(shape),
        efficiency_ratio=(rate / peak).reshape(shape),
        variant=scenario.variant,
        form=scenario.form,
        flop_count=scenario.flop_count,
    )


def tabulate_steps(scenario: Scenario) -> pd.DataFrame:
    """Return one row per step of one scenario.

    Columns: step, trailing_order, gemm_flop, trsm_flop, panel_flop, cpu_share_ratio, host_link_bytes and network_bytes
    (of one node), node_s, network_s, step_s, variant, form, method. Operations of solve and panel are listed for every
    variant, whether or not its time includes them.

    Raises
    ------
    ConfigError
        If there is more than one scenario.
    """
    columns, shape = lay_out(scenario)
    if columns.order.size != 1:
        raise ConfigError(f"steps are tabulated for one scenario; found an array of shape {shape}")
    first = _first_step(scenario)
    m = list_trailing_orders(int(columns.order[0]), int(columns.block[0]), first)
    case = Columns(*(getattr(columns, field.name) for field in fields(columns)))
    node = STEPS[scenario.variant](m, case, scenario)
    node_s, network_s = node.time_s / case.nodes, network_step_s(m, case, scenario)
    sent = count_network_bytes(m, case.block, case.nodes) * np.sign(case.topology_ratio)
    return pd.DataFrame(
        {
            "step": np.arange(first, first + len(m)),
            "trailing_order": m.astype(np.int64),
            "gemm_flop": count_gemm_flop(m, case.block),
            "trsm_flop": count_trsm_flop(m, case.block),
            "panel_flop": count_panel_flop(m, case.block),
            "cpu_share_ratio": np.broadcast_to(node.cpu_share_ratio, m.shape),
            "host_link_bytes": np.broadcast_to(node.host_link_bytes / case.nodes, m.shape),
            "network_bytes": sent,
            "node_s": node_s,
            "network_s": np.broadcast_to(network_s, m.shape),
            "step_s": node_s + network_s,
            "variant": scenario.variant,
            "form": scenario.form,
            "method": "modelled",
        }
    )


def _first_step(scenario: Scenario) -> int:
    if scenario.first_step is not None:
        return scenario.first_step
    return 0 if scenario.variant == "calibrated" else 1


def _share_out(columns: Columns) -> Iterator[Rows]:
    """Yield rows with similar numbers of steps, which avoids wasted work and bounds memory."""
    steps = np.floor(columns.order / columns.block)
    ordered = np.argsort(steps, kind="stable")[::-1]
    start = 0
    while start < len(ordered):
        count = max(1, int(STEPS_AT_ONCE / (steps[ordered[start]] + 1)))
        yield ordered[start : start + count]
        start += count


def _sum_steps(case: Columns, scenario: Scenario) -> Floats:
    last = np.floor(case.order / case.block)
    step = np.arange(_first_step(scenario), last.max() + 1)[np.newaxis, :]
    m = case.order - step * case.block
    ragged = bool(np.any(last != last[0]))
    if ragged:
        np.maximum(m, 0.0, out=m)
    time_s = STEPS[scenario.variant](m, case, scenario).time_s * (1 / case.nodes) + network_step_s(m, case, scenario)
    if ragged:
        time_s = np.where(step <= last, time_s, 0.0)
    return np.asarray(time_s.sum(axis=1), dtype=np.float64)
