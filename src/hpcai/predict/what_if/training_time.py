"""Time to train at a predicted step, from the measured parts of the trainings at the starting point."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.predict.what_if.published_epochs import PublishedEpochs

CONVERGED = "converged"


@dataclass(frozen=True)
class TrainingParts:
    """Mean parts of the timed runs of a scale that reached their target.

    Attributes
    ----------
    staging_s
        Staging on the clock; 0 if the clock starts after it.
    training_epoch_s, evaluation_epoch_s
        Steps and evaluations of one epoch.
    rest_s
        Remaining time on the clock.
    epochs
        Epochs trained until the clock stopped.
    n
        Number of runs.
    """

    staging_s: float
    training_epoch_s: float
    evaluation_epoch_s: float
    rest_s: float
    epochs: float
    n: int

    def time_to_train_s(self, epochs: float, slower_ratio: float) -> float:
        """Return the time to train with a number of epochs, with the steps of an epoch slower by a factor."""
        return self.staging_s + epochs * (self.training_epoch_s * slower_ratio + self.evaluation_epoch_s) + self.rest_s


@dataclass(frozen=True)
class Epochs:
    """Epochs that a training needs.

    Attributes
    ----------
    number
        NaN if unknown.
    basis
        Origin of the number, or why there is none.
    """

    number: float
    basis: str


def measure_parts(runs: pd.DataFrame, point: Mapping[Any, Any]) -> TrainingParts | None:
    """Return the parts of a scale's trainings; None if none reached its target.

    Parameters
    ----------
    runs
        Table ``runs``.
    point
        Row of the runs' scale.
    """
    own = (runs[POINT] == [point[name] for name in POINT]).all(axis=1)
    good = runs[own & (runs["outcome"] == CONVERGED) & (runs["time_to_train_s"] > 0) & (runs["epochs"] > 0)]
    if good.empty:
        return None
    staging_s = good["staging_s"].astype(float).fillna(0.0).where(good["time_staging"].astype(bool), 0.0)
    training_s, evaluation_s = (good[name].astype(float) for name in ("training_s", "evaluation_s"))
    epochs = good["epochs"].astype(float)
    rest_s = good["time_to_train_s"].astype(float) - staging_s - training_s - evaluation_s
    return TrainingParts(
        staging_s=float(staging_s.mean()),
        training_epoch_s=float(training_s.sum() / epochs.sum()),
        evaluation_epoch_s=float(evaluation_s.sum() / epochs.sum()),
        rest_s=float(rest_s.mean()),
        epochs=float(epochs.mean()),
        n=len(good),
    )


def epochs_at(
    parts: TrainingParts, batches: tuple[int, int], benchmark: str, curves: Mapping[str, PublishedEpochs]
) -> Epochs:
    """Return the epochs at another global batch.

    Parameters
    ----------
    parts
        Parts of the trainings at the starting point.
    batches
        Global batch of these trainings, and the requested one.
    benchmark
        Benchmark of the curve.
    curves
        Epochs over batch by benchmark, from published rounds: only their relative change is used.
    """
    measured, wanted = batches
    if measured == wanted:
        return Epochs(parts.epochs, f"mean of {parts.n} measured trainings with the same global batch")
    if benchmark not in curves:
        return Epochs(
            math.nan,
            f"epochs with a global batch of {wanted} samples are not known: {measured} samples were measured, and no "
            "curve of published rounds is configured",
        )
    change = curves[benchmark].change_ratio(measured, wanted)
    return Epochs(
        parts.epochs * change,
        f"mean of {parts.n} measured trainings with {measured} samples, times {change:.3g}: the change to {wanted} "
        f"samples in {curves[benchmark].describe(measured, wanted)}",
    )
