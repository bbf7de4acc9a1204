"""The time of a training step as the sum of its kernels, and what the sum omits.

Kernels are measured alone and with warm caches, so their sum is usually too short. One coefficient, in seconds per
parameter, can represent the rest of a step. It is fitted to measured steps of other networks or batches and names them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.metrics.scaling.model_limits import why_not_covered
from hpcai.predict.kernels.layer_kernels import STAGES, KernelCall, describe_approximations, list_kernel_calls
from hpcai.predict.kernels.regressor import Flags, KernelRegressor, estimate_time_s, is_extrapolated
from hpcai.predict.training.layers import LayerList, count_parameters
from hpcai.predict.training.roofline_cost import Floats, count_work

UPDATE_PASSES = 4
"""Elements moved per parameter by stochastic gradient descent with momentum (assumed, as in the roofline model)."""
NO_STEP_WITH_PARAMETERS = Message(
    "step_estimate.no_step_with_parameters",
    "overhead per parameter: expected at least one measured step of a network with parameters",
)


@dataclass(frozen=True)
class StepEstimate:
    """The kernels of one step, summed; all times modelled.

    Attributes
    ----------
    name, batch
        Of the network, and samples per process.
    stage_s
        Time by stage, in the order of `STAGES`.
    stage_covered_ratio
        Share of each stage's work with a regressor: of its operations or of its memory traffic, whichever is
        smaller. NaN for a stage without work.
    covered_ratio
        The same for the whole step.
    extrapolated_ratio
        Share of the estimated time from sizes outside the training cases.
    parameters
        Trainable numbers.
    not_covered
        Layers that have work or parameters but no regressor, and parts that the list of layers omits.
    approximations
        Differences between the kernels and the layers.
    """

    name: str
    batch: int
    stage_s: Mapping[str, float]
    stage_covered_ratio: Mapping[str, float]
    covered_ratio: float
    extrapolated_ratio: float
    parameters: int
    not_covered: tuple[str, ...]
    approximations: tuple[str, ...]

    @property
    def step_s(self) -> float:
        """Return the sum of the stages, without overhead; not a valid estimate if `reason` is set."""
        return sum(self.stage_s.values())

    @property
    def reason(self) -> str:
        """Return why the sum is not an estimate of the step; blank if it is."""
        return why_not_covered(self.covered_ratio)


@dataclass(frozen=True)
class Overhead:
    """Time of a step beyond its kernels [s per parameter], and the measured steps behind it."""

    per_parameter_s: float
    fitted_on: str


def estimate_step(network: LayerList, batch: int, regressors: Mapping[str, KernelRegressor]) -> StepEstimate:
    """Estimate a step of one process from its kernels; communication and input are not included.

    Parameters
    ----------
    network
        The layers.
    batch
        Samples per process.
    regressors
        By kernel. Work without a regressor is omitted, as `covered_ratio` shows; below
        :data:`hpcai.metrics.scaling.model_limits.LEAST_COVERED_RATIO` the estimate has a `reason`.

    Raises
    ------
    ConfigError
        If the batch is not positive.
    """
    if batch < 1:
        raise ConfigError(f"{network.name}: a batch of {batch}, expected at least 1 sample")
    calls = [call for layer in network.layers for call in list_kernel_calls(layer, batch)]
    times = _time_calls([call for call in calls if call.kernel in regressors], regressors)
    total_s = times["time_s"].sum()
    by_stage = times.groupby("stage")["time_s"].sum()
    stage_covered, covered, not_covered = _find_coverage(network, batch, regressors)
    return StepEstimate(
        name=network.name,
        batch=batch,
        stage_s={stage: float(by_stage.get(stage, 0.0)) for stage in STAGES},
        stage_covered_ratio=stage_covered,
        covered_ratio=covered,
        extrapolated_ratio=times.loc[times["extrapolated"], "time_s"].sum() / total_s if total_s else float("nan"),
        parameters=count_parameters(network),
        not_covered=not_covered,
        approximations=tuple(
            dict.fromkeys(text for layer in network.layers for text in describe_approximations(layer))
        ),
    )


def fit_overhead(estimates: Sequence[StepEstimate], measured_s: Sequence[float]) -> Overhead:
    """Fit the overhead per parameter to measured steps, by least squares of the relative error.

    Parameters
    ----------
    estimates
        Steps as sums of their kernels.
    measured_s
        The same steps as measured [s].

    Returns
    -------
    Overhead
        Negative if the kernels add up to more than the measured steps.

    Raises
    ------
    ConfigError
        If there is no step, or none has parameters.
    """
    measured = np.asarray(measured_s, dtype=float)
    slopes = np.array([estimate.parameters for estimate in estimates]) / measured
    gaps = 1 - np.array([estimate.step_s for estimate in estimates]) / measured
    if not slopes.any():
        raise ConfigError(NO_STEP_WITH_PARAMETERS())
    return Overhead(float(slopes @ gaps / (slopes @ slopes)), _name_steps(estimates))


def add_overhead(estimate: StepEstimate, overhead: Overhead) -> float:
    """Return the time of a step including the overhead of its parameters [s]."""
    return estimate.step_s + overhead.per_parameter_s * estimate.parameters


def _name_steps(estimates: Sequence[StepEstimate]) -> str:
    """Return networks and batches, for example "vgg11_cifar10 batch 8, 16; small batch 32"."""
    batches: dict[str, list[str]] = {}
    for estimate in estimates:
        batches.setdefault(estimate.name, []).append(str(estimate.batch))
    return "; ".join(f"{name} batch {', '.join(found)}" for name, found in batches.items())


def _time_calls(calls: Sequence[KernelCall], regressors: Mapping[str, KernelRegressor]) -> pd.DataFrame:
    """Return one row per call with its stage, time and whether it is extrapolated; each regressor is evaluated once."""
    parts = [pd.DataFrame({"stage": [], "time_s": [], "extrapolated": pd.Series(dtype=bool)})]
    for kernel in dict.fromkeys(call.kernel for call in calls):
        own = [call for call in calls if call.kernel == kernel]
        sizes = pd.DataFrame([call.sizes for call in own])
        times = estimate_time_s(regressors[kernel], sizes) * [call.count for call in own]
        extrapolated = is_extrapolated(regressors[kernel], sizes)
        parts.append(
            pd.DataFrame({"stage": [call.stage for call in own], "time_s": times, "extrapolated": extrapolated})
        )
    return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)


def _find_coverage(
    network: LayerList, batch: int, regressors: Mapping[str, KernelRegressor]
) -> tuple[dict[str, float], float, tuple[str, ...]]:
    """Return the covered share by stage and of the step, and the uncovered layers."""
    flop, elements = _count_by_stage(network, batch)
    # Biases have no work in the roofline model, so a layer is covered if its main kernel is.
    covered = np.zeros(flop.shape, dtype=bool)
    for position, layer in enumerate(network.layers):
        for call in list_kernel_calls(layer, batch):
            if call.kernel in regressors and not call.kernel.startswith("bias_"):
                covered[STAGES.index(call.stage), position] = True
    lacking = ((flop + elements > 0) & ~covered).any(axis=0)
    others = np.array([layer.kind == "other" for layer in network.layers])
    names = [
        f"{layer.name} ({layer.kind})"
        for layer, is_lacking in zip(network.layers, lacking | others, strict=True)
        if is_lacking
    ]
    stages: dict[str, float] = {
        stage: _share(flop[row], elements[row], covered[row]) for row, stage in enumerate(STAGES)
    }
    return stages, _share(flop, elements, covered), (*names, *network.not_modelled)


def _count_by_stage(network: LayerList, batch: int) -> tuple[Floats, Floats]:
    """Return operations and moved elements of a step, shape (stages, layers)."""
    work = count_work(network.layers, "full")
    linear = batch * work.elements + work.fixed_elements
    passed = batch * work.passed_elements
    updated = UPDATE_PASSES * np.array([[layer.parameters * layer.repeats for layer in network.layers]], dtype=float)
    elements = np.concatenate([linear[:1] + passed[:1], linear[1:], passed[1:], updated])
    flop = np.concatenate([batch * work.flop, np.zeros((2, len(network.layers)))])
    return flop, elements


def _share(flop: Floats, elements: Floats, covered: Flags) -> float:
    """Return the smaller of the covered shares of operations and of traffic; NaN without any."""
    shares = [float(amounts[covered].sum() / amounts.sum()) for amounts in (flop, elements) if amounts.any()]
    return min(shares, default=float("nan"))
