"""One HPL run, or thousands that broadcast: the input of the step model (Hu and Lu 2021)."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcai.core.errors import ConfigError
from hpcai.predict.hpl.counts import SECOND_ORDER, Floats, FlopCount
from hpcai.predict.links import Form, Network
from hpcai.predict.topology import topology_factor

Variant = Literal["cpu", "balance", "pipe", "device", "calibrated"]
Rows = NDArray[np.intp]
VARIANTS: tuple[Variant, ...] = get_args(Variant)

NO_PRINTED_FORM = {
    "cpu": "it is not an equation of the source",
    "balance": "the printed equations 5 and 8 give a work in flop, not a share of it",
    "device": "section 5.1 describes it in words only",
    "calibrated": "it is not an equation of the source",
}


@dataclass(frozen=True, kw_only=True)
class NodeRates:
    """Peak and effective rates [flop/s] of one node; the GPUs of a node count together.

    Peaks serve for efficiencies and for the share R0 of ``pipe``; steps are divided by effective rates.
    NaN = unknown.
    """

    cpu_rate_flop_per_s: ArrayLike
    gpu_rate_flop_per_s: ArrayLike = np.nan
    cpu_peak_flop_per_s: ArrayLike = np.nan
    gpu_peak_flop_per_s: ArrayLike = np.nan


def rates_of_peaks(
    cpu_peak_flop_per_s: ArrayLike,
    gpu_peak_flop_per_s: ArrayLike = np.nan,
    gpus_per_node: ArrayLike = 1,
    *,
    blas_ratio: ArrayLike = 1.0,
    cpu_ratio: ArrayLike = 1.0,
    gpu_ratio: ArrayLike = 1.0,
) -> NodeRates:
    """Return C = C_peak e_blas e_cpu and G = n_gpu G_peak e_blas e_gpu, with the peaks.

    Parameters
    ----------
    cpu_peak_flop_per_s
        fp64 peak of all processors of one node [flop/s].
    gpu_peak_flop_per_s
        fp64 peak of one GPU [flop/s].

    Raises
    ------
    ConfigError
        If an efficiency is not within 0 (exclusive) and 1, or a number of GPUs is not a natural number.
    """
    for name, ratio in (("blas_ratio", blas_ratio), ("cpu_ratio", cpu_ratio), ("gpu_ratio", gpu_ratio)):
        require_efficiency(name, ratio)
    gpus, blas = np.asarray(gpus_per_node, dtype=np.float64), np.asarray(blas_ratio, dtype=np.float64)
    _require(
        np.all((gpus >= 1) & (gpus == np.floor(gpus))), "gpus_per_node", gpus_per_node, "whole numbers of 1 or more"
    )
    cpu, gpu = (
        np.asarray(cpu_peak_flop_per_s, dtype=np.float64),
        np.asarray(gpu_peak_flop_per_s, dtype=np.float64) * gpus,
    )
    return NodeRates(
        cpu_rate_flop_per_s=cpu * blas * np.asarray(cpu_ratio, dtype=np.float64),
        gpu_rate_flop_per_s=gpu * blas * np.asarray(gpu_ratio, dtype=np.float64),
        cpu_peak_flop_per_s=cpu,
        gpu_peak_flop_per_s=gpu,
    )


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What to compute, on which hardware, with which equations. Numbers may be arrays that broadcast.

    Attributes
    ----------
    order, block
        N and NB; steps omit the remainder N mod NB.
    rates
        Rates of one node. ``cpu``: ``cpu_rate_flop_per_s`` is that of the update (DGEMM).
    variant
        ``device`` (default): matrix in GPU memory, processors factorise the panel while GPUs wait.
        ``balance``: matrix in host memory, share of GPUs by eqs 4 to 8. ``pipe``: section 4.2, transfer in chunks.
        ``cpu``: no GPU. ``calibrated``: three fitted parameters, steps from 0, a network without topology.
    form
        ``printed`` exists for ``pipe`` only: whole trailing matrix moved before GPUs start, eqs 15 and 16 as printed.
    nodes, network, network_efficiency_ratio, topology
        Links between nodes; ignored for one node. A topology may be an array of names.
    host_link_bytes_per_s
        B of a node [B/s]; unused by ``cpu`` and ``calibrated``.
    chunks
        Parts in which ``pipe`` moves the trailing matrix.
    trsm
        Add the triangular solve, on GPUs (``device``) or split like the update (assumed); ``cpu`` uses its rate.
    a22_both_ways
        ``balance``: the trailing matrix goes to GPUs and back.
    trsm_rate_flop_per_s, panel_rate_flop_per_s
        ``cpu``: rates of solve and panel; NaN omits the part, as in the source.
    flop_count
        Operations counted in the reported rate.
    first_step
        First k of the sum; None = 1, and 0 for ``calibrated``.
    """

    order: ArrayLike
    block: ArrayLike
    rates: NodeRates
    variant: Variant = "device"
    form: Form = "corrected"
    nodes: ArrayLike = 1
    host_link_bytes_per_s: ArrayLike = np.nan
    network: Network | None = None
    network_efficiency_ratio: ArrayLike = 1.0
    topology: ArrayLike = "star"
    chunks: ArrayLike = 1
    trsm: bool = False
    a22_both_ways: bool = False
    trsm_rate_flop_per_s: ArrayLike = np.nan
    panel_rate_flop_per_s: ArrayLike = np.nan
    flop_count: FlopCount = "hpl"
    first_step: Literal[0, 1] | None = None


