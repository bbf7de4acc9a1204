"""Fitting one regressor per kernel to measured times."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import nnls

from hpcai.core.extras import require
from hpcai.predict.kernels.accuracy import KernelResult, collect_accuracy, collect_errors, summarise_errors
from hpcai.predict.kernels.cases import KERNELS
from hpcai.predict.kernels.network import Arrays, NetworkTrainer, TrainedNetwork, software_versions, use_one_thread
from hpcai.predict.kernels.regressor import DenseLayer, InputScale, KernelRegressor, estimate_time_s
from hpcai.predict.kernels.samples import (
    LEAST_SAMPLES,
    Floats,
    KernelSamples,
    check_times,
    hash_samples,
    select_samples,
)

COMPUTING = ("convolution", "gemm")
"""Families whose two-parameter fit uses flop; the others use bytes."""


def estimate_log_linear(samples: KernelSamples) -> Floats:
    """Estimate the test cases by a product of powers of the sizes, fitted by least squares of the logarithm of time.

    Returns
    -------
    numpy.ndarray
        Times of the test cases [s].
    """
    design = np.column_stack([np.ones(len(samples.sizes)), np.log(samples.sizes.to_numpy())])
    logs = np.log(samples.times_s)
    coefficients, *_ = np.linalg.lstsq(design[samples.fitted], logs[samples.fitted], rcond=None)
    estimated: Floats = np.exp(design[samples.test] @ coefficients)
    return estimated


def estimate_two_parameters(samples: KernelSamples) -> Floats:
    """Estimate the test cases by a constant and a rate: a + flop/F, or a + bytes/B for element-wise kernels.

    Both parameters are at least 0 and minimise the squared relative errors, because times span several decades.

    Returns
    -------
    numpy.ndarray
        Times of the test cases [s].
    """
    amounts = _amounts(samples.kernel, samples.sizes)
    design = np.column_stack([np.ones(len(amounts)), amounts])
    weighted = design / samples.times_s[:, None]
    # Amounts are up to 1e9 times the constant; scaling the columns keeps the fit stable.
    lengths = np.linalg.norm(weighted[samples.fitted], axis=0)
    lengths[lengths == 0] = 1.0
    solution, _ = nnls(weighted[samples.fitted] / lengths, np.ones(len(samples.fitted)))
    estimated: Floats = design[samples.test] @ (solution / lengths)
    return estimated


def _amounts(kernel: str, sizes: pd.DataFrame) -> Floats:
    """Return the work [flop] or the traffic [B] of each case."""
    chosen = KERNELS[kernel]
    amounts = chosen.work_flop(sizes) if chosen.family in COMPUTING else chosen.moved_bytes(sizes)
    return np.asarray(amounts, dtype=float)


RESTARTS = 5
"""Number of random starts; the one with the lowest validation loss is kept."""


def fit_kernels(times: pd.DataFrame, seed: int) -> tuple[dict[str, KernelRegressor], pd.DataFrame, pd.DataFrame]:
    """Fit a regressor to every kernel of a table of measured times, and test each on unseen cases.

    Parameters
    ----------
    times
        Table ``kernel_times`` of one or all families; may be empty. Rows without a time are skipped and counted.
    seed
        Seed of splits, starts and orders: equal tables and seeds give equal regressors.

    Returns
    -------
    regressors
        By kernel. A kernel with too few usable cases has none, as its row of ``kernel_accuracy`` states.
    kernel_accuracy
        One row per kernel of the table.
    kernel_errors
        One row per test case.

    Raises
    ------
    ConfigError
        If columns are missing or a kernel is unknown.
    MissingExtraError
        If there is something to fit, but the training packages are missing.
    """
    if times.empty:
        return {}, collect_accuracy([]), collect_errors([])
    check_times(times)
    require("tensorflow", "keras")
    use_one_thread()
    trainer_of = cache(NetworkTrainer)
    regressors, results = {}, []
    for kernel in (name for name in KERNELS if name in set(times["kernel"])):
        samples = select_samples(times, kernel, seed)
        if len(samples.sizes) < LEAST_SAMPLES:
            results.append(KernelResult(samples))
            continue
        regressors[kernel] = fit_kernel(samples, seed, trainer_of)
        results.append(_judge(samples, regressors[kernel]))
    return regressors, collect_accuracy(results), collect_errors(results)


def fit_kernel(
    samples: KernelSamples, seed: int, trainer_of: Callable[[int], NetworkTrainer] = NetworkTrainer
) -> KernelRegressor:
    """Fit the regressor of one kernel.

    Parameters
    ----------
    samples
        Its measured cases; test cases are not used for the fit.
    seed
        Seed of starts and orders.
    trainer_of
        Returns the trainer for networks with a given number of inputs: kernels may share one.
    """
    scaling = _find_scaling(samples)
    inputs, targets = _scale(samples, scaling)
    trainer = trainer_of(inputs.shape[1])
    training, validation = ((inputs[rows], targets[rows]) for rows in (samples.training, samples.validation))
    trained = [trainer.train(training, validation, start) for start in _draw_starts(samples.kernel, seed)]
    best = min(trained, key=lambda network: network.validation_loss)
    untested = _describe(samples, scaling, best, seed)
    estimated = estimate_time_s(untested, samples.sizes.iloc[samples.test])
    return untested.model_copy(update={"errors": summarise_errors(estimated, samples.times_s[samples.test])})


@dataclass(frozen=True)
class _Scaling:
    """Mean and standard deviation of the logarithms of the training cases."""

    means: Floats
    deviations: Floats
    time_mean: float
    time_deviation: float


def _find_scaling(samples: KernelSamples) -> _Scaling:
    logs = np.log(samples.sizes.to_numpy()[samples.training])
    log_times = np.log(samples.times_s[samples.training])
    deviations = logs.std(axis=0)
    # A constant size or time is only centred.
    deviations[deviations == 0] = 1.0
    return _Scaling(logs.mean(axis=0), deviations, float(log_times.mean()), float(log_times.std()) or 1.0)


def _scale(samples: KernelSamples, scaling: _Scaling) -> Arrays:
    inputs = (np.log(samples.sizes.to_numpy()) - scaling.means) / scaling.deviations
    targets = (np.log(samples.times_s) - scaling.time_mean) / scaling.time_deviation
    return inputs.astype("float32"), targets.astype("float32")


def _draw_starts(kernel: str, seed: int) -> list[int]:
    """Return a seed per restart; each kernel has its own."""
    sequence = np.random.SeedSequence([seed, zlib.crc32(kernel.encode())])
    return [int(start) for start in sequence.generate_state(RESTARTS) % 2**24]


def _describe(samples: KernelSamples, scaling: _Scaling, network: TrainedNetwork, seed: int) -> KernelRegressor:
    trained = samples.sizes.iloc[samples.training]
    pairs = zip(network.weights[::2], network.weights[1::2], strict=True)
    return KernelRegressor(
        kernel=samples.kernel,
        inputs=tuple(
            InputScale(
                name=name,
                log_mean=scaling.means[position],
                log_deviation=scaling.deviations[position],
                smallest=trained[name].min(),
                largest=trained[name].max(),
            )
            for position, name in enumerate(trained)
        ),
        time_log_mean=scaling.time_mean,
        time_log_deviation=scaling.time_deviation,
        layers=tuple(_plain(weights, biases) for weights, biases in pairs),
        n_training=len(samples.training),
        n_validation=len(samples.validation),
        n_test=len(samples.test),
        seed=seed,
        restarts=RESTARTS,
        epochs=network.epochs,
        validation_loss=network.validation_loss,
        data_sha256=hash_samples(samples),
        software=software_versions(),
    )


def _plain(weights: NDArray[np.float32], biases: NDArray[np.float32]) -> DenseLayer:
    """Return a layer whose numbers have just enough digits to identify a float32."""
    rows = [tuple(float(str(value)) for value in row) for row in (*weights, biases)]
    return DenseLayer(weights=tuple(rows[:-1]), biases=rows[-1])


def _judge(samples: KernelSamples, regressor: KernelRegressor) -> KernelResult:
    return KernelResult(
        samples,
        regressor,
        estimated_s=estimate_time_s(regressor, samples.sizes.iloc[samples.test]),
        log_linear_s=estimate_log_linear(samples),
        two_parameter_s=estimate_two_parameters(samples),
    )
