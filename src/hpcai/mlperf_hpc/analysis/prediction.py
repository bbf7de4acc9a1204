"""Time to solution of configurations without a run: epochs(batch) x epoch time(units), joined as the paper proposes."""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import pandas as pd

from hpcai.core.messages import Message
from hpcai.core.text import say_share
from hpcai.mlperf_hpc.analysis.curve_model import Floats, Mixture, generator, interval_of
from hpcai.mlperf_hpc.analysis.epoch_curve import EpochCurve, fit_epochs
from hpcai.mlperf_hpc.analysis.prediction_points import STAGED_S, PointSet
from hpcai.mlperf_hpc.analysis.throughput_curve import StagingCurve, fit_epoch_time, fit_staging

NOT_LOGGED = Message(
    "prediction.not_logged", "staging not logged in {group}: it is part of the extra time, which is as there"
)
STAGE_ON_CLOCK = Message("prediction.stage_on_clock", "{share} of the submissions {logged}stage on the clock")
BEFORE_CLOCK = Message("prediction.before_clock", "{submissions} before the clock, which does not count in the time")
SOME_NOT_LOGGED = Message("prediction.some_not_logged", "{submissions} not logged, which is part of their extra time")
BATCH_OUTSIDE = Message("prediction.batch_outside", "batch outside {least:.0f} to {most:.0f}")
UNITS_OUTSIDE = Message("prediction.units_outside", "units outside the family's {least:.0f} to {most:.0f}")
TOO_FEW_POINTS = Message(
    "prediction.too_few_points", "submissions with a time: {points}, a prediction needs at least {needed}"
)
HYBRID = Message(
    "prediction.hybrid",
    "{parts:g} units share each sample (model parallelism), as in {submissions} submissions of the family",
)

FURTHEST_RATIO = 4.0
"""Largest factor outside the published batches or units that is still predicted."""
FEWEST_POINTS = 2
"""Fewest submissions for a prediction: a single one gives no estimate of the scatter."""


@dataclass(frozen=True)
class Interval:
    """Median and bounds of an interval with probability :data:`curve_model.LEVEL_RATIO`."""

    low: float
    middle: float
    high: float


NOT_KNOWN = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Configuration:
    """A configuration to predict: an organisation's machine of a family, with a number of units and a global batch."""

    organisation: str
    family: str
    units: int
    batch_samples: int


@dataclass(frozen=True)
class Prediction:
    """Prediction of the mean over a submission's kept runs, as it would be published.

    Attributes
    ----------
    run_s, compute_s, staging_s, extra_s
        Time to solution and its parts [s]. The parts are medians and do not add up to the median of the whole.
        Staging counts on the clock only; NaN where no similar submission logs it, and then part of the extra time.
    epochs, epoch_s
        Values of the two curves; epoch time in seconds.
    extrapolated
        How the configuration lies outside the published points, in words; blank inside them.
    basis
        Basis of the prediction, in words.
    reason
        Why there is no prediction; blank if there is one.
    """

    configuration: Configuration
    run_s: Interval
    compute_s: Interval
    staging_s: Interval
    extra_s: Interval
    epochs: Interval
    epoch_s: Interval
    extrapolated: str
    basis: str
    reason: str


class EpochTimeLaw(Protocol):
    """Model of the epoch time: the curve of an edition, or a forecast for a later round.

    ``unseen`` describes the level of a family without a submission.
    """

    unseen: ClassVar[str]

    def predict(self, units: float, batch_samples: float, family: str, machine: str) -> Mixture:
        """Return the distribution of the logarithm of the mean epoch time [s]."""
        ...


@dataclass(frozen=True)
class JoinedCurves:
    """All curves of one edition of a benchmark. ``staging`` is None where no submission stages on the clock."""

    points: PointSet
    epochs: EpochCurve
    epoch_time: EpochTimeLaw
    staging: StagingCurve | None

    def predict(self, wanted: Configuration) -> Prediction:
        """Predict one configuration, or give the reason for refusing.

        Notes
        -----
        Time to solution = staging on the clock + epochs x epoch time + extra (the paper's eq. 1). Epochs and epoch time
        are taken as independent. Whether the machine stages, and its ratio of extra to compute time, come from a
        submission drawn from the smallest group that has any: the machine, its family, or all. If that submission does
        not log its staging, nothing is added for staging, because its extra time includes it.
        """
        reason = why_refused(self.points.usable, wanted)
        if reason:
            return refuse(wanted, reason)
        epochs: Floats = np.exp(self.epochs.predict(wanted.batch_samples, wanted.organisation).draw(1))
        machine = self.points.machine_of(wanted.organisation, wanted.family)
        curve = self.epoch_time.predict(wanted.units, wanted.batch_samples, wanted.family, machine)
        epoch_s: Floats = np.exp(curve.draw(2))
        near, group = _nearest_group(self.points, wanted)
        compute_s = epochs * epoch_s
        drawn = near.iloc[generator(5).permutation(np.resize(np.arange(len(near)), len(epochs)))]
        staging_s = self._draw_staging(drawn, wanted.units, machine)
        extra_s = compute_s * (drawn["rest_s"] / drawn["compute_s"].astype(float)).to_numpy(dtype=float)
        whole = np.nan_to_num(staging_s) + compute_s + extra_s
        return Prediction(
            configuration=wanted,
            run_s=Interval(*interval_of(whole)),
            compute_s=Interval(*interval_of(compute_s)),
            staging_s=_known_interval(staging_s),
            extra_s=Interval(*interval_of(extra_s)),
            epochs=Interval(*interval_of(epochs)),
            epoch_s=Interval(*interval_of(epoch_s)),
            extrapolated=_say_extrapolated(self.points, wanted, self.epoch_time.unseen),
            basis=_say_basis(self.points, wanted, _say_staging(near, group)),
            reason="",
        )

    def _draw_staging(self, drawn: pd.DataFrame, units: int, machine: str) -> Floats:
        """Return a staging time for each drawn submission that stages, 0 for others, and NaN where it is unknown."""
        known: Floats = drawn["staging_in_run_s"].to_numpy(dtype=float)
        if self.staging is None:
            return known
        times: Floats = np.exp(self.staging.predict(units, machine).draw(3))
        return np.where(known > 0, times, known)