@dataclass(frozen=True)
class Columns:
    """The numbers of scenarios as arrays of one shape; ``topology_ratio`` is the factor of the topology."""

    order: Floats
    block: Floats
    nodes: Floats
    cpu_rate: Floats
    gpu_rate: Floats
    cpu_peak: Floats
    gpu_peak: Floats
    host_link: Floats
    network_rate: Floats
    network_efficiency: Floats
    topology_ratio: Floats
    chunks: Floats
    trsm_rate: Floats
    panel_rate: Floats

    def take(self, rows: Rows) -> "Columns":
        """Return some rows as columns, which lets steps run along the second axis."""
        return Columns(*(getattr(self, field.name)[rows][:, np.newaxis] for field in fields(self)))


def lay_out(scenario: Scenario) -> tuple[Columns, tuple[int, ...]]:
    """Check a scenario; return its numbers flattened, and the shape of the result.

    Raises
    ------
    ConfigError
        If the variant cannot compute it; names the field.
    """
    rates, network = scenario.rates, scenario.network
    values: tuple[ArrayLike, ...] = (
        scenario.order,
        scenario.block,
        scenario.nodes,
        rates.cpu_rate_flop_per_s,
        rates.gpu_rate_flop_per_s,
        rates.cpu_peak_flop_per_s,
        rates.gpu_peak_flop_per_s,
        scenario.host_link_bytes_per_s,
        np.nan if network is None else network.rate_bit_per_s,
        scenario.network_efficiency_ratio,
        topology_factor(scenario.topology, scenario.nodes),
        scenario.chunks,
        scenario.trsm_rate_flop_per_s,
        scenario.panel_rate_flop_per_s,
    )
    try:
        same = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in values))
    except ValueError as error:
        raise ConfigError(f"the numbers of a scenario do not broadcast against each other: {error}") from None
    columns = Columns(*(array.ravel() for array in same))
    _check(scenario, columns)
    return columns, same[0].shape


def _check(scenario: Scenario, columns: Columns) -> None:
    _check_choices(scenario)
    for name in ("order", "block", "nodes", "chunks"):
        _require_natural(name, getattr(columns, name))
    _require(np.all(columns.order >= columns.block), "order", scenario.order, "at least the block")
    _check_rates(scenario, columns)
    if np.any(columns.nodes > 1):
        _require(np.all(columns.network_rate[columns.nodes > 1] > 0), "network", scenario.network, "a rate above 0")
        require_efficiency("network_efficiency_ratio", columns.network_efficiency)


def _check_choices(scenario: Scenario) -> None:
    choices = (("variant", VARIANTS), ("form", get_args(Form)), ("flop_count", tuple(SECOND_ORDER)))
    for name, allowed in (*choices, ("first_step", (None, 0, 1))):
        found = getattr(scenario, name)
        _require(found in allowed, name, found, ", ".join(map(str, allowed)))
    if scenario.form == "printed" and scenario.variant in NO_PRINTED_FORM:
        raise ConfigError(
            f"the variant {scenario.variant!r} has no printed form: {NO_PRINTED_FORM[scenario.variant]}; use corrected"
        )
    if scenario.trsm and scenario.variant == "calibrated":
        raise ConfigError("trsm is not part of the variant 'calibrated': leave it out")


def _check_rates(scenario: Scenario, columns: Columns) -> None:
    wanted = {"cpu_rate": "cpu_rate_flop_per_s"}
    if scenario.variant != "cpu":
        wanted["gpu_rate"] = "gpu_rate_flop_per_s"
    if scenario.variant == "pipe":
        wanted |= {"cpu_peak": "cpu_peak_flop_per_s", "gpu_peak": "gpu_peak_flop_per_s"}
    if scenario.variant in {"balance", "pipe", "device"}:
        wanted["host_link"] = "host_link_bytes_per_s"
    if scenario.variant == "cpu" and scenario.trsm:
        wanted["trsm_rate"] = "trsm_rate_flop_per_s"
    for column, name in wanted.items():
        found = getattr(columns, column)
        _require(np.all(found > 0), name, found, f"above 0, for the variant {scenario.variant!r}")
    for column in ("trsm_rate", "panel_rate", "cpu_peak", "gpu_peak"):
        found = getattr(columns, column)
        _require(not np.any(found <= 0), column, found, "above 0, or nothing")


def require_efficiency(name: str, ratio: ArrayLike) -> None:
    """Raise a ConfigError unless all ratios are above 0 and at most 1."""
    values = np.asarray(ratio, dtype=np.float64)
    _require(np.all((values > 0) & (values <= 1)), name, ratio, "above 0 and at most 1")


def _require_natural(name: str, values: Floats) -> None:
    good = (values >= 1) & (values == np.floor(values)) & np.isfinite(values)
    _require(bool(np.all(good)), name, values, "whole numbers of 1 or more")


def _require(good: object, name: str, found: object, expected: str) -> None:
    if not good:
        shown = " ".join(str(found).split())
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        raise ConfigError(f"{name}: found {shown}; expected {expected}")
