"""How much the slow tail of simultaneous trainings differs from a log-normal one, from one system to another.

A few trainings tell mean and deviation, but not how far the slowest of many lies beyond them: trainings that count
their epochs in whole numbers, or whose slowest were pruned, end sooner; a rare straggler ends much later. So the
distance of the slowest from the mean is multiplied by a factor whose logarithm scatters between results.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtri

Floats = NDArray[np.float64]
DRAWS = 4000
LARGEST_LOG_FACTOR = 20.0
"""Factors beyond are cut: they are outside of any interval, and would overflow."""
SPREADS: Floats = np.geomspace(0.02, 2.0, 41)
"""Candidates of the spread."""
FEWEST_RESULTS = 5
"""With fewer results of others their spread says little."""
IMPOSSIBLE = 1e-12
"""Density of a time below the mean of all draws."""


@dataclass(frozen=True)
class Tail:
    """Scatter of the tail factor: its logarithm is ``spread`` times Student's t with ``degrees`` of freedom."""

    spread: float
    degrees: int


@dataclass(frozen=True)
class Weak:
    """A weak-scaling result: completions of a few instances [s], the number of all, and the time for all [s]."""

    ends_s: Sequence[float]
    instances: int
    all_s: float


PUBLISHED_TAIL = Tail(0.63, 18)
"""Of the 19 published results of MLPerf HPC v1.0 to v3.0 with enough instances: `bench/bench_weak_forecasts.py`."""


def fit_tail(results: Sequence[Weak]) -> Tail:
    """Return the most likely spread of the tail factor.

    Parameters
    ----------
    results
        At least two; each counts as one draw of the factor, so there is one degree of freedom less.
    """
    degrees = len(results) - 1
    scores = np.sum([_scores(one, degrees) for one in results], axis=0)
    return Tail(float(SPREADS[int(np.argmax(scores))]), degrees)


def draw_slowest(ends_s: Sequence[float], instances: int, seed: int) -> tuple[Floats, Floats, np.random.Generator]:
    """Return draws of the mean log time, and of the distance of the slowest instance from it without a tail factor.

    Parameters
    ----------
    ends_s
        Completions of the measured instances [s], at least two.
    instances
        Number of all.
    seed
        Of the draws; the generator is returned to go on with.
    """
    logs, n = np.log(np.asarray(ends_s, dtype=np.float64)), len(ends_s)
    draws = np.random.default_rng(seed)
    deviation = logs.std(ddof=1) * np.sqrt((n - 1) / draws.chisquare(n - 1, DRAWS))
    mean = logs.mean() + deviation / math.sqrt(n) * draws.standard_normal(DRAWS)
    # The largest of N normal values by its distribution, instead of N draws.
    return mean, deviation * ndtri(draws.random(DRAWS) ** (1 / instances)), draws


def draw_factors(tail: Tail, draws: np.random.Generator) -> Floats:
    """Return draws of the tail factor."""
    logs = tail.spread * draws.standard_t(tail.degrees, DRAWS)
    return np.exp(np.clip(logs, -LARGEST_LOG_FACTOR, LARGEST_LOG_FACTOR))


def _scores(result: Weak, degrees: int) -> Floats:
    """Return the log density of a result's time for all, for each spread."""
    mean, beyond, _ = draw_slowest(result.ends_s, result.instances, seed=1)
    distance = math.log(result.all_s) - mean
    slower = (distance > 0) & (beyond > 0)
    logs = np.log(distance[slower] / beyond[slower])
    densities = stats.t.pdf(logs[None, :], degrees, scale=SPREADS[:, None]) / distance[slower][None, :]
    scores: Floats = np.log(densities.sum(axis=1) / DRAWS + IMPOSSIBLE)
    return scores
