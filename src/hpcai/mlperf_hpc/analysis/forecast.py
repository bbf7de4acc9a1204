"""Forecast a later round from earlier ones: time to solution of a known machine or of a new accelerator."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message
from hpcai.mlperf_hpc.analysis.accelerators import RATES, read_accelerators
from hpcai.mlperf_hpc.analysis.curve_model import Mixture
from hpcai.mlperf_hpc.analysis.editions import BY_STEPS
from hpcai.mlperf_hpc.analysis.epoch_curve import fit_epochs, relative_errors
from hpcai.mlperf_hpc.analysis.prediction import Configuration, JoinedCurves, Prediction, refuse, why_refused
from hpcai.mlperf_hpc.analysis.prediction_points import PointSet
from hpcai.mlperf_hpc.analysis.publication import PUBLISHED
from hpcai.mlperf_hpc.analysis.reference_epochs import read_reference_epochs
from hpcai.mlperf_hpc.analysis.round_model import Choice, Histories, fit_histories, weigh_priors
from hpcai.mlperf_hpc.analysis.throughput_curve import fit_staging
from hpcai.mlperf_hpc.benchmarks import BENCHMARKS

RULE_SETS = {"v1.0": "1.0.0", "v2.0": "2.0.0", "v3.0": "3.0.0"}
"""Rules of a round whose reference points are known before the next round."""
STAGING_OPTIONAL = PUBLISHED["v3.0"]
"""From v3.0 on, the rules do not require staging on the clock (benchmarks.md 8)."""
BASE_FAMILY = "A100"
"""Reference for rates; the choice only shifts the level."""

UNKNOWN_ROUND = Message(
    "forecast.unknown_round",
    "--round: found {found!r}, expected one of {known}, or the month of a later round as YYYY-MM",
)
NO_DATE = Message("forecast.no_date", "round {found!r}: it is not known when it was published, expected one of {known}")
NO_EARLIER = Message(
    "forecast.no_earlier",
    "{benchmark}: no source before {target} has a submission with a time, so the needs of a family are unknown; found "
    "submissions of {found}",
)
BASIS = Message(
    "forecast.basis",
    "epochs: {points} earlier submissions and {references} reference points, {edition}; epoch time: {rows} submissions "
    "of all benchmarks before {target}, {own} of them of {family}; software ages as earlier rounds weigh "
    "it, most by the law '{law}', prior "
    "{rate:g} ± {deviation:g}",
)


@dataclass(frozen=True)
class Target:
    """The requested round: its name, and year and month of its publication."""

    name: str
    published: tuple[int, int]

    @property
    def years(self) -> float:
        """Years since the first round."""
        return years_since_first(self.published)


def read_target(text: str) -> Target:
    """Return a round from its name, or a later one from its month of publication.

    Raises
    ------
    ConfigError
        If the text is neither.
    """
    if text in PUBLISHED:
        return Target(text, PUBLISHED[text])
    match = re.fullmatch(r"(20\d\d)-(0[1-9]|1[0-2])", text)
    published = (int(match[1]), int(match[2])) if match else (0, 0)
    if published <= PUBLISHED["v0.7"]:
        raise ConfigError(UNKNOWN_ROUND(found=text, known=", ".join(PUBLISHED)))
    return Target(text, published)


def years_since_first(published: tuple[int, int]) -> float:
    """Return the years since the first round, v0.7."""
    first = PUBLISHED["v0.7"]
    return (published[0] - first[0]) + (published[1] - first[1]) / 12


def published_of(origin: str) -> tuple[int, int]:
    """Return the publication date of a round.

    Raises
    ------
    ConfigError
        If the date is unknown.
    """
    if origin not in PUBLISHED:
        raise ConfigError(NO_DATE(found=origin, known=", ".join(PUBLISHED)))
    return PUBLISHED[origin]


def references_before(target: Target) -> pd.DataFrame:
    """Return the reference points of the last rules before a round; no rows before the first ones."""
    known = [rules for name, rules in RULE_SETS.items() if PUBLISHED[name] < target.published]
    return read_reference_epochs(known[-1]) if known else read_reference_epochs().iloc[:0]


@dataclass(frozen=True)
class EpochTimeForecast:
    """Epoch time of one edition in a later round."""

    unseen: ClassVar[str] = "its published rates and its submissions of other benchmarks"
    histories: Histories
    benchmark: str
    edition: str
    samples: float
    first_years: float
    target: Target

    def predict(self, units: float, batch_samples: float, family: str, machine: str) -> Mixture:
        """Return the distribution of the logarithm of the mean epoch time [s]."""
        new = pd.DataFrame(
            {
                "benchmark": [self.benchmark], "edition": [self.edition], "family": [family], "machine": [machine],
                "round": [self.target.name], "row": ["new"], "years": [self.target.years],
                "units": [units], "global_batch_samples": [batch_samples],
            }
        )  # fmt: skip
        mixture = self.histories.predict(_with_regressors(new, {self.benchmark: self.first_years}))
        return replace(mixture, means=mixture.means + np.log(_work_samples(self.benchmark, self.samples)))


@dataclass(frozen=True)
class Forecast:
    """Basis for the times of one benchmark in a later round.

    Attributes
    ----------
    points
        Earlier submissions of the requested edition.
    rows, choice
        Basis of the epoch time, and the ageing of the software (:func:`round_model.weigh_priors`).
    """

    points: PointSet
    curves: JoinedCurves
    rows: pd.DataFrame
    choice: Choice
    target: Target

    def predict(self, wanted: Configuration) -> Prediction:
        """Predict one configuration in the later round, or give the reason for refusing.

        The points decide, because those of the curves may hold each submission twice (:func:`_join`).
        """
        reason = why_refused(self.points.usable, wanted)
        found = refuse(wanted, reason) if reason else self.curves.predict(wanted)
        return found if found.reason else replace(found, basis=self._say_basis(wanted.family))

    def _say_basis(self, family: str) -> str:
        rows, prior = self.rows, self.choice.best
        return BASIS(
            points=len(self.points.usable), references=len(self.points.references), edition=self.points.edition,
            rows=len(rows), target=self.target.name, own=int((rows["family"] == family).sum()), family=family,
            law=prior.law, rate=prior.rate, deviation=prior.deviation,
        )  # fmt: skip


@dataclass(frozen=True)
class Past:
    """All earlier rounds as one model, from which benchmarks are forecast one by one.

    Attributes
    ----------
    sets
        Editions, restricted to submissions before the target; editions without any are left out.
    rows
        :func:`history_rows` of all sets.
    """

    sets: Sequence[PointSet]
    rows: pd.DataFrame
    target: Target
    choice: Choice
    histories: Histories

    def forecast(self, benchmark: str, edition: str | None = None) -> Forecast:
        """Return the forecast of one benchmark; defaults to its newest edition.

        Raises
        ------
        ConfigError
            If no earlier round has a submission of the benchmark.
        """
        own = [one for one in self.sets if one.benchmark == benchmark and edition in (None, one.edition)]
        if not own:
            found = ", ".join(sorted({one.benchmark for one in self.sets})) or "no benchmark"
            raise ConfigError(NO_EARLIER(benchmark=benchmark, target=self.target.name, found=found))
        points = max(own, key=_newness)
        first_years = float(self.rows.loc[self.rows["benchmark"] == benchmark, "years"].min())
        samples = float(points.usable["train_samples"].astype(float).max())
        law = EpochTimeForecast(self.histories, benchmark, points.edition, samples, first_years, self.target)
        return Forecast(points, _join(points, law, self.target), self.rows, self.choice, self.target)


def look_back(sets: Iterable[PointSet], target: Target) -> Past:
    """Fit a model to all submissions before a round; later ones are ignored.

    Parameters
    ----------
    sets
        :func:`prediction_points.point_sets` of all rounds, joined, with the references of :func:`references_before`.
    target
        The round.

    Raises
    ------
    ConfigError
        If no submission is earlier, or the publication date of a round is unknown.
    """
    earlier = [one for one in (_before(points, target) for points in sets) if len(one.usable)]
    if not earlier:
        raise ConfigError(NO_EARLIER(benchmark="all benchmarks", target=target.name, found="no benchmark"))
    rows = history_rows(earlier)
    choice = weigh_priors(rows)
    return Past(earlier, rows, target, choice, fit_histories(rows, choice))


def history_rows(sets: Iterable[PointSet]) -> pd.DataFrame:
    """Return the input of :mod:`hpcai.mlperf_hpc.analysis.round_model`: one row per usable submission.

    Returns
    -------
    pandas.DataFrame
        Groups ``benchmark``, ``edition``, ``family``, ``machine``, ``round``, ``row``; the logarithm ``log_s`` of the
        time per sample [s], scaled to the work of the newest edition, and its ``error`` from run to run; regressors
        ``linear`` and ``fading`` (years since the first round; doublings of the years since the benchmark's first),
        ``log_workers``, ``log_sharing``, the published rates relative to :data:`BASE_FAMILY`, and ``unknown`` where
        these are not declared.
    """
    parts = [points.usable.assign(edition=points.edition, benchmark=points.benchmark) for points in sets]
    found = pd.concat(parts, ignore_index=True)
    samples = found["train_samples"].astype(float)
    work = [_work_samples(name, count) for name, count in zip(found["benchmark"], samples, strict=True)]
    origins = found["origin"].astype(str)
    rows = found[["benchmark", "edition", "family", "machine", "units", "global_batch_samples"]].assign(
        round=origins,
        row=[str(place) for place in range(len(found))],
        years=[years_since_first(published_of(name)) for name in origins],
        log_s=np.log(found["epoch_s"].astype(float) / work),
        error=relative_errors(found, "epoch_s", "epoch_std_s"),
    )
    first = {str(name): float(years) for name, years in rows.groupby("benchmark")["years"].min().items()}
    return _with_regressors(rows, first)


def _with_regressors(rows: pd.DataFrame, first_years: Mapping[str, float]) -> pd.DataFrame:
    units, batches = rows["units"].astype(float), rows["global_batch_samples"].astype(float)
    workers = np.minimum(units, batches)
    accelerators = read_accelerators()
    base = np.log(accelerators[BASE_FAMILY].rates)
    logs = [np.log(accelerators[name].rates) - base if name in accelerators else np.zeros(len(RATES))
            for name in rows["family"]]  # fmt: skip
    age = rows["years"] - rows["benchmark"].map(first_years)
    return rows.assign(
        linear=rows["years"],
        fading=np.log2(1 + np.maximum(age, 0.0)),
        log_workers=np.log(workers),
        log_sharing=np.log(units / workers),
        unknown=[float(name not in accelerators) for name in rows["family"]],
        **dict(zip(RATES, np.array(logs).T, strict=True)),
    )


def _work_samples(benchmark: str, samples: float) -> float:
    """Return how many samples of the newest edition are as much work as an epoch of so many samples."""
    facts = BENCHMARKS.get(benchmark)
    return samples * (facts.first_round_work_ratio if facts and samples in facts.first_round_datasets else 1.0)


def _before(points: PointSet, target: Target) -> PointSet:
    dates = [published_of(name) for name in points.submissions["origin"].astype(str)]
    return replace(points, submissions=points.submissions[[date < target.published for date in dates]])


def _newness(points: PointSet) -> tuple[bool, tuple[int, int], int]:
    newest = max(published_of(name) for name in points.usable["origin"].astype(str))
    return not points.edition.endswith(BY_STEPS), newest, len(points.usable)


def _join(points: PointSet, law: EpochTimeForecast, target: Target) -> JoinedCurves:
    """Join the forecast of epoch times with the edition's epochs and staging.

    Where the rules make staging on the clock optional, each submission appears twice, so that half of the draws have
    none.
    """
    usable = points.usable
    staged = usable[usable["staging_in_run_s"] > 0]
    both = usable if points.references.empty else pd.concat([usable, points.references], ignore_index=True)
    if target.published >= STAGING_OPTIONAL:
        without = usable.assign(staging_in_run_s=usable["staging_in_run_s"].where(usable["staging_in_run_s"].isna(), 0))
        points = replace(points, submissions=pd.concat([usable, without], ignore_index=True))
    return JoinedCurves(points, fit_epochs(both), law, fit_staging(staged) if len(staged) else None)
