"""Epoch time as a curve over the compute units, with one level per family of accelerators and per machine."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
from scipy import stats

from hpcai.mlperf_hpc.analysis.curve_model import Floats, Mixture, Observations, Posterior, fit_laws
from hpcai.mlperf_hpc.analysis.epoch_curve import relative_errors

EXPONENTS = np.arange(0.2, 1.61, 0.05)
"""Exponents of the power law: an epoch on n units takes ``n ** -exponent`` as long; 1 is ideal, caches may add."""
EXPONENT_CENTRE, EXPONENT_DEVIATION = 1.0, 0.25
"""Prior of the exponents: the assumed parallel efficiency before any points."""
SATURATIONS = 2.0 ** np.arange(4.0, 20.0)
"""Units from which the constant part of an epoch dominates."""
UNDIVIDED_RATIOS = np.linspace(0.0, 1.0, 11)
"""Part of the time per sample that does not shrink when several units share it (model parallelism): halo exchanges,
which are bound by latency, and layers that each unit computes in full. 0 is ideal; at 1 sharing gains nothing."""
STAGING_EXPONENTS = np.linspace(0.0, 1.0, 11)
FAMILY_SCALE, MACHINE_SCALE, SUBMISSION_SCALE = 1.0, 0.5, 0.3
"""Priors of the scatter between families, machines of a family, and submissions of a machine [log units]."""
STAGING_MACHINE_SCALE, STAGING_SUBMISSION_SCALE = 1.0, 0.7


@dataclass(frozen=True)
class EpochTimeCurve:
    """Epoch time over units for all families of one edition of a benchmark: common laws, own levels."""

    unseen: ClassVar[str] = "any family"
    posterior: Posterior
    shared: bool

    def predict(self, units: float, batch_samples: float, family: str, machine: str) -> Mixture:
        """Return the distribution of the logarithm of the mean epoch time [s]."""
        laws = _laws(np.array([units]), np.array([batch_samples]), shared=self.shared)[0]
        return self.posterior.predict([family, machine], laws)


@dataclass(frozen=True)
class StagingCurve:
    """Staging time on the clock over units, from the submissions with staging on the clock."""

    posterior: Posterior

    def predict(self, units: float, machine: str) -> Mixture:
        """Return the distribution of the logarithm of the mean staging time on the clock [s]."""
        return self.posterior.predict([machine], -np.log(units) * STAGING_EXPONENTS)


def fit_epoch_time(points: pd.DataFrame) -> EpochTimeCurve:
    """Fit the epoch time to means of submissions.

    Parameters
    ----------
    points
        Columns ``family``, ``machine``, ``units``, ``global_batch_samples``, ``epoch_s``, ``epoch_std_s``, ``kept``.

    Notes
    -----
    With d the units that work on separate samples, d = min(units, batch), the laws are ``a d^-p`` and
    ``a (1 / d + 1 / D)`` (Amdahl: a constant part), each with half the prior weight, times
    ``(1 - u) / k + u`` with k = units / d units sharing a sample and u of :data:`UNDIVIDED_RATIOS`: the divided
    and the undivided part. More than one sample per unit has no effect of its own; its influence is part of the
    scatter.
    """
    units, batches = (points[name].to_numpy(dtype=float) for name in ("units", "global_batch_samples"))
    shared = bool((units > batches).any())
    observed = Observations(
        np.log(points["epoch_s"].to_numpy(dtype=float)),
        relative_errors(points, "epoch_s", "epoch_std_s"),
        (tuple(points["family"].astype(str)), tuple(points["machine"].astype(str))),
        (FAMILY_SCALE, MACHINE_SCALE, SUBMISSION_SCALE),
    )
    powers = stats.norm.pdf(EXPONENTS, EXPONENT_CENTRE, EXPONENT_DEVIATION)
    constants = np.full(len(SATURATIONS), 1 / len(SATURATIONS))
    weights = np.concatenate([0.5 * powers / powers.sum(), 0.5 * constants])
    weights = np.repeat(weights / len(UNDIVIDED_RATIOS), len(UNDIVIDED_RATIOS)) if shared else weights
    return EpochTimeCurve(fit_laws(observed, _laws(units, batches, shared=shared), weights), shared)


def fit_staging(points: pd.DataFrame) -> StagingCurve:
    """Fit the staging time on the clock to means of the submissions with staging on the clock.

    Parameters
    ----------
    points
        Columns ``machine``, ``units``, ``staging_in_run_s``, ``staging_s``, ``staging_std_s``, ``kept``.

    Notes
    -----
    The relative run-to-run error is that of the whole staging. The law is a power of the units between constant (every
    unit reads everything) and ideal (each reads its share).
    """
    logs = np.log(points["staging_in_run_s"].to_numpy(dtype=float))
    observed = Observations(logs, relative_errors(points, "staging_s", "staging_std_s"),
                            (tuple(points["machine"].astype(str)),),
                            (STAGING_MACHINE_SCALE, STAGING_SUBMISSION_SCALE))  # fmt: skip
    laws = -np.log(points["units"].to_numpy(dtype=float))[:, None] * STAGING_EXPONENTS[None, :]
    return StagingCurve(fit_laws(observed, laws, np.full(len(STAGING_EXPONENTS), 1 / len(STAGING_EXPONENTS))))


def _laws(units: Floats, batches: Floats, *, shared: bool) -> Floats:
    """Return the logarithm of each law at each configuration, up to a constant; shape (configurations, laws)."""
    workers = np.minimum(units, batches)
    powers = -np.log(workers)[:, None] * EXPONENTS[None, :]
    constants = np.log(1 / workers[:, None] + 1 / SATURATIONS[None, :])
    laws = np.hstack([powers, constants])
    if not shared:
        return laws
    undivided = UNDIVIDED_RATIOS[None, :]
    gains = np.log((1 - undivided) * (workers / units)[:, None] + undivided)
    both: Floats = (laws[:, :, None] + gains[:, None, :]).reshape(len(units), -1)
    return both