def join_curves(points: PointSet) -> JoinedCurves:
    """Fit all curves of an edition that has at least one usable submission."""
    usable = points.usable
    staged = usable[usable["staging_in_run_s"] > 0]
    both = usable if points.references.empty else pd.concat([usable, points.references], ignore_index=True)
    return JoinedCurves(points, fit_epochs(both), fit_epoch_time(usable), fit_staging(staged) if len(staged) else None)


def refuse(wanted: Configuration, reason: str) -> Prediction:
    """Return a refused prediction with its reason."""
    unknown = NOT_KNOWN
    return Prediction(wanted, unknown, unknown, unknown, unknown, unknown, unknown, "", "", reason)


def why_refused(usable: pd.DataFrame, wanted: Configuration) -> str:
    """Return why these submissions cannot predict a configuration; blank if they can.

    Several units per sample (model parallelism) are predicted only for families that ran this way.
    """
    if len(usable) < FEWEST_POINTS:
        return TOO_FEW_POINTS(points=len(usable), needed=FEWEST_POINTS)
    batches, units = usable["global_batch_samples"], usable["units"]
    for name, value, known in (("batch", wanted.batch_samples, batches), ("units", wanted.units, units)):
        if not _within(value, known, FURTHEST_RATIO):
            return (
                f"{name} {value} lies more than a factor of {FURTHEST_RATIO:g} outside the submissions' "
                f"{known.min():.0f} to {known.max():.0f}"
            )
    sharing = wanted.units / wanted.batch_samples
    own = usable[usable["family"] == wanted.family]
    most = float((own["units"] / own["global_batch_samples"]).max()) if len(own) else 0.0
    if sharing > 1 and (most <= 1 or sharing > FURTHEST_RATIO * most):
        return (
            f"{wanted.units} units share a batch of {wanted.batch_samples} samples: no submission of {wanted.family} "
            "tells how such a model parallelism scales"
        )
    return ""


def _within(value: float, known: pd.Series, ratio: float) -> bool:
    return bool(known.min() / ratio <= value <= known.max() * ratio)


def _known_interval(draws: Floats) -> Interval:
    known: Floats = draws[np.isfinite(draws)]
    return Interval(*interval_of(known)) if len(known) else NOT_KNOWN


def _say_staging(near: pd.DataFrame, group: str) -> str:
    """Describe the basis of staging and extra time: the group's submissions, and what they log."""
    logged = near[near["staging_in_run_s"].notna()]
    if logged.empty:
        return NOT_LOGGED(group=group)
    share = say_share(float((logged["staging_in_run_s"] > 0).mean()))
    missing = len(near) - len(logged)
    before = int(((logged["staging_in_run_s"] == 0) & (logged["staging_s"].astype(float) >= STAGED_S)).sum())
    words = [STAGE_ON_CLOCK(share=share, logged="that log it " if missing else "")]
    words += [BEFORE_CLOCK(submissions=before)] if before else []
    words += [SOME_NOT_LOGGED(submissions=missing)] if missing else []
    return f"staging ({'; '.join(words)}) and extra time as in {group}"


def _nearest_group(points: PointSet, wanted: Configuration) -> tuple[pd.DataFrame, str]:
    """Return the submissions of the machine, else of the family, else all, with the group's name."""
    usable = points.usable
    choices = (
        ("machine", points.machine_of(wanted.organisation, wanted.family), f"{wanted.organisation} {wanted.family}"),
        ("family", wanted.family, wanted.family),
    )
    for column, value, name in choices:
        own = usable[usable[column] == value]
        if len(own):
            return own, name
    return usable, "all submissions"


def _say_extrapolated(points: PointSet, wanted: Configuration, unseen: str) -> str:
    batches = points.batches_samples
    own = points.usable.loc[points.usable["family"] == wanted.family, "units"]
    parts: list[str] = []
    if not _within(wanted.batch_samples, batches, 1.0):
        parts.append(BATCH_OUTSIDE(least=batches.min(), most=batches.max()))
    if not len(own):
        parts.append(f"no submission of {wanted.family}: its level is that of {unseen}")
    elif not _within(wanted.units, own, 1.0):
        parts.append(UNITS_OUTSIDE(least=own.min(), most=own.max()))
    return "; ".join(parts)


def _say_basis(points: PointSet, wanted: Configuration, staging: str) -> str:
    usable = points.usable
    own, machine = (usable[usable[name] == value] for name, value in
                    (("family", wanted.family),
                     ("machine", points.machine_of(wanted.organisation, wanted.family))))  # fmt: skip
    scales = own["units"].nunique()
    slope = "its own scales and those of all families" if scales > 1 else "the other families' parallel efficiency"
    references = f" and {len(points.references)} reference points" if len(points.references) else ""
    hybrid = ""
    if wanted.units > wanted.batch_samples:
        alike = int((own["units"] > own["global_batch_samples"]).sum())
        hybrid = HYBRID(parts=wanted.units / wanted.batch_samples, submissions=alike) + "; "
    return (
        f"epochs: {len(usable)} submissions{references} of all machines, {points.edition}; "
        f"epoch time: {len(own)} submissions of {wanted.family} ({len(machine)} of {wanted.organisation}), "
        f"over units by {slope}; {hybrid}{staging}"
    )
