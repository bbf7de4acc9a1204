"""Gaussian processes: smooth functions of a few sizes, learnt from some hundred cases without a network's restarts.

The kernel is a squared exponential with a length for each input, a linear part, and noise (Rasmussen and Williams 2006,
chapters 2 and 5). All of them are those of the largest marginal likelihood, from several starts; no case is held back
to choose them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

Floats = NDArray[np.float64]
STARTS = 2
JITTER = 1e-8
FEW = {"maxiter": 40}
"""Steps of a search; later ones change no estimate by much."""
LENGTHS, NOISES = (0.05, 100.0), (1e-3, 1.0)
"""Limits of lengths, in standard deviations of an input, and of noise, in those of the targets."""


@dataclass(frozen=True)
class _Process:
    """Cases, scaled, and what the likelihood chose."""

    inputs: Floats
    weights: Floats
    parameters: Floats

    def mean(self, asked: Floats) -> Floats:
        return _covariance(asked, self.inputs, self.parameters) @ self.weights


def fit_process(inputs: Floats, targets: Floats, seed: int) -> Callable[[Floats], Floats]:
    """Return the mean of a Gaussian process given cases.

    Parameters
    ----------
    inputs : (cases, sizes)
        Any scale; a size that never differs says nothing.
    targets : (cases,)
        What is learnt.
    seed
        Of the starts of the search.
    """
    means, deviations = inputs.mean(axis=0), inputs.std(axis=0)
    kept = np.ptp(inputs, axis=0) > 0  # the deviation of equal numbers may be a rounding error
    scaled = (inputs[:, kept] - means[kept]) / deviations[kept]
    middle, spread = float(targets.mean()), float(targets.std()) or 1.0
    values = (targets - middle) / spread
    parameters = _search(scaled, values, np.random.default_rng(seed))
    factor = cho_factor(_noisy(scaled, parameters), lower=True)
    process = _Process(scaled, np.asarray(cho_solve(factor, values)), parameters)

    def estimate(asked: Floats) -> Floats:
        # A size that never differed among the cases has no say, whatever it is now.
        own = (asked[:, kept] - means[kept]) / deviations[kept]
        return np.asarray(middle + spread * process.mean(own))

    return estimate


def _search(inputs: Floats, values: Floats, random: np.random.Generator) -> Floats:
    """Return logarithms of lengths, amplitude, slope and noise of the largest marginal likelihood."""
    sizes = inputs.shape[1]
    bounds = [tuple(np.log(LENGTHS))] * sizes + [(-5.0, 5.0), (-7.0, 3.0), tuple(np.log(NOISES))]
    starts = [np.array([1.0] * sizes + [0.0, -1.0, -2.0])]
    starts += [starts[0] + random.normal(0, 0.7, sizes + 3) for _ in range(STARTS - 1)]
    starts = [np.clip(start, *np.transpose(bounds)) for start in starts]
    how: dict[str, Any] = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": FEW}
    found = [minimize(_loss, start, (inputs, values), **how) for start in starts]
    return np.asarray(min(found, key=lambda one: one.fun).x)


def _loss(parameters: Floats, inputs: Floats, values: Floats) -> tuple[float, Floats]:
    """Return the negative logarithm of the marginal likelihood, and its gradient (eqs 5.8 and 5.9)."""
    noisy = _noisy(inputs, parameters)
    try:
        factor = cho_factor(noisy, lower=True)
    except np.linalg.LinAlgError:
        return 1e10, np.zeros_like(parameters)
    weights = cho_solve(factor, values)
    loss = 0.5 * values @ weights + np.log(np.diag(factor[0])).sum() + 0.5 * len(values) * np.log(2 * np.pi)
    inner = cho_solve(factor, np.eye(len(values))) - np.outer(weights, weights)
    lengths, (amplitude, slope, noise) = np.exp(parameters[:-3]), np.exp(2 * parameters[-3:])
    smooth = amplitude * np.exp(-0.5 * _squares(inputs, inputs, lengths))
    slopes = [
        np.sum(inner * smooth * np.subtract.outer(column, column) ** 2) / length**2
        for column, length in zip(inputs.T, lengths, strict=True)
    ]
    rest = [np.sum(inner * smooth), slope * np.sum(inner * (1 + inputs @ inputs.T)), noise * np.trace(inner)]
    return float(loss), np.array([*(0.5 * one for one in slopes), *rest])


def _noisy(inputs: Floats, parameters: Floats) -> Floats:
    noise = np.exp(2 * parameters[-1]) + JITTER
    return np.asarray(_covariance(inputs, inputs, parameters) + noise * np.eye(len(inputs)))


def _covariance(one: Floats, other: Floats, parameters: Floats) -> Floats:
    amplitude, slope = np.exp(2 * parameters[-3:-1])
    squares = _squares(one, other, np.exp(parameters[:-3]))
    return np.asarray(amplitude * np.exp(-0.5 * squares) + slope * (1 + one @ other.T))


def _squares(one: Floats, other: Floats, lengths: Floats) -> Floats:
    left, right = one / lengths, other / lengths
    return np.asarray(np.maximum((left**2).sum(1)[:, None] + (right**2).sum(1)[None, :] - 2 * left @ right.T, 0))
