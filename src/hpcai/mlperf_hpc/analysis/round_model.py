"""Epoch time over rounds: one model of all benchmarks, machines and years, to predict future rounds.

The logarithm of the time per sample is a sum of normal effects: benchmark and edition, units and sharing of a sample
between units, published rates of the accelerator, its family, the machine, the age of the software, and scatter.
Effects with a declared prior are integrated in closed form. Standard deviations are integrated by draws that the points
weigh, so few points give a wide answer instead of a wrong one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd
from scipy import special, stats
from scipy.stats import qmc

from hpcai.mlperf_hpc.analysis.accelerators import RATES
from hpcai.mlperf_hpc.analysis.curve_model import SEED, STEPS, Floats, Mixture
from hpcai.mlperf_hpc.analysis.throughput_curve import EXPONENT_CENTRE, EXPONENT_DEVIATION

SETS = 512
"""Number of draws of the standard deviations, a power of two."""
SCATTERS: Mapping[str, tuple[tuple[str, ...], float]] = {
    "family": (("family",), 0.3),
    "family of a benchmark": (("family", "benchmark"), 0.2),
    "machine": (("machine",), 0.3),
    "machine in a benchmark": (("machine", "benchmark"), 0.2),
    "round of a benchmark": (("round", "benchmark"), 0.3),
    "submission": (("row",), 0.3),
}
"""Groups whose members share an effect, and the scale of the half-normal prior of its deviation [log units]."""
LEAST_WEIGHT = 0.01
"""Priors with a smaller weight are dropped; the error is below that of the draws."""
TINY = 1e-300
"""Weight of a draw that the points exclude."""
NUGGET = 1e-6
"""Added to each variance, so that no covariance is singular."""
LEVEL_DEVIATION = 10.0
EDITION_DEVIATION = 0.3
BENCHMARK_EXPONENT_DEVIATION = 0.1
SHARING_CENTRE, SHARING_DEVIATION = 0.5, 0.3
"""Prior of the exponent of the gain from several units per sample: between no gain and full gain."""
RATE_SHARE = 1 / len(RATES)
"""Prior mean and deviation of the exponent of each published rate: doubling all rates halves the time."""
UNKNOWN_DEVIATION = 2.0
"""Deviation for a family without declared rates."""
Law = Literal["linear", "fading"]
LAWS: tuple[Law, ...] = ("fading", "linear")


@dataclass(frozen=True)
class AgeingPrior:
    """Prior assumption about the ageing of software.

    Attributes
    ----------
    law
        "linear": each year brings the same factor; "fading": each doubling of the years since the benchmark's first
        round does, so the first year brings most.
    rate, deviation
        Mean and deviation of a benchmark's rate [log units per year, or per doubling]; negative is faster. One half of
        the variance is common to all benchmarks.
    """

    law: Law = "fading"
    rate: float = -0.35
    deviation: float = 0.5


CANDIDATES = tuple(
    AgeingPrior(law, rate, deviation) for law, rate, deviation in product(LAWS, (-0.35, 0.0, -0.7, -1.05), (0.5, 0.2))
)
"""Priors that the earlier rounds select from (:func:`weigh_priors`). The rates are factors of 1.4, 1, 2 and 2.9."""


@dataclass(frozen=True)
class History:
    """Posterior given the points of earlier rounds.

    Attributes
    ----------
    rows
        Columns of :func:`hpcai.mlperf_hpc.analysis.forecast.history_rows`.
    variances
        Variance of each scatter per draw, shape (SETS, scatters).
    inverses, residuals, weights
        Per draw: inverse covariance, inverse covariance times residuals, posterior probability.
    """

    rows: pd.DataFrame
    prior: AgeingPrior
    variances: Floats
    inverses: Floats
    residuals: Floats
    weights: Floats

    def moments(self, new: pd.DataFrame) -> tuple[Floats, Floats]:
        """Return mean and deviation of the log time per sample of further submissions, per draw; shape (SETS, rows)."""
        cross = _covariances(new, self.rows, self.prior, self.variances)
        # A submission shares every group with itself.
        own = self.variances.sum(axis=1)[:, None] + np.diag(_declared(new, new, self.prior))
        means = _means(new, self.prior)[None, :] + (cross @ self.residuals[:, :, None])[:, :, 0]
        explained = ((cross @ self.inverses) * cross).sum(axis=2)
        return means, np.sqrt(np.maximum(own - explained, 0.0) + self._typical_variance)

    def score(self, new: pd.DataFrame) -> float:
        """Return the log density of the times of further submissions together under this posterior.

        Together, because they share effects: a round of ten submissions that are all too fast tells once that software
        aged, not ten times.
        """
        cross = _covariances(new, self.rows, self.prior, self.variances)
        covariances = _covariances(new, new, self.prior, self.variances)
        covariances -= cross @ self.inverses @ cross.transpose(0, 2, 1)
        covariances += np.diag(np.full(len(new), self._typical_variance + NUGGET))
        means = _means(new, self.prior)[None, :] + (cross @ self.residuals[:, :, None])[:, :, 0]
        off = new["log_s"].to_numpy(float)[None, :] - means
        distances = (off * np.linalg.solve(covariances, off[:, :, None])[:, :, 0]).sum(axis=1)
        _, determinants = np.linalg.slogdet(covariances)
        logs = -0.5 * (determinants + distances + len(new) * math.log(2 * math.pi))
        return float(special.logsumexp(logs + np.log(self.weights + TINY)))

    @property
    def _typical_variance(self) -> float:
        """Variance of a further submission from run to run."""
        return float(np.median(self.rows["error"])) ** 2


@dataclass(frozen=True)
class Choice:
    """Priors of ageing and their scores on left-out rounds.

    Attributes
    ----------
    candidates
        Some of :data:`CANDIDATES`.
    scores
        Mean log density of the times of a left-out round; empty where no round could be left out.
    weights
        Weight of each candidate; they add up to 1.
    """

    candidates: Sequence[AgeingPrior]
    scores: Sequence[float]
    weights: Sequence[float]

    @property
    def best(self) -> AgeingPrior:
        """The candidate of the largest weight."""
        return self.candidates[int(np.argmax(self.weights))]


@dataclass(frozen=True)
class Histories:
    """The same points under several priors of ageing, each with its weight."""

    members: Sequence[History]
    shares: Sequence[float]

    def predict(self, new: pd.DataFrame) -> Mixture:
        """Return the distribution of the logarithm of one further submission's time per sample [s]."""
        moments = [member.moments(new) for member in self.members]
        means, deviations = (np.concatenate([one[place][:, 0] for one in moments]) for place in (0, 1))
        weights = [share * member.weights for share, member in zip(self.shares, self.members, strict=True)]
        edges = np.cumsum(np.concatenate(weights))
        cells = np.minimum(np.searchsorted(edges, STEPS * edges[-1]), len(edges) - 1)
        return Mixture(means[cells], deviations[cells])


