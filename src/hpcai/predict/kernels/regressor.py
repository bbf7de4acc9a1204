"""A trained kernel regressor: stored as plain numbers, and evaluated without the training framework.

The network follows Barrachina et al. (2023, doi 10.1007/s00607-021-00997-9, section 3): the sizes of an operation
pass through five dense layers of 50 with ReLU to one number. Inputs and times are logarithms, centred and scaled with
statistics of the training cases; the source only takes logarithms.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hpcai.core.errors import ConfigError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
HIDDEN_LAYERS, HIDDEN_WIDTH = 5, 50
Sizes = pd.DataFrame | Mapping[str, ArrayLike]
"""Columns or arrays of equal length, one per size."""
_ROUNDING = 1e-9
"""Edges of non-square areas are roots, so they may miss the training range by rounding."""


class _Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class InputScale(_Stored):
    """Scaling of one input size, and the range of training."""

    name: str
    log_mean: float
    log_deviation: float = Field(gt=0)
    smallest: float = Field(gt=0)
    largest: float = Field(gt=0)


class DenseLayer(_Stored):
    """Weights, shape (inputs, outputs), and biases, shape (outputs,)."""

    weights: tuple[tuple[float, ...], ...]
    biases: tuple[float, ...]


class EstimateErrors(_Stored):
    """Errors over unseen cases; see `hpcai.predict.kernels.accuracy`."""

    mape_ratio: float
    median_ape_ratio: float
    bias_ratio: float
    weighted_error_ratio: float


class KernelRegressor(_Stored):
    """The time of one kernel from its sizes, as trained on one machine.

    Attributes
    ----------
    time_log_mean, time_log_deviation
        Mean and deviation of the natural logarithm of the training times in seconds.
    epochs, validation_loss
        Of the restart that was kept; the loss is the mean squared error of the scaled logarithm of time.
    data_sha256
        Digest of the sizes and times used for the fit, in the order of the cases.
    """

    kernel: str
    inputs: tuple[InputScale, ...] = Field(min_length=1)
    time_log_mean: float
    time_log_deviation: float = Field(gt=0)
    layers: tuple[DenseLayer, ...] = Field(min_length=1)
    n_training: int
    n_validation: int
    n_test: int
    seed: int
    restarts: int
    epochs: int
    validation_loss: float
    errors: EstimateErrors | None = None
    data_sha256: str
    software: dict[str, str]
    method: Literal["modelled"] = "modelled"

    @model_validator(mode="after")
    def _check_shapes(self) -> "KernelRegressor":
        width = len(self.inputs)
        for number, layer in enumerate(self.layers):
            if len(layer.weights) != width or any(len(row) != len(layer.biases) for row in layer.weights):
                raise ValueError(f"layer {number} of the regressor of {self.kernel} does not fit its {width} inputs")
            width = len(layer.biases)
        if width != 1:
            raise ValueError(f"the regressor of {self.kernel} ends in {width} numbers, expected 1")
        return self

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the sizes, in the order of the network's inputs."""
        return tuple(scale.name for scale in self.inputs)

    @property
    def parameters(self) -> int:
        """Weights and biases: 50 per input and 10 301."""
        return sum((len(layer.weights) + 1) * len(layer.biases) for layer in self.layers)

    @cached_property
    def network(self) -> "_Network":
        """The numbers of the network as arrays, created once."""
        return _Network(
            log_means=np.array([scale.log_mean for scale in self.inputs]),
            log_deviations=np.array([scale.log_deviation for scale in self.inputs]),
            smallest=np.array([scale.smallest for scale in self.inputs]),
            largest=np.array([scale.largest for scale in self.inputs]),
            layers=tuple((np.asarray(layer.weights), np.asarray(layer.biases)) for layer in self.layers),
        )


@dataclass(frozen=True, eq=False)
class _Network:
    """Arrays of a regressor; those for inputs have the shape (inputs,)."""

    log_means: Floats
    log_deviations: Floats
    smallest: Floats
    largest: Floats
    layers: tuple[tuple[Floats, Floats], ...]


class KernelRegressors(_Stored):
    """All regressors of one machine, by kernel, and the data that they were fitted to."""

    regressors: dict[str, KernelRegressor]
    source: str


def estimate_time_s(regressor: KernelRegressor, sizes: Sizes) -> Floats:
    """Estimate the time of each case.

    Parameters
    ----------
    regressor
        Regressor of the kernel.
    sizes
        A column or an array per input, all positive; fractions are allowed. Additional columns are ignored.

    Returns
    -------
    numpy.ndarray
        Time per case [s], shape (cases,). Modelled. Cases outside the training range are computed as well;
        `is_extrapolated` marks them.

    Raises
    ------
    ConfigError
        If a size is missing or not a positive number.
    """
    network = regressor.network
    activations = (np.log(_size_array(regressor, sizes)) - network.log_means) / network.log_deviations
    for weights, biases in network.layers[:-1]:
        activations = np.maximum(activations @ weights + biases, 0.0)
    weights, biases = network.layers[-1]
    scaled = (activations @ weights + biases)[:, 0]
    times: Floats = np.exp(scaled * regressor.time_log_deviation + regressor.time_log_mean)
    return times


def is_extrapolated(regressor: KernelRegressor, sizes: Sizes) -> Flags:
    """Return which cases have a size smaller or larger than any training case, shape (cases,)."""
    values, network = _size_array(regressor, sizes), regressor.network
    too_small = values < network.smallest * (1 - _ROUNDING)
    too_large = values > network.largest * (1 + _ROUNDING)
    outside: Flags = (too_small | too_large).any(axis=1)
    return outside


def _size_array(regressor: KernelRegressor, sizes: Sizes) -> Floats:
    """Return the sizes as an array (cases, inputs)."""
    missing = [name for name in regressor.input_names if name not in sizes]
    if missing:
        raise ConfigError(
            f"sizes for {regressor.kernel}: {', '.join(missing)} missing, expected {', '.join(regressor.input_names)}"
        )
    columns = [np.atleast_1d(np.asarray(sizes[name], dtype=float)) for name in regressor.input_names]
    values: Floats = np.stack(columns, axis=1)
    wrong = ~(np.isfinite(values) & (values > 0))
    if wrong.any():
        case, position = np.argwhere(wrong)[0]
        raise ConfigError(
            f"sizes for {regressor.kernel}: {regressor.input_names[position]} of case {case} is "
            f"{values[case, position]:g}, expected a positive number"
        )
    return values
