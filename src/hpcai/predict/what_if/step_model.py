"""The step time of a measured training at another scale, link, precision or compression.

The compute time is that of a timed step or its blocks (or the roofline of the layers, or kernel regressors) times one
factor that makes the model match the measured step of the starting point. Exchanging gradients is a ring allreduce over
measured or assumed links, after computing: no overlap, as with gradients that travel as one group. With overlap,
messages of equal size become ready at equal intervals of the backward pass and travel one after another.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd
from scipy.optimize import brentq

from hpcai.core.messages import Message
from hpcai.predict.kernels.regressor import KernelRegressor
from hpcai.predict.kernels.step_estimate import estimate_step
from hpcai.predict.messages import GRADIENT_BYTES, count_messages
from hpcai.predict.steps.compute import BLOCKS, STEPS, compute_at, times_of
from hpcai.predict.steps.report import StepTimes
from hpcai.predict.training.layers import CONVOLUTIONS, LayerList, count_last_planes, count_parameters, list_tensors
from hpcai.predict.training.roofline_cost import CostModel, count_work, time_layers
from hpcai.predict.training.step import OPTIMIZER_PASSES
from hpcai.predict.what_if.hardware import (
    PRECISION_BYTES,
    Exchange,
    RankRates,
    exchange_s,
)

Row = Mapping[Any, Any]
UNEVEN_BATCH = Message(
    "step_model.uneven_batch",
    "a global batch of {samples} samples cannot be divided evenly among {parts}",
)
UNEVEN_PARTS = Message(
    "step_model.uneven_parts", "{ranks} ranks do not make complete replicas of {parts} ranks, which share each sample"
)
NO_PARTS = "kernels were timed on whole samples"
REGRESSORS = "regressors"
TIMED_MODELS = {STEPS: "timed step", BLOCKS: "sum of blocks"}
"""Names of the models that the study key `predict.step_blocks` leads to, by what was timed."""
FORWARD_RATIO = 1 / 3
"""Assumed share of the forward pass in a timed step: one of a layer's three products. Only overlap uses it."""
NO_MODEL = Message("step_model.no_model", "no model of computing in {precision} ({model})")
SLOW_EXCHANGE = Message(
    "step_model.slow_exchange",
    "the modelled exchange at {scale} takes {exchange_s:.3g} s, not less than the measured step of {step_s:.3g} s",
)


class ComputeTime(NamedTuple):
    """Time of one micro-batch forward and backward, and of one update of the weights [s]; NaN with a reason."""

    forward_s: float
    backward_s: float
    update_s: float
    reason: str = ""


Compute = Callable[[float, str], ComputeTime]
"""Compute time from samples and precision; NaN if unknown."""


def _no_time(reason: str) -> ComputeTime:
    return ComputeTime(math.nan, math.nan, math.nan, reason)


@dataclass(frozen=True)
class Setting:
    """Settings of a training.

    Attributes
    ----------
    nodes, ranks
        Number of nodes and ranks.
    global_batch
        Samples of a step over all ranks.
    fusion_bytes
        Largest message of gradients; None for equal messages, one per group.
    gradient_groups
        Number of gradient messages.
    spatial_parts
        Ranks that share each sample.
    part_bytes_per_sample
        Bytes that a rank sends per sample to the ranks that share it.
    """

    nodes: int
    ranks: int
    global_batch: int
    precision: str
    compression: str
    accumulation: int = 1
    fusion_bytes: float | None = None
    gradient_groups: int = 1
    spatial_parts: int = 1
    part_bytes_per_sample: float = 0.0

    @property
    def micro_batch(self) -> float:
        """Samples that a replica computes at once; below 1 or fractional if impossible."""
        return self.global_batch / (self.ranks / self.spatial_parts) / self.accumulation

    @property
    def why_impossible(self) -> str:
        """Return why a training with these settings is impossible; blank if it is possible."""
        if self.ranks % self.spatial_parts:
            return UNEVEN_PARTS(ranks=self.ranks, parts=self.spatial_parts)
        if self.micro_batch >= 1 and self.micro_batch == int(self.micro_batch):
            return ""
        workers = f"{self.ranks} ranks" if self.spatial_parts == 1 else f"{self.ranks // self.spatial_parts} replicas"
        parts = workers + (f" with {self.accumulation} micro-batches each" if self.accumulation > 1 else "")
        return UNEVEN_BATCH(samples=self.global_batch, parts=parts)

    @property
    def scale(self) -> str:
        """Nodes x ranks per node."""
        return f"n{self.nodes}x{self.ranks // self.nodes}"