def fit_histories(rows: pd.DataFrame, choice: Choice) -> Histories:
    """Fit the points with all priors that have more than :data:`LEAST_WEIGHT`."""
    kept = [(prior, weight) for prior, weight in zip(choice.candidates, choice.weights, strict=True)
            if weight >= LEAST_WEIGHT]  # fmt: skip
    return Histories([fit_history(rows, prior) for prior, _ in kept], [weight for _, weight in kept])


def fit_history(rows: pd.DataFrame, prior: AgeingPrior) -> History:
    """Weigh draws of the standard deviations by the points.

    Parameters
    ----------
    rows
        Columns of :func:`hpcai.mlperf_hpc.analysis.forecast.history_rows`, at least one.
    prior
        Prior of the software's age.
    """
    uniform = qmc.Sobol(len(SCATTERS), seed=SEED).random(SETS)
    scales = np.array([scale for _, scale in SCATTERS.values()])
    variances = (scales * stats.halfnorm.ppf(np.clip(uniform, 1e-6, 1 - 1e-6))) ** 2
    covariances = _covariances(rows, rows, prior, variances) + np.diag(rows["error"].to_numpy(float) ** 2 + NUGGET)
    inverses = np.linalg.inv(covariances)
    off = rows["log_s"].to_numpy(float) - _means(rows, prior)
    residuals = inverses @ off
    _, determinants = np.linalg.slogdet(covariances)
    scores = -0.5 * (determinants + residuals @ off)
    weights = np.exp(scores - scores.max())
    return History(rows, prior, variances, inverses, residuals, weights / weights.sum())


