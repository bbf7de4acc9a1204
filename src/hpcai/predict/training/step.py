"""Time of one training step: computing, exchanging gradients, updating weights and waiting for input.

Barrachina et al. 2023 (doi 10.1007/s00607-021-00997-9): computing and communication in sequence. Overlap, optimizers
other than SGD with momentum, and input are our additions.
"""

import math
from dataclasses import dataclass, fields
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.predict.training.allreduce import (
    AllreduceForm,
    AllreduceKind,
    Ring,
    count_message_parameters,
    ring_allreduce_s,
)
from hpcai.predict.training.layers import CONVOLUTIONS, Layer, LayerList, count_last_planes, count_parameters
from hpcai.predict.training.roofline_cost import COST_MODELS, CostModel, LayerTimes, count_work, time_layers

Floats = NDArray[np.float64]
Optimizer = Literal["none", "sgd", "momentum", "adam"]

TOO_MANY_PARTS = Message(
    "step.too_many_parts",
    "{parts:g} processes share each sample, expected at most {planes:g} along depth and rows each: the smallest layer "
    "has {planes:g} planes",
)
UNEVEN_REPLICAS = Message(
    "step.uneven_replicas", "ranks is {ranks:g}, expected a multiple of the {parts:g} processes that share each sample"
)
OPTIMIZER_PASSES: dict[str, float] = {"none": 0.0, "sgd": 3.0, "momentum": 4.0, "adam": 7.0}
"""Numbers moved per parameter. Momentum has the source's 4 (assumed); SGD reads weight and gradient and writes the
weight; Adam also reads and writes two moments. Counted this way, momentum would have 5."""
_CHOICES: dict[str, tuple[str | None, ...]] = {
    "cost_model": COST_MODELS,
    "allreduce": get_args(AllreduceKind),
    "form": get_args(AllreduceForm),
    "optimizer": (*OPTIMIZER_PASSES, None),
}


@dataclass(frozen=True)
class Scenario:
    """Machine and batch; numbers or arrays that broadcast.

    Attributes
    ----------
    peak_flop_per_s, memory_bytes_per_s
        gamma and mu, of one process.
    link_bit_per_s, latency_s
        beta and alpha: one direction of a link of the ring, and one hop.
    ranks
        P, processes that train together.
    batch
        b, samples of one process and step; where processes share samples, of all that share them.
    precision_bytes
        delta, of one element of weights, activations and gradients.
    compression_ratio
        Bytes sent over bytes of the gradients.
    input_s_per_sample
        Time of one process to prepare a sample.
    spatial_parts
        Processes that share each sample, split along its first and second axis; 1: whole samples.
    """

    peak_flop_per_s: ArrayLike
    memory_bytes_per_s: ArrayLike
    link_bit_per_s: ArrayLike
    latency_s: ArrayLike
    ranks: ArrayLike
    batch: ArrayLike
    precision_bytes: ArrayLike = 4.0
    compression_ratio: ArrayLike = 1.0
    input_s_per_sample: ArrayLike = 0.0
    spatial_parts: ArrayLike = 1.0

    def __post_init__(self) -> None:
        """Refuse impossible rates, sizes and numbers; NaN is kept and means unknown."""
        for name in ("peak_flop_per_s", "memory_bytes_per_s", "link_bit_per_s", "precision_bytes", "compression_ratio"):
            _expect(name, getattr(self, name), 0.0, "above 0")
        for name in ("latency_s", "input_s_per_sample"):
            _expect(name, getattr(self, name), -math.ulp(0), "at least 0")
        for name in ("ranks", "batch", "spatial_parts"):
            _expect(name, getattr(self, name), math.nextafter(1, 0), "at least 1")
        ranks, parts = np.broadcast_arrays(np.asarray(self.ranks, float), np.asarray(self.spatial_parts, float))
        uneven = np.nan_to_num(np.remainder(ranks, parts)) > 0
        if uneven.any():
            raise ConfigError(UNEVEN_REPLICAS(ranks=ranks[uneven].flat[0], parts=parts[uneven].flat[0]))

    @property
    def samples(self) -> Floats:
        """Samples of one process and step, counting shared samples by their fraction."""
        return np.asarray(np.asarray(self.batch, float) / np.asarray(self.spatial_parts, float))


