"""Epoch time over rounds: one model of all benchmarks, machines and years, for rounds that nobody has seen.

The logarithm of the time of a sample is a sum of normal effects: of the benchmark and its edition, of the units and of
sharing a sample between units, of the accelerator's published rates, of its family, of the machine, of the software's
age, and of the scatter. Effects with a declared prior are integrated in closed form, standard deviations by draws that
the points weigh, so that few points give a wide answer and not a wrong one.
"""

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
"""Draws of the standard deviations, a power of two."""
SCATTERS: Mapping[str, tuple[tuple[str, ...], float]] = {
    "family": (("family",), 0.3),
    "family of a benchmark": (("family", "benchmark"), 0.2),
    "machine": (("machine",), 0.3),
    "machine in a benchmark": (("machine", "benchmark"), 0.2),
    "round of a benchmark": (("round", "benchmark"), 0.3),
    "submission": (("row",), 0.3),
}
"""Groups whose members share an effect, and the scale of the half-normal prior of its deviation [log units]."""
LEVEL_DEVIATION = 10.0
EDITION_DEVIATION = 0.3
BENCHMARK_EXPONENT_DEVIATION = 0.1
SHARING_CENTRE, SHARING_DEVIATION = 0.5, 0.3
"""Exponent of the gain from several units per sample: between none and all of them."""
RATE_SHARE = 1 / len(RATES)
"""Prior mean and deviation of the exponent of each published rate: twice of everything halves the time."""
UNKNOWN_DEVIATION = 2.0
"""Of a family whose rates are not declared."""
Law = Literal["linear", "fading"]


@dataclass(frozen=True)
class AgeingPrior:
    """What is assumed of the software's age before any point is seen.

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
    AgeingPrior(law, rate, deviation)
    for law, rate, deviation in product(("fading", "linear"), (-0.35, 0.0, -0.7), (0.5, 0.2))
)
"""Priors among which the earlier rounds choose (:func:`choose_prior`). -0.35 and -0.7: a factor of 1.4 or 2."""


@dataclass(frozen=True)
class History:
    """What the points of earlier rounds leave of the prior.

    Attributes
    ----------
    rows
        Columns of :func:`hpcai.mlperf_hpc.analysis.forecast.history_rows`.
    variances
        Of each draw and scatter, shape (SETS, scatters).
    inverses, residuals, weights
        Of each draw: inverse covariance, inverse covariance times residuals, posterior probability.
    """

    rows: pd.DataFrame
    prior: AgeingPrior
    variances: Floats
    inverses: Floats
    residuals: Floats
    weights: Floats

    def moments(self, new: pd.DataFrame) -> tuple[Floats, Floats]:
        """Return mean and deviation of further submissions' log time of a sample, of each draw; shape (SETS, rows)."""
        cross = _covariances(new, self.rows, self.prior, self.variances)
        own = np.stack([_covariances(new.iloc[[i]], new.iloc[[i]], self.prior, self.variances)[:, 0, 0]
                        for i in range(len(new))], axis=1)  # fmt: skip
        means = _means(new, self.prior)[None, :] + np.einsum("smn,sn->sm", cross, self.residuals)
        explained = np.einsum("smn,snk,smk->sm", cross, self.inverses, cross)
        typical = float(np.median(self.rows["error"])) ** 2
        return means, np.sqrt(np.maximum(own - explained, 0.0) + typical)

    def predict(self, new: pd.DataFrame) -> Mixture:
        """Return the distribution of the logarithm of one further submission's time of a sample [s]."""
        means, deviations = self.moments(new)
        edges = np.cumsum(self.weights)
        cells = np.minimum(np.searchsorted(edges, STEPS * edges[-1]), SETS - 1)
        return Mixture(means[cells, 0], deviations[cells, 0])

    def score(self, new: pd.DataFrame) -> Floats:
        """Return the logarithm of the density that this gave to each submission's time."""
        means, deviations = self.moments(new)
        logs = stats.norm.logpdf(new["log_s"].to_numpy(float)[None, :], means, deviations)
        scores: Floats = special.logsumexp(logs, axis=0, b=self.weights[:, None])
        return scores


def fit_history(rows: pd.DataFrame, prior: AgeingPrior) -> History:
    """Weigh draws of the standard deviations by the points.

    Parameters
    ----------
    rows
        Columns of :func:`hpcai.mlperf_hpc.analysis.forecast.history_rows`, at least one.
    prior
        Of the software's age.
    """
    uniform = qmc.Sobol(len(SCATTERS), seed=SEED).random(SETS)
    scales = np.array([scale for _, scale in SCATTERS.values()])
    variances = (scales * stats.halfnorm.ppf(np.clip(uniform, 1e-6, 1 - 1e-6))) ** 2
    covariances = _covariances(rows, rows, prior, variances) + np.diag(rows["error"].to_numpy(float) ** 2 + 1e-6)
    inverses = np.linalg.inv(covariances)
    off = rows["log_s"].to_numpy(float) - _means(rows, prior)
    residuals = inverses @ off
    _, determinants = np.linalg.slogdet(covariances)
    scores = -0.5 * (determinants + residuals @ off)
    weights = np.exp(scores - scores.max())
    return History(rows, prior, variances, inverses, residuals, weights / weights.sum())


def choose_prior(rows: pd.DataFrame, candidates: Sequence[AgeingPrior] = CANDIDATES) -> tuple[AgeingPrior, list[float]]:
    """Choose the prior of ageing that predicts each round best from the others: leave-one-round-out.

    Returns
    -------
    tuple
        The prior with the highest mean logarithm of the density of the left-out times, and the mean of each candidate;
        the first candidate and no means where there is a single round, or none whose benchmarks others have.
    """
    folds = list(_folds(rows))
    if not folds:
        return candidates[0], []
    means = [
        float(np.mean(np.concatenate([fit_history(rest, prior).score(left) for left, rest in folds])))
        for prior in candidates
    ]
    return candidates[int(np.argmax(means))], means


def _folds(rows: pd.DataFrame) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """Return each round, as far as other rounds have its benchmarks, and the other rounds."""
    folds = []
    for name in rows["round"].unique():
        rest = rows[rows["round"] != name]
        left = rows[(rows["round"] == name) & rows["benchmark"].isin(rest["benchmark"])]
        if len(left):
            folds.append((left, rest))
    return folds


def _means(rows: pd.DataFrame, prior: AgeingPrior) -> Floats:
    means: Floats = (
        prior.rate * rows[prior.law]
        - EXPONENT_CENTRE * rows["log_workers"]
        - SHARING_CENTRE * rows["log_sharing"]
        - RATE_SHARE * rows[list(RATES)].sum(axis=1)
    ).to_numpy(float)
    return means


def _covariances(one: pd.DataFrame, two: pd.DataFrame, prior: AgeingPrior, variances: Floats) -> Floats:
    """Return the covariance of the submissions of two tables for each set of variances."""
    shared = np.array([_same(one, two, groups) for groups, _ in SCATTERS.values()], dtype=float)
    scattered: Floats = np.einsum("sk,kmn->smn", variances, shared)
    return scattered + _declared(one, two, prior)[None, :, :]


def _declared(one: pd.DataFrame, two: pd.DataFrame, prior: AgeingPrior) -> Floats:
    """Return the covariance of all effects whose priors are declared."""
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
    return np.logical_and.reduce(equal).astype(float)


def _products(one: pd.DataFrame, two: pd.DataFrame, name: str) -> Floats:
    return np.outer(one[name].to_numpy(float), two[name].to_numpy(float))