def weigh_priors(rows: pd.DataFrame, candidates: Sequence[AgeingPrior] = CANDIDATES) -> Choice:
    """Weigh priors of ageing by how well each predicts every round from the others: leave-one-round-out.

    The weights are those of pseudo-Bayesian model averaging (Yao et al. 2018, doi 10.1214/17-BA1091): proportional to
    the product of the densities of the left-out rounds, each of all its times together. All are equal if no round can
    be left out, because others lack its benchmarks.
    """
    folds = list(_folds(rows))
    if not folds:
        return Choice(candidates, (), [1 / len(candidates)] * len(candidates))
    scores = np.array([[fit_history(rest, prior).score(left) for left, rest in folds] for prior in candidates])
    sums = scores.sum(axis=1)
    weights = np.exp(sums - sums.max())
    return Choice(candidates, scores.mean(axis=1).tolist(), (weights / weights.sum()).tolist())


def _folds(rows: pd.DataFrame) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Return each round, restricted to benchmarks that other rounds have, and those other rounds."""
    folds = []
    for name in rows["round"].unique():
        rest = rows[rows["round"] != name]
        left = rows[(rows["round"] == name) & rows["benchmark"].isin(rest["benchmark"])]
        if len(left):
            folds.append((left, rest))
    return folds


def _means(rows: pd.DataFrame, prior: AgeingPrior) -> Floats:
    slopes = {
        prior.law: prior.rate,
        "log_workers": -EXPONENT_CENTRE,
        "log_sharing": -SHARING_CENTRE,
        **dict.fromkeys(RATES, -RATE_SHARE),
    }
    means: Floats = np.sum([slope * rows[name].to_numpy(float) for name, slope in slopes.items()], axis=0)
    return means


def _covariances(one: pd.DataFrame, two: pd.DataFrame, prior: AgeingPrior, variances: Floats) -> Floats:
    """Return the covariance of the submissions of two tables for each set of variances."""
    shared = np.array([_same(one, two, groups) for groups, _ in SCATTERS.values()], dtype=float)
    scattered: Floats = np.tensordot(variances, shared, axes=1)
    return scattered + _declared(one, two, prior)[None, :, :]


def _declared(one: pd.DataFrame, two: pd.DataFrame, prior: AgeingPrior) -> Floats:
    """Return the covariance of all effects with declared priors."""
    benchmark = _same(one, two, ("benchmark",))
    age, workers, sharing = (_products(one, two, name) for name in (prior.law, "log_workers", "log_sharing"))
    rates = sum(_products(one, two, name) for name in RATES)
    unknown = _products(one, two, "unknown") * _same(one, two, ("family",))
    declared: Floats = (
        LEVEL_DEVIATION**2 * benchmark
        + EDITION_DEVIATION**2 * _same(one, two, ("benchmark", "edition"))
        + prior.deviation**2 * age * (1 + benchmark) / 2
        + workers * (EXPONENT_DEVIATION**2 + BENCHMARK_EXPONENT_DEVIATION**2 * benchmark)
        + SHARING_DEVIATION**2 * sharing
        + RATE_SHARE**2 * rates
        + UNKNOWN_DEVIATION**2 * unknown
    )
    return declared


def _same(one: pd.DataFrame, two: pd.DataFrame, names: Sequence[str]) -> Floats:
    equal = [np.equal.outer(one[name].to_numpy(str), two[name].to_numpy(str)) for name in names]
    same: Floats = np.logical_and.reduce(equal).astype(float)
    return same


def _products(one: pd.DataFrame, two: pd.DataFrame, name: str) -> Floats:
    products: Floats = np.outer(one[name].to_numpy(float), two[name].to_numpy(float))
    return products
