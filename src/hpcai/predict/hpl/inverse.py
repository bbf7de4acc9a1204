"""Inverse questions: the link, network, block or order that a machine needs (Hu and Lu 2021, Fig. 6)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.predict.hpl.counts import BYTES_PER_DOUBLE
from hpcai.predict.hpl.scenario import Scenario, require_efficiency
from hpcai.predict.hpl.simulate import simulate

RATE_BOUNDS_PER_S = (1e3, 1e18)
BLOCKS = tuple(range(32, 2049, 32))
NOT_REACHABLE = Message(
    "inverse.not_reachable",
    "not reachable: an endless rate gives an efficiency of {best:.4f}, below {target:g}",
)


@dataclass(frozen=True)
class Answer:
    """One number with its unit, or NaN and the reason; trends depend on the variant."""

    value: float
    unit: str
    variant: str
    form: str
    reason: str = ""
    method: str = "modelled"


def find_host_link(scenario: Scenario, target_ratio: float) -> Answer:
    """Return the lowest rate of the host link [B/s] that keeps an efficiency.

    Efficiency is the rate over the peak of the GPUs alone. If no rate reaches the target, the value is NaN and the
    reason gives the efficiency at an infinite rate; likewise if every rate reaches the target.

    Raises
    ------
    ConfigError
        For several scenarios, an unknown peak, a target outside 0 … 1, or a variant without a host link.
    """
    if scenario.variant not in {"balance", "pipe", "device"}:
        raise ConfigError(f"the variant {scenario.variant!r} has no host link; choose balance, pipe or device")

    def efficiency(rate: float) -> float:
        return _efficiency(replace(scenario, host_link_bytes_per_s=rate))

    return _find_rate(scenario, efficiency, target_ratio, "byte/s")


def find_network(scenario: Scenario, target_ratio: float) -> Answer:
    """Return the lowest data rate of the network [bit/s] that keeps an efficiency; see :func:`find_host_link`.

    Raises
    ------
    ConfigError
        As for the host link, and for one node or a scenario without a network.
    """
    network = scenario.network
    if network is None or np.any(np.asarray(scenario.nodes) <= 1):
        raise ConfigError(
            "a network is asked for: the scenario needs 2 nodes or more, and a network whose rate is varied"
        )

    def efficiency(rate: float) -> float:
        return _efficiency(replace(scenario, network=replace(network, rate_bit_per_s=rate)))

    return _find_rate(scenario, efficiency, target_ratio, "bit/s")


def _efficiency(scenario: Scenario) -> float:
    found = simulate(scenario).efficiency_ratio
    if found.size != 1 or not np.all(np.isfinite(found)):
        raise ConfigError("an inverse question needs one scenario whose peak rates are known")
    return float(found.flat[0])


def _find_rate(scenario: Scenario, efficiency: Callable[[float], float], target_ratio: float, unit: str) -> Answer:
    require_efficiency("target", target_ratio)
    low, high = RATE_BOUNDS_PER_S
    worst, best = efficiency(low), efficiency(high)
    if best < target_ratio or worst >= target_ratio:
        reason = (
            NOT_REACHABLE(best=best, target=target_ratio)
            if best < target_ratio
            else f"no bound: {low:g} {unit} already gives an efficiency of {worst:.4f}, at least {target_ratio:g}"
        )
        return Answer(np.nan, unit, scenario.variant, scenario.form, reason)
    # Search logarithms, because rates span many orders of magnitude.
    root = brentq(lambda log_rate: efficiency(np.exp(log_rate)) - target_ratio, np.log(low), np.log(high), xtol=1e-12)
    return Answer(float(np.exp(root)), unit, scenario.variant, scenario.form)


def find_block(scenario: Scenario, candidates: tuple[int, ...] = BLOCKS) -> Answer:
    """Return the candidate block with the highest rate; blocks larger than the order are ignored.

    The rate of ``device`` falls with the block, those of ``balance`` and ``pipe`` rise: the answer depends on the
    variant. The model has neither a start-up cost per step nor a GEMM rate that depends on the block. So the best block
    is often the smallest or largest candidate, which the reason mentions.

    Raises
    ------
    ConfigError
        If no candidate fits the order.
    """
    blocks = np.asarray(sorted(set(candidates)), dtype=np.float64)
    blocks = blocks[blocks <= float(np.max(np.asarray(scenario.order)))]
    if not blocks.size:
        raise ConfigError(f"no block of the candidates is at most the order {np.max(np.asarray(scenario.order)):g}")
    rates = simulate(replace(scenario, block=blocks)).rate_flop_per_s
    best = int(np.argmax(rates))
    edge = "smallest" if best == 0 else "largest" if best == len(blocks) - 1 else ""
    reason = f"the {edge} of the candidates: the model has no optimum within them" if edge else ""
    return Answer(float(blocks[best]), "", scenario.variant, scenario.form, reason)


def find_order(memory_bytes: float, block: int, fraction_ratio: float = 0.9, variant: str = "device") -> Answer:
    """Return the largest order N, a multiple of the block, with 8 N² bytes within a share of a memory.

    Parameters
    ----------
    memory_bytes
        Total memory for the matrix [B]: of all GPUs for ``device``, of all nodes for the others.

    Raises
    ------
    ConfigError
        If memory or block is not positive, the share not within 0 … 1, or not even one block fits.
    """
    require_efficiency("memory fraction", fraction_ratio)
    if not (np.isfinite(memory_bytes) and memory_bytes > 0) or block < 1:
        raise ConfigError(f"found a memory of {memory_bytes:g} bytes and a block of {block}; expected both above 0")
    blocks = int(np.sqrt(fraction_ratio * memory_bytes / BYTES_PER_DOUBLE)) // int(block)
    if blocks < 1:
        raise ConfigError(
            f"impossible memory: {fraction_ratio:g} of {memory_bytes:g} bytes holds no matrix of one block of {block}; "
            "take more memory or a smaller block"
        )
    return Answer(float(blocks * block), "", variant, "corrected")
