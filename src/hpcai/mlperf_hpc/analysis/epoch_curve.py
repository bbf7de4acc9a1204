"""Epochs to solution as a curve over the global batch: two laws, weighed by the published submissions."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpcai.mlperf_hpc.analysis.curve_model import Floats, Mixture, Observations, Posterior, fit_laws

SLOPES = np.linspace(0.0, 1.0, 21)
"""Exponents of the power law: with the batch, epochs neither fall nor grow faster than linearly."""
CRITICAL_BATCHES_SAMPLES = 2.0 ** np.arange(3.0, 16.5, 0.5)
ORGANISATION_SCALE, SUBMISSION_SCALE = 0.3, 0.3
"""Priors of the scatter between organisations (which share code and recipe) and between submissions [log units]."""
POWER, CRITICAL = "power law", "critical batch size"


@dataclass(frozen=True)
class EpochCurve:
    """Epochs over batch, from submissions and matching reference runs of one edition of a benchmark."""

    posterior: Posterior

    def predict(self, batch_samples: float, organisation: str) -> Mixture:
        """Return the distribution of the logarithm of the epochs of a submission's mean."""
        return self.posterior.predict([organisation.casefold()], _laws(np.array([batch_samples]))[0])


def fit_epochs(points: pd.DataFrame) -> EpochCurve:
    """Fit epochs(batch) to means of submissions.

    Parameters
    ----------
    points
        Columns ``org``, ``global_batch_samples``, ``epochs``, ``epochs_std``, ``kept``.

    Notes
    -----
    The laws are a power of the batch, and ``epochs = E_min (1 + B / B_crit)``, the consequence of McCandlish et al.
    2018 (arXiv:1812.06162) for the samples that a training has to see. Each has half the prior weight.
    """
    logs = np.log(points["epochs"].to_numpy(dtype=float))
    groups = (tuple(points["org"].astype(str).str.casefold()),)
    observed = Observations(logs, relative_errors(points, "epochs", "epochs_std"), groups,
                            (ORGANISATION_SCALE, SUBMISSION_SCALE))  # fmt: skip
    laws = _laws(points["global_batch_samples"].to_numpy(dtype=float))
    counts = (len(SLOPES), len(CRITICAL_BATCHES_SAMPLES))
    weights = np.repeat([0.5 / count for count in counts], counts)
    return EpochCurve(fit_laws(observed, laws, weights))


def relative_errors(points: pd.DataFrame, value: str, deviation: str) -> Floats:
    """Return the relative standard error of each mean; with only one kept run, the largest of the others."""
    errors = points[deviation] / points[value] / np.sqrt(points["kept"].astype(float))
    filled: Floats = errors.fillna(errors.max()).fillna(0.0).to_numpy(dtype=float)
    return filled


def _laws(batches: Floats) -> Floats:
    """Return the logarithm of each law at each batch, up to a constant; shape (batches, laws)."""
    powers = np.log(batches)[:, None] * SLOPES[None, :]
    return np.hstack([powers, np.log1p(batches[:, None] / CRITICAL_BATCHES_SAMPLES[None, :])])
