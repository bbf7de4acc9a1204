"""Fit a law to few points of several groups and predict a distribution elsewhere, even for an unmeasured group.

The logarithm of a quantity is the sum of a law of the configuration, one random effect per level of grouping, the
scatter between submissions, and the run-to-run error of a mean. The prior is a grid of laws and of standard
deviations; the rest is integrated in closed form. So even one, two or three points give an answer, with wide intervals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL_RATIO = 0.9
"""Nominal probability of an interval."""
QUANTILES = ((1 - LEVEL_RATIO) / 2, 0.5, (1 + LEVEL_RATIO) / 2)
DRAWS = 10_000
SEED = 20201117
"""Seed of the draws: equal inputs give equal intervals. The date of the v0.7 results."""
DEVIATIONS = 8
"""Number of points of equal prior probability that discretise the distribution of one standard deviation."""
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
STEPS: Floats = (np.arange(DRAWS) + 0.5) / DRAWS
"""Evenly spaced probabilities: draws in one dimension without sampling error."""
_NORMAL: Floats = stats.norm.ppf(STEPS)


@dataclass(frozen=True)
class Observations:
    """Means of submissions, as natural logarithms.

    Attributes
    ----------
    logs, errors
        Values and their standard errors from run to run [log units], shape (n,).
    groups
        Group of each submission, per level of grouping.
    scales
        Scale of the half-normal prior of each level's standard deviation; the last one is between submissions of one
        group [log units].
    """

    logs: Floats
    errors: Floats
    groups: tuple[tuple[str, ...], ...]
    scales: tuple[float, ...]


@dataclass(frozen=True)
class Mixture:
    """Distribution of a logarithm: :data:`DRAWS` normal components of equal weight."""

    means: Floats
    deviations: Floats

    def draw(self, stream: int) -> Floats:
        """Return one value per component in any order; another ``stream`` is independent."""
        random = generator(stream)
        order = random.permutation(DRAWS)
        values: Floats = self.means[order] + self.deviations[order] * random.permutation(_NORMAL)
        return values


@dataclass(frozen=True)
class Posterior:
    """Posterior: one law and one set of standard deviations per cell of the grid.

    Attributes
    ----------
    observations, offsets
        The points, and the law of each cell at them, shape (n, laws).
    variances
        One row per set of standard deviations, one column per scale.
    inverses
        Inverse covariance matrices, shape (sets, n, n).
    means
        Best intercept of each cell, shape (sets, laws).
    weights
        Posterior probability of each cell, shape (sets, laws).
    drawn_sets, drawn_laws
        Cells drawn with their posterior probability: :data:`DRAWS` in all.
    """

    observations: Observations
    offsets: Floats
    variances: Floats
    inverses: Floats
    means: Floats
    weights: Floats
    drawn_sets: Indices
    drawn_laws: Indices

    def predict(self, groups: Sequence[str], offsets: Floats) -> Mixture:
        """Return the distribution of the mean of a further submission.

        Parameters
        ----------
        groups
            Its group at each level; an unknown group has an effect of its own.
        offsets
            Each law at its configuration, shape (laws,).
        """
        known = self.observations
        shares = np.array([[own == other for other in names] for own, names in zip(groups, known.groups, strict=True)])
        cross = np.einsum("vl,ln->vn", self.variances[:, :-1], shares.reshape(-1, len(known.logs)).astype(float))
        factors = np.einsum("vn,vnm->vm", cross, self.inverses)
        missing = 1 - factors.sum(axis=1)
        precision = self.inverses.sum(axis=(1, 2))
        typical = float(np.median(known.errors)) ** 2
        spread = self.variances.sum(axis=1) - (factors * cross).sum(axis=1) + missing**2 / precision + typical
        sets, laws = self.drawn_sets, self.drawn_laws
        residuals = (known.logs[:, None] - self.offsets).T
        near = (factors[sets] * residuals[laws]).sum(axis=1)
        means = offsets[laws] + near + missing[sets] * self.means[sets, laws]
        return Mixture(means, np.sqrt(np.maximum(spread, 0.0))[sets])


def fit_laws(observations: Observations, offsets: Floats, weights: Floats) -> Posterior:
    """Weigh laws and standard deviations by the points.

    Parameters
    ----------
    observations
        At least one point.
    offsets
        Each law at each point up to a constant [log units], shape (n, laws).
    weights
        Prior weights of the laws, shape (laws,).

    Notes
    -----
    The intercept has a flat prior, so its likelihood is that of restricted maximum likelihood (Patterson and Thompson
    1971): ``-(log det V + log 1'V^-1 1 + r'V^-1 r) / 2``.
    """
    variances = _variance_grid(observations.scales)
    covariances = _covariances(observations, variances)
    inverses = np.linalg.inv(covariances)
    residuals = observations.logs[:, None] - offsets
    sums = inverses.sum(axis=2)
    precision = sums.sum(axis=1)
    means = sums @ residuals / precision[:, None]
    # One matrix product instead of one per set: r'V^-1 r is a sum over pairs of points.
    pairs = (residuals[:, None, :] * residuals[None, :, :]).reshape(-1, len(weights))
    squares = inverses.reshape(len(inverses), -1) @ pairs - precision[:, None] * means**2
    _, determinants = np.linalg.slogdet(covariances)
    scores = np.log(weights)[None, :] - 0.5 * (determinants + np.log(precision))[:, None] - 0.5 * squares
    posterior = np.exp(scores - scores.max())
    posterior /= posterior.sum()
    edges = np.cumsum(posterior.ravel())
    cells = np.minimum(np.searchsorted(edges, STEPS * edges[-1]), posterior.size - 1)
    drawn_sets, drawn_laws = np.unravel_index(cells, posterior.shape)
    return Posterior(observations, offsets, variances, inverses, means, posterior, drawn_sets, drawn_laws)


def interval_of(values: Floats) -> tuple[float, float, float]:
    """Return the lower bound, the median and the upper bound of draws."""
    low, middle, high = np.quantile(values, QUANTILES)
    return float(low), float(middle), float(high)


def generator(stream: int) -> np.random.Generator:
    """Return random numbers that are the same in every call; another ``stream`` is independent."""
    return np.random.default_rng((SEED, stream))


def _variance_grid(scales: Sequence[float]) -> Floats:
    ratios = stats.halfnorm.ppf((np.arange(DEVIATIONS) + 0.5) / DEVIATIONS)
    return np.array(list(product(*((scale * ratios) ** 2 for scale in scales))))


def _covariances(observations: Observations, variances: Floats) -> Floats:
    count = len(observations.logs)
    same = [np.equal.outer(np.array(names), np.array(names)) for names in observations.groups] + [np.eye(count)]
    shared: Floats = np.einsum("vl,lnm->vnm", variances, np.array(same, dtype=float))
    return shared + np.diag(observations.errors**2)