@dataclass(frozen=True)
class StepModel:
    """Choice of equations.

    Attributes
    ----------
    cost_model
        Variant of the roofline.
    allreduce
        One message per layer, or one for all.
    form
        Form of eq. 1; ``printed`` gives numbers that are not times.
    batch_norm_messages
        Whether parameters of normalisations are exchanged.
    overlap
        Whether messages overlap with the gradient computation of earlier layers.
    optimizer
        Optimizer whose update is counted, by its passes. None: ``momentum`` with the cost model ``full``, which has
        element-wise work, and ``none`` with the others.
    input_overlap
        Whether samples are prepared during the previous step.
    adding_in_link
        Whether the link's rate includes adding gradients, as a rate from measured allreduces does.
    """

    cost_model: CostModel = "gemm"
    allreduce: AllreduceKind = "per-layer"
    form: AllreduceForm = "corrected"
    batch_norm_messages: bool = True
    overlap: bool = False
    optimizer: Optimizer | None = None
    input_overlap: bool = False
    adding_in_link: bool = False

    def __post_init__(self) -> None:
        """Refuse unknown equations, which would silently select others."""
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name} is {getattr(self, name)!r}, choose from {', '.join(map(str, choices))}")

    @property
    def update_passes(self) -> float:
        """Return the numbers moved per parameter in an update."""
        return OPTIMIZER_PASSES[self.optimizer or ("momentum" if self.cost_model == "full" else "none")]

    def describe(self, computing: str = "") -> str:
        """Describe the choices for the method of a table; a blank description of computing means the roofline."""
        exchange = f"{self.allreduce} ring allreduce ({self.form} eq. 1)"
        unit = "; printed form: communication is not a time" if self.form == "printed" else ""
        computing = computing or f"roofline {self.cost_model}"
        return f"modelled: {computing}, {exchange}, {'overlap' if self.overlap else 'no overlap'}{unit}"


@dataclass(frozen=True)
class StepTime:
    """Parts of the time of a step [s]; arrays of the scenario's shape.

    Attributes
    ----------
    forward_s, input_gradient_s, weight_gradient_s
        Linear layers.
    elementwise_s, update_s
        Element-wise layers both ways, and the optimizer.
    compute_s
        Sum of the five above.
    communication_s
        Sum of all messages.
    exposed_communication_s
        Communication time in addition to computing: all of it without overlap.
    input_s
        Preparing the samples of a step.
    step_s
        Total.
    ranks, batch
        From the scenario; the batch as `Scenario.samples`.
    method
        The equations used.
    """

    forward_s: Floats
    input_gradient_s: Floats
    weight_gradient_s: Floats
    elementwise_s: Floats
    update_s: Floats
    compute_s: Floats
    communication_s: Floats
    exposed_communication_s: Floats
    input_s: Floats
    step_s: Floats
    ranks: Floats
    batch: Floats
    method: str

    @property
    def communication_share_ratio(self) -> Floats:
        """Return the fraction of the step spent waiting for messages."""
        return self.exposed_communication_s / self.step_s

    @property
    def rate_samples_per_s(self) -> Floats:
        """Return the samples of all processes over the time of a step."""
        return self.ranks * self.batch / self.step_s

    def epoch_s(self, samples: ArrayLike) -> Floats:
        """Return the time of an epoch: whole steps, of which the last may be partly filled."""
        return np.asarray(np.ceil(np.asarray(samples, float) / (self.ranks * self.batch)) * self.step_s)


