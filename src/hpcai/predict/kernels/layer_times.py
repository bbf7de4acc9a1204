"""Layer times from kernel regressors, in the form that the step model combines with messages, update and input."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from hpcai.core.errors import ConfigError
from hpcai.predict.kernels.regressor import KernelRegressor
from hpcai.predict.kernels.step_estimate import estimate_step
from hpcai.predict.training.layers import LayerList
from hpcai.predict.training.roofline_cost import Floats, LayerTimes


def time_layers_by_kernels(
    network: LayerList, batch: ArrayLike, regressors: Mapping[str, KernelRegressor]
) -> tuple[LayerTimes, Floats]:
    """Return the time of each layer, and of the update of all weights, from the regressors of one machine.

    Parameters
    ----------
    network
        Layers; work without a regressor takes no time here.
    batch
        Samples per process, shape (scenarios,).
    regressors
        By kernel, from the machine of interest.

    Returns
    -------
    LayerTimes
        Arrays of shape (scenarios, layers) [s]; element-wise kernels of the forward pass are part of ``forward_s``.
    ndarray
        The update, shape (scenarios,) [s].

    Raises
    ------
    ConfigError
        If a batch is below 1, or the regressors cover too little of the work (`StepEstimate.reason`).
    """
    batches = np.asarray(batch, dtype=np.int64).reshape(-1)
    for size in map(int, np.unique(batches)):
        if reason := estimate_step(network, size, regressors).reason:
            raise ConfigError(
                f"{network.name}: {reason}; measure the missing families of kernels, or predict by the roofline"
            )
    found = {size: [_time_stages(network, place, size, regressors) for place in range(len(network.layers))]
             for size in map(int, np.unique(batches))}  # fmt: skip
    stages = np.array([found[int(size)] for size in batches]).reshape(len(batches), len(network.layers), 5)
    forward, to_input, to_weights, elementwise, update = np.moveaxis(stages, -1, 0)
    times = LayerTimes(forward, to_input, to_weights, np.zeros_like(forward), elementwise)
    return times, update.sum(axis=-1)


def _time_stages(network: LayerList, place: int, batch: int, regressors: Mapping[str, KernelRegressor]) -> list[float]:
    """Return the time of one layer in each stage, in the order of `layer_kernels.STAGES`."""
    alone = network.model_copy(update={"layers": (network.layers[place],)})
    return list(estimate_step(alone, batch, regressors).stage_s.values())
