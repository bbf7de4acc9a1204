"""Epochs over the global batch, from published rounds, for a study's benchmarks."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpcai.core.messages import Message
from hpcai.mlperf_hpc.analysis.editions import BY_STEPS
from hpcai.mlperf_hpc.analysis.epoch_curve import EpochCurve, fit_epochs
from hpcai.mlperf_hpc.analysis.prediction_points import PointSet, point_sets
from hpcai.mlperf_hpc.benchmarks import OWN

PUBLISHED = "published"
FEWEST_SUBMISSIONS = 3
"""A line through two points has no scatter."""
STREAM = 0
"""The same random numbers at every batch, so that a ratio of medians is that of the curve."""
ROUNDS = Message("published_epochs.rounds", "published rounds of {benchmark} ({edition}, {submissions} submissions)")


@dataclass(frozen=True)
class PublishedEpochs:
    """The curve of one edition of a benchmark.

    Attributes
    ----------
    curve
        Epochs over batch.
    smallest_samples, largest_samples
        Range of global batches used for the fit.
    words
        Benchmark, edition and number of submissions.
    """

    curve: EpochCurve
    smallest_samples: float
    largest_samples: float
    words: str

    def change_ratio(self, measured_samples: int, wanted_samples: int) -> float:
        """Return the ratio of epochs at two global batches, from the curve's medians."""
        wanted, measured = (
            float(np.median(self.curve.predict(float(batch), "").draw(STREAM)))
            for batch in (wanted_samples, measured_samples)
        )
        return float(np.exp(wanted - measured))

    def describe(self, measured_samples: int, wanted_samples: int) -> str:
        """Describe the basis of the curve, and whether a batch is outside its range."""
        inside = all(self.smallest_samples <= one <= self.largest_samples for one in (measured_samples, wanted_samples))
        reach = f"batches of {self.smallest_samples:g} to {self.largest_samples:g} samples"
        return f"{self.words}, {reach}{'' if inside else ', extrapolated'}"


def fit_published_epochs(
    results: pd.DataFrame, systems: pd.DataFrame, references: pd.DataFrame, scales: pd.DataFrame
) -> dict[str, PublishedEpochs]:
    """Fit epochs over batch to published rounds, for benchmarks with enough submissions.

    Parameters
    ----------
    results, systems
        Tables ``mlperf_results`` and ``mlperf_systems``; a study's own rows are ignored.
    references
        Reference convergence points (`hpcai.mlperf_hpc.analysis.reference_epochs.read_reference_epochs`).
    scales
        Table of scales of the study, which determines the workloads.

    Returns
    -------
    dict of str to PublishedEpochs
        By benchmark of the study: the edition with the most usable submissions, excluding those that evaluate by steps,
        because no own workload does.
    """
    published = results[results["method"] == PUBLISHED]
    largest: dict[str, PointSet] = {}
    for points in point_sets(published, systems, references) if len(published) else ():
        best = largest.get(points.benchmark)
        if points.edition.endswith(BY_STEPS):
            continue
        if len(points.usable) >= max(FEWEST_SUBMISSIONS, 0 if best is None else len(best.usable) + 1):
            largest[points.benchmark] = points
    fitted = {name: _fit(points) for name, points in largest.items()}
    workloads = dict(zip(scales["benchmark"].astype(str), scales["workload"].astype(str), strict=True))
    named = {own: OWN[workload].name if workload in OWN else "" for own, workload in workloads.items()}
    return {own: fitted[name] for own, name in named.items() if name in fitted}


def _fit(points: PointSet) -> PublishedEpochs:
    usable = points.usable
    parts = [usable] if points.references.empty else [usable, points.references]
    batches = points.batches_samples
    words = ROUNDS(benchmark=points.benchmark, edition=points.edition, submissions=len(usable))
    return PublishedEpochs(
        fit_epochs(pd.concat(parts, ignore_index=True)), float(batches.min()), float(batches.max()), words
    )