def predict_step(network: LayerList, scenario: Scenario, model: StepModel = StepModel()) -> StepTime:
    """Predict the time of a training step by the roofline and eq. 1, in any number of scenarios at once.

    Parameters
    ----------
    network
        Layers.
    scenario
        Machine and batch, as numbers or as arrays that broadcast.
    model
        Equations to use.
    """
    work = count_work(network.layers, model.cost_model)
    rates = (scenario.peak_flop_per_s, scenario.memory_bytes_per_s, scenario.precision_bytes)
    times = time_layers(work, scenario.samples, *rates)
    if np.any(np.asarray(scenario.spatial_parts) > 1):
        whole = time_layers(work, scenario.batch, *rates)
        # Layers without spatial extent are computed in full on each process.
        flat = np.array([len(layer.output_shape) == 1 for layer in network.layers])
        pairs = ((getattr(whole, one.name), getattr(times, one.name)) for one in fields(LayerTimes))
        times = LayerTimes(*(np.where(flat, *pair) for pair in pairs))
    return combine_step(network, times, scenario, model)


def combine_step(
    network: LayerList,
    times: LayerTimes,
    scenario: Scenario,
    model: StepModel = StepModel(),
    update_s: ArrayLike | None = None,
    computing: str = "",
) -> StepTime:
    """Combine layer times, from the roofline or any other source, with messages, update and input to a step.

    Parameters
    ----------
    network
        Layers.
    times
        Time of each layer, in the order of the network.
    scenario
        Machine and batch; its processor only serves for the update and for adding gradients.
    model
        Equations to use for messages, update, overlap and input.
    update_s
        Time of the update if known from elsewhere; None for the optimizer's passes at memory speed.
    computing
        Origin of the times, in words; blank for the roofline.
    """
    messages_s = time_messages(network.layers, scenario, model)
    if update_s is None:
        byte_s = np.asarray(scenario.precision_bytes, float) / np.asarray(scenario.memory_bytes_per_s, float)
        update_s = model.update_passes * count_parameters(network) * byte_s
    gradients_s = times.all_forward_s.sum(-1) + times.all_backward_s.sum(-1)
    # A single message for all waits for the last gradient: nothing overlaps.
    queued = model.overlap and model.allreduce == "per-layer"
    halos_s = time_halos(network.layers, scenario)
    waiting_s = halos_s + (_find_waiting(times, gradients_s, messages_s) if queued else messages_s.sum(-1))
    compute_s, input_s = gradients_s + update_s, scenario.samples * np.asarray(scenario.input_s_per_sample, float)
    busy_s = compute_s + waiting_s
    step_s = np.maximum(busy_s, input_s) if model.input_overlap else busy_s + input_s
    parts = {
        "forward_s": times.forward_s.sum(-1),
        "input_gradient_s": times.input_gradient_s.sum(-1),
        "weight_gradient_s": times.weight_gradient_s.sum(-1),
        "elementwise_s": (times.elementwise_forward_s + times.elementwise_backward_s).sum(-1),
        "update_s": np.asarray(update_s, float),
        "compute_s": compute_s,
        "communication_s": messages_s.sum(-1) + halos_s,
        "exposed_communication_s": waiting_s,
        "input_s": input_s,
        "step_s": step_s,
        "ranks": np.asarray(scenario.ranks, float),
        "batch": scenario.samples,
    }
    broadcast = np.broadcast_arrays(*parts.values())
    return StepTime(**dict(zip(parts, broadcast, strict=True)), method=model.describe(computing))


def time_messages(layers: tuple[Layer, ...], scenario: Scenario, model: StepModel = StepModel()) -> Floats:
    """Return the time of the messages of each layer [s]; the last axis is the layer, or of length 1 if fused."""
    repeats = np.array([layer.repeats for layer in layers], dtype=float)
    parameters = count_message_parameters(layers, batch_norm=model.batch_norm_messages)
    if model.allreduce == "fused":
        parameters, repeats = np.array([parameters @ repeats]), np.ones(1)
    per_layer = {
        name: np.asarray(getattr(scenario, name), float)[..., np.newaxis]
        for name in ("ranks", "latency_s", "link_bit_per_s", "peak_flop_per_s", "precision_bytes", "compression_ratio")
    }
    peak = math.inf if model.adding_in_link else per_layer["peak_flop_per_s"]
    ring = Ring(per_layer["ranks"], per_layer["latency_s"], per_layer["link_bit_per_s"], peak)
    precision_bytes, compression = per_layer["precision_bytes"], per_layer["compression_ratio"]
    message_s = ring_allreduce_s(parameters * precision_bytes, ring, precision_bytes, compression, model.form)
    return np.asarray(np.where(parameters > 0, message_s, 0.0) * repeats)


