"""Equations of each variant for one step: time, the processor's share, bytes (Hu and Lu 2021, sections 4 and 5)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hpcai.predict.hpl.counts import (
    Floats,
    Values,
    count_gemm_flop,
    count_host_link_bytes,
    count_network_bytes,
    count_panel_flop,
    count_panel_link_bytes,
    count_trsm_flop,
)
from hpcai.predict.hpl.scenario import Columns, Scenario
from hpcai.predict.links import Network, message_time_s, printed_step_time_s


def split_by_rates(cpu_rate: Values, gpu_rate: Values) -> Values:
    """Return the GPUs' share R0 = G / (G + C) (eq. 3)."""
    return gpu_rate / (gpu_rate + cpu_rate)


def split_step(
    trailing_order: Values,
    block: Values,
    cpu_rate: Values,
    gpu_rate: Values,
    host_link_bytes_per_s: Values,
    a22_both_ways: bool = False,
) -> Floats:
    """Return the GPUs' share R_k of one step, including its transfer, clipped to 0 … 1 (eq. 8 corrected).

    R_k = (1 - C a / (B W)) / (1 + C/G + C b / (B W)) with a = 8 m NB, b = 8 (m NB + m²), W = 2 NB m²; both parts are
    multiplied by m, so that a last step with m = 0 has the share 0 instead of 0/0.
    """
    per_byte = 8 * cpu_rate / host_link_bytes_per_s
    ways = 2 if a22_both_ways else 1
    work = 2 * block * trailing_order
    share = (work - per_byte * block) / (work * (1 + cpu_rate / gpu_rate) + per_byte * (block + ways * trailing_order))
    return np.asarray(np.clip(share, 0.0, 1.0), dtype=np.float64)


@dataclass(frozen=True)
class NodeStep:
    """One step as if one node did everything; ``nodes`` share it evenly.

    ``cpu_share_ratio`` is the processor's part of the update; ``host_link_bytes`` is 0 without traffic on the link.
    """

    time_s: Values
    cpu_share_ratio: Values
    host_link_bytes: Values


def step_of_cpu(m: Floats, case: Columns, _scenario: Scenario) -> NodeStep:
    """``cpu``: W / F_gemm [+ T / F_trsm + P / F_panel]."""
    time_s = count_gemm_flop(m, case.block / case.cpu_rate)
    if not np.all(np.isnan(case.trsm_rate)):
        time_s = time_s + np.nan_to_num(count_trsm_flop(m, case.block) / case.trsm_rate)
    if not np.all(np.isnan(case.panel_rate)):
        time_s = time_s + np.nan_to_num(count_panel_flop(m, case.block) / case.panel_rate)
    return NodeStep(time_s, 1.0, 0.0)


def step_of_balance(m: Floats, case: Columns, scenario: Scenario) -> NodeStep:
    """``balance``: max((1 - R) W / C, R W / G + D(R) / B), R of eq. 8."""
    link, both = case.host_link, scenario.a22_both_ways
    share = split_step(m, case.block, case.cpu_rate, case.gpu_rate, link, both)
    moved = count_host_link_bytes(m, case.block, share, both)
    work = count_gemm_flop(m, case.block)
    on_gpus_s = share * work * (1 / case.gpu_rate) + moved * (1 / link)
    time_s = np.maximum((1 - share) * work * (1 / case.cpu_rate), on_gpus_s)
    return NodeStep(time_s + _split_trsm_s(m, case, scenario, share), 1 - share, moved)


def step_of_pipe(m: Floats, case: Columns, scenario: Scenario) -> NodeStep:
    """``pipe``: max((1 - R0) W / C, 8 m² R0 / (n B) + R0 W / G), R0 of the peaks.

    Printed form: nothing overlaps, and the whole trailing matrix is moved first (n = 1).
    """
    share = split_by_rates(case.cpu_peak, case.gpu_peak)
    chunks = 1.0 if scenario.form == "printed" else case.chunks
    square = m * m
    work_s = square * (2 * case.block * share / case.gpu_rate)
    moved = square * (8 * share)
    cpu_s = square * (2 * case.block * (1 - share) / case.cpu_rate)
    time_s = np.maximum(cpu_s, moved * (1 / (chunks * case.host_link)) + work_s)
    return NodeStep(time_s + _split_trsm_s(m, case, scenario, share), 1 - share, moved)


def step_of_device(m: Floats, case: Columns, scenario: Scenario) -> NodeStep:
    """``device``: W / G + P / C + 16 (m + NB) NB / B (text of section 5.1)."""
    moved = count_panel_link_bytes(m, case.block)
    # Multiply steps by one factor per scenario: dividing whole arrays takes several times longer.
    time_s = count_gemm_flop(m, case.block / case.gpu_rate)
    time_s = time_s + count_panel_flop(m, case.block) * (1 / case.cpu_rate) + moved * (1 / case.host_link)
    if scenario.trsm:
        time_s = time_s + count_trsm_flop(m, case.block) / case.gpu_rate
    return NodeStep(time_s, 0.0, moved)


def step_of_calibrated(m: Floats, case: Columns, _scenario: Scenario) -> NodeStep:
    """``calibrated``: W / (n_gpu g + c), both fitted."""
    rate = case.gpu_rate + case.cpu_rate
    return NodeStep(count_gemm_flop(m, case.block / rate), case.cpu_rate / rate, 0.0)


def _split_trsm_s(m: Floats, case: Columns, scenario: Scenario, share: Values) -> Values:
    if not scenario.trsm:
        return 0.0
    work = count_trsm_flop(m, case.block)
    return np.maximum((1 - share) * work / case.cpu_rate, share * work / case.gpu_rate)


STEPS: dict[str, Callable[[Floats, Columns, Scenario], NodeStep]] = {
    "cpu": step_of_cpu,
    "balance": step_of_balance,
    "pipe": step_of_pipe,
    "device": step_of_device,
    "calibrated": step_of_calibrated,
}


def network_step_s(m: Floats, case: Columns, scenario: Scenario) -> Values:
    """Return the network time [s] of one step: τ times the message of 8 NB m / nodes bytes; 0 for one node.

    ``calibrated`` has no topology: its fitted rate includes it.
    """
    if scenario.network is None or not np.any(case.nodes > 1):
        return 0.0
    network = replace(scenario.network, rate_bit_per_s=np.where(case.nodes > 1, case.network_rate, np.inf))
    if scenario.form == "printed":
        return printed_step_time_s(network, case.block, m, case.nodes, case.network_efficiency)
    factor = np.sign(case.topology_ratio) if scenario.variant == "calibrated" else case.topology_ratio
    if network.kind != "ethernet":
        # One product per step: the message's time is proportional to m.
        return m * (factor * count_network_bytes(8.0, case.block, case.nodes) / _rate(network, case))
    return factor * message_time_s(network, count_network_bytes(m, case.block, case.nodes), case.network_efficiency)


def _rate(network: Network, case: Columns) -> Values:
    return np.asarray(network.rate_bit_per_s) * case.network_efficiency