@dataclass(frozen=True)
class PredictedStep:
    """Parts of a step [s]; NaN with a reason if it cannot be predicted.

    Attributes
    ----------
    compute_s, communication_s
        Total compute time, and total message time.
    exposed_s
        Communication time in addition to computing: all of it without overlap.
    """

    compute_s: float
    communication_s: float
    exposed_s: float
    reason: str = ""

    @property
    def step_s(self) -> float:
        """Compute time plus the exposed part of the exchange."""
        return self.compute_s + self.exposed_s


NO_STEP = PredictedStep(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class StepModel:
    """The model of one benchmark's step, before calibration.

    Attributes
    ----------
    compute
        Compute time.
    gradient_sizes
        Parameters of each gradient, first layers first.
    words
        Description of the compute model, for the method of tables.
    overlap
        Whether messages are sent during the backward pass.
    convolutions
        Layers before which ranks that share samples exchange planes and rows.
    last_planes
        Planes of the smallest layer: more parts of a sample than these are cut along rows, too, and exchange twice.
    shares_samples
        Whether it supports ranks that share samples.
    """

    compute: Compute
    gradient_sizes: tuple[int, ...]
    words: str
    overlap: bool = False
    convolutions: int = 0
    last_planes: float = math.inf
    shares_samples: bool = False

    @property
    def parameters(self) -> int:
        """Number of exchanged parameters."""
        return sum(self.gradient_sizes)

    def estimate(self, setting: Setting, exchange: Exchange, factor: float = 1.0) -> PredictedStep:
        """Return the parts of a step.

        Parameters
        ----------
        setting
            Settings of the training.
        exchange
            Links between its ranks.
        factor
            Measured over modelled compute time at the starting point.
        """
        if setting.why_impossible:
            return replace(NO_STEP, reason=setting.why_impossible)
        if setting.spatial_parts > 1 and not self.shares_samples:
            return replace(NO_STEP, reason=self._why_no_model(setting.precision, NO_PARTS))
        # Each rank has its part of the voxels. The factor includes that it computes dense layers in full.
        times = self.compute(setting.micro_batch / setting.spatial_parts, setting.precision)
        compute_s = factor * (setting.accumulation * (times.forward_s + times.backward_s) + times.update_s)
        messages = count_messages(self.gradient_sizes, setting.fusion_bytes, setting.gradient_groups)
        communication_s = exchange_s(self.parameters, exchange, setting.ranks, setting.compression, messages)
        halo_s = setting.accumulation * self._halo_s(setting, exchange)
        exposed_s = communication_s
        if self.overlap:
            # The last message waits for the last gradient, and all together cannot end before the first was ready.
            hidden_s = factor * times.backward_s * (1 - 1 / messages)
            exposed_s = max(communication_s / messages, communication_s - hidden_s)
        reason = "" if math.isfinite(compute_s) else self._why_no_model(setting.precision, times.reason)
        reason = reason or _why_unknown(communication_s + halo_s, exchange)
        return PredictedStep(compute_s, communication_s + halo_s, exposed_s + halo_s, reason)

    def _halo_s(self, setting: Setting, exchange: Exchange) -> float:
        """Return the time of exchanging planes and rows of a micro-batch, for which each layer waits, both ways [s].

        The first layer needs no gradient of its input; the gather before the dense layers is one more exchange.
        """
        if setting.spatial_parts == 1:
            return 0.0
        waiting_s = exchange.coordination_s + exchange.latency_s
        sent_bytes = setting.micro_batch * setting.part_bytes_per_sample
        axes = 2 if setting.spatial_parts > self.last_planes else 1
        exchanges = axes * (2 * self.convolutions - 1) + 1
        return exchanges * waiting_s + 8 * sent_bytes / exchange.link_bit_per_s

    def _why_no_model(self, precision: str, reason: str) -> str:
        words = NO_MODEL(precision=precision, model=self.words)
        return f"{words}: {reason}" if reason else words

    def calibrate(self, setting: Setting, exchange: Exchange, measured_s: float) -> tuple[float, str]:
        """Return the factor that calibrates the model to a measured step, or NaN and the reason."""
        raw = replace(self, overlap=False).estimate(setting, exchange)
        if raw.reason:
            return math.nan, raw.reason
        factor = (measured_s - raw.communication_s) / raw.compute_s
        if self.overlap:
            # The step grows with the factor, so the smallest solution lies between these two.
            factor = _solve(
                lambda one: self.estimate(setting, exchange, one).step_s - measured_s, measured_s / raw.compute_s
            )
        if not factor > 0:
            return math.nan, SLOW_EXCHANGE(scale=setting.scale, exchange_s=raw.communication_s, step_s=measured_s)
        return factor, ""


def roofline_model(network: LayerList, rates: Mapping[str, RankRates], cost_model: CostModel = "full") -> StepModel:
    """Return the step of a network by the roofline, with the rates of each precision.

    With ``full`` the update is gradient descent with momentum on float32 weights; the others have no update.
    """
    work, parameters = count_work(network.layers, cost_model), count_parameters(network)
    passes = OPTIMIZER_PASSES["momentum" if cost_model == "full" else "none"]

    def compute(samples: float, precision: str) -> ComputeTime:
        roofs = rates.get(precision)
        if roofs is None or roofs.reason:
            return _no_time("" if roofs is None else roofs.reason)
        memory = roofs.memory_bytes_per_s
        times = time_layers(work, samples, roofs.peak_flop_per_s, memory, PRECISION_BYTES[precision])
        update_s = passes * parameters * GRADIENT_BYTES / memory
        return ComputeTime(float(times.all_forward_s.sum()), float(times.all_backward_s.sum()), update_s)

    convolutions = sum(layer.repeats for layer in network.layers if layer.kind in CONVOLUTIONS)
    words, planes = f"roofline {cost_model}", count_last_planes(network.layers)
    return StepModel(
        compute, sizes_of(network), words, convolutions=convolutions, last_planes=planes, shares_samples=True
    )


def regressor_model(network: LayerList, regressors: Mapping[str, KernelRegressor]) -> StepModel:
    """Return the step of a network as the sum of its kernels, in single precision."""

    def compute(samples: float, precision: str) -> ComputeTime:
        if precision != "fp32":
            return _no_time("")
        estimated = estimate_step(network, int(samples), regressors)
        if estimated.reason:
            return _no_time(estimated.reason)
        stages = estimated.stage_s
        forward_s, update_s = stages["forward"], stages["update"]
        return ComputeTime(forward_s, sum(stages.values()) - forward_s - update_s, update_s)

    return StepModel(compute, sizes_of(network), REGRESSORS)


def timed_model(network: LayerList, steps: Sequence[StepTimes]) -> StepModel:
    """Return the step of a network as it was timed, whole or in blocks, at those batches and in that precision."""
    words = TIMED_MODELS[times_of(steps, network.name).what]

    def compute(samples: float, precision: str) -> ComputeTime:
        found = compute_at(steps, network.name, samples, precision)
        if found.reason:
            return _no_time(found.reason)
        forward_s = FORWARD_RATIO * found.gradients_s
        return ComputeTime(forward_s, found.gradients_s - forward_s, found.update_s)

    own = (one.gradient_sizes for one in steps if one.network == network.name and one.gradient_sizes)
    return StepModel(compute, next(own, sizes_of(network)), words)


def sizes_of(network: LayerList) -> tuple[int, ...]:
    """Return the parameters of each gradient of a list of layers, where those of no known layer count as one."""
    return tuple(size for layer in network.layers for _ in range(layer.repeats) for size in list_tensors(layer))


def setting_of(row: Row) -> Setting:
    """Return the settings of the runs behind a row of the table of scales."""
    fusion, batch = row["fusion_bytes"], int(row["global_batch_samples"])
    parts, ranks = (int(row[name]) for name in ("spatial_parts", "ranks"))
    return Setting(
        nodes=int(row["nodes"]),
        ranks=ranks,
        global_batch=batch,
        precision=str(row["precision"]),
        compression=str(row["compression"]),
        accumulation=int(row["accumulation"]),
        fusion_bytes=None if pd.isna(fusion) else float(fusion),
        gradient_groups=int(row.get("gradient_groups", 1)),
        spatial_parts=parts,
        part_bytes_per_sample=float(row["part_bytes"]) * ranks / parts / batch,
    )


def at_ranks(base: Setting, ranks: int, ranks_per_node: int, regime: str) -> Setting:
    """Return a setting at another number of ranks: the same global batch (strong), or batch per rank (weak)."""
    nodes = math.ceil(ranks / ranks_per_node)
    batch = base.global_batch if regime == "strong" else base.global_batch * ranks // base.ranks
    return replace(base, nodes=nodes, ranks=ranks, global_batch=batch)


def _solve(excess: Callable[[float], float], most: float) -> float:
    """Return the factor at which a step matches its measurement, or NaN if even the smallest takes longer."""
    least = most * 1e-9
    return float(brentq(excess, least, most)) if excess(least) < 0 <= excess(most) else math.nan


def _why_unknown(communication_s: float, exchange: Exchange) -> str:
    return "" if math.isfinite(communication_s) else exchange.reason or "the time of the exchange is not known"