def time_halos(layers: tuple[Layer, ...], scenario: Scenario) -> Floats:
    """Return the time per step in which processes that share samples exchange planes and rows [s]; 0 for whole samples.

    Samples are cut along the depth as far as the pools allow, then along rows. Before each convolution, ``kernel - 1``
    planes of its input cross each boundary between two parts, then rows, and as many on the way back, except for a
    layer that reads the data. A process in the middle has two boundaries each way; of an even kernel, both count
    alike. Computation does not overlap.

    Raises
    ------
    ConfigError
        If samples cannot be cut into as many parts.
    """
    parts = np.asarray(scenario.spatial_parts, float)
    depth = np.vectorize(_along_depth, otypes=[float])(parts, count_last_planes(layers))
    rows = parts / depth
    sent, exchanges = np.zeros(parts.shape), np.zeros(parts.shape)
    for layer in layers:
        if layer.kind in CONVOLUTIONS and layer.kernel[0] > 1:
            ways, halo = layer.repeats * (2 if layer.needs_input_gradient else 1), layer.kernel[0] - 1
            row = math.prod(layer.input_shape[2:])
            plane_sizes = layer.input_shape[1] / rows * row
            row_sizes = (layer.input_shape[0] / depth + halo) * row
            sent += ways * halo / 2 * (np.minimum(depth - 1, 2) * plane_sizes + np.minimum(rows - 1, 2) * row_sizes)
            exchanges += ways * ((depth > 1) * 1 + (rows > 1))
    names = ("batch", "precision_bytes", "latency_s", "link_bit_per_s")
    batch, precision_bytes, latency_s, link_bit_per_s = (np.asarray(getattr(scenario, name), float) for name in names)
    waiting_s = exchanges * latency_s + 8 * sent * batch * precision_bytes / link_bit_per_s
    return np.asarray(np.where(parts > 1, waiting_s, 0.0))


def _along_depth(parts: float, planes: float) -> float:
    """Return how many of the parts lie along the depth: as many as its planes allow."""
    if not parts > planes:
        return parts
    depth = max(number for number in range(1, int(planes) + 1) if parts % number == 0)
    if parts / depth > planes:
        raise ConfigError(TOO_MANY_PARTS(parts=parts, planes=planes))
    return float(depth)


def _find_waiting(times: LayerTimes, gradients_s: Floats, messages_s: Floats) -> Floats:
    """Return the delay of the last message after the last gradient [s].

    Messages are sent one after another in backward order, each as soon as its layer's gradients are ready and the link
    is free. The last one arrives at the largest, over all layers, of the time when the layer is ready plus its own and
    all later messages.
    """
    backward_s = times.all_backward_s[..., ::-1]
    ready_s = times.all_forward_s.sum(-1)[..., np.newaxis] + np.cumsum(backward_s, -1)
    # In forward order, the later messages are those of the preceding layers.
    following_s = np.cumsum(messages_s, -1)[..., ::-1]
    arrival_s = (ready_s + following_s).max(-1)
    return np.asarray(np.maximum(arrival_s - gradients_s, 0.0))


def _expect(name: str, value: ArrayLike, above: float, words: str) -> None:
    """Raise ConfigError if a number is not above a limit; NaN passes."""
    numbers = np.atleast_1d(np.asarray(value, float))
    wrong = numbers[numbers <= above]
    if wrong.size:
        raise ConfigError(f"{name} is {wrong.flat[0]:g}, expected {words}")
