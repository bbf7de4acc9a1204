"""Select and combine the runs behind the row of a scale: one set of runs for all numbers of a row.

If a scale has as many runs as its suite's rules require, the highest and the lowest are dropped and the others
averaged. With fewer runs, the row is the median of all runs that completed training. With more runs, all count, or the
window of so many consecutive ones that the rules name (:mod:`hpcai.metrics.scores.window`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.core.messages import Message
from hpcai.metrics.scores.validity import NO_RESULT, RunCounts, join_reasons, no_result, too_few
from hpcai.metrics.scores.vflops import compute_vflops
from hpcai.metrics.scores.window import find_window
from hpcai.metrics.statistics.summaries import Sample, Statistic
from hpcai.rules.table import ResultRules, rules_of

SOME_REACHED = Message("trials.some_reached", "{reached} of {n} {word}s reached the target")
COMPLETE = ("converged", "not_converged")
"""Outcomes whose rates and shares count: training completed all of its work."""
HIGHEST, LOWEST, OUTSIDE = "highest", "lowest", "outside"
"""Marks of the runs that a row excludes (column ``dropped``); the others have none."""


@dataclass(frozen=True)
class Trials:
    """The runs behind the row of a scale.

    Attributes
    ----------
    kept
        Rows of the table of runs, or of their scores.
    statistic
        How the runs are combined: an olympic mean if extremes were dropped, otherwise the median.
    """

    kept: pd.DataFrame
    statistic: Statistic

    @property
    def words(self) -> str:
        """The statistic with its n, as in the column ``statistic``; blank without runs."""
        return Sample(np.ones(len(self.kept)), self.statistic).words

    def sample(self, column: str) -> Sample:
        """Return a column of the runs; empty if one run lacks it, because the remaining runs would be another set."""
        values = self.kept[column].to_numpy(float)
        return Sample(values if np.isfinite(values).all() else values[:0], self.statistic)

    def mean(self, column: str) -> float:
        """Return the arithmetic mean over the runs with a value: for quantities that must add up, such as shares."""
        return float(self.kept[column].mean()) if len(self.kept) else math.nan


@dataclass(frozen=True)
class TrainingTimes:
    """Times to train of a scale [s] under the rules of its suite, and remarks on the number of runs.

    Attributes
    ----------
    sample, note
        The times, and the remarks.
    left_out
        Runs of the row that missed the target and so are not among the times; none where the rules count every run.
    """

    sample: Sample
    note: str
    left_out: int = 0


def select_trials(group: pd.DataFrame) -> Trials:
    """Return the runs behind the row of a scale.

    Parameters
    ----------
    group
        All runs of one benchmark, variant and scale, with ``outcome`` and ``dropped`` (:func:`mark_extremes`).
    """
    outcomes, dropped = group["outcome"].tolist(), group["dropped"].tolist()
    counted = [outcome in COMPLETE and not mark for outcome, mark in zip(outcomes, dropped, strict=True)]
    return Trials(group if all(counted) else group[counted], "olympic" if any(dropped) else "median")


def mark_extremes(runs: pd.DataFrame) -> pd.Series:
    """Return the runs that the row of their scale excludes: the column ``dropped`` of the table of runs.

    Parameters
    ----------
    runs
        The run table, each row with its own label.

    Returns
    -------
    pandas.Series
        "highest" and "lowest" by :func:`score_basis`; ties go to the last and the first by name. "outside" for the runs
        that are not in the window of the rules (:func:`choose_runs`). Blank for all others, and for all runs of a scale
        with fewer runs than the suite's rules require, or without a result under them. If every run counts, a run that
        missed the target is the lowest.
    """
    marks = pd.Series("", index=runs.index, dtype="object")
    for _, group in runs.groupby(POINT, sort=False):
        (rules, demanded), (chosen, _) = result_rules(group), choose_runs(group)
        counts = count_runs(chosen)
        if too_few(counts, rules, demanded) or no_result(counts, rules):
            continue
        _, scores = score_basis(chosen)
        if scores.empty:
            continue
        ranked = chosen.assign(_score=scores).dropna(subset=["_score"]).sort_values(["_score", "run_id"])
        marks[group.index.difference(chosen.index)] = OUTSIDE
        marks[ranked.index[0]], marks[ranked.index[-1]] = LOWEST, HIGHEST
    return marks


def choose_runs(group: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the runs of a scale that make its result, and how they were chosen.

    These are all runs, without a word. If the rules count a window and there are more runs, they are those of the
    window, chosen by the times to train.
    """
    rules, demanded = result_rules(group)
    if rules.more != "window" or len(group) <= demanded:
        return group, ""
    starts = list(zip(group["started_utc"], group["repetition"], strict=True))
    times = group["time_to_train_s"].astype(float).where(group["outcome"] == "converged")
    chosen, note = find_window(starts, times, demanded)
    return group.iloc[sorted(chosen)], note


def score_basis(group: pd.DataFrame) -> tuple[str, pd.Series]:
    """Return the quantity that orders the runs of a scale, and its values, the highest being the best.

    This is the time to train if the rules count every run, with runs that missed the target behind all others.
    Otherwise it is VFLOPS without the work of a sample, which is the same for all runs of a scale; or throughput if a
    run that completed training has no VFLOPS. Blank and no values if no quantity is available for all runs.
    """
    rules, _ = result_rules(group)
    if rules.counts == "all":
        times = group["time_to_train_s"].astype(float)
        return "time to train", -times.where(group["outcome"] == "converged", math.inf)
    complete = group[group["outcome"].isin(COMPLETE)]
    rates = complete["train_rate_samples_per_s"].astype(float)
    exponent = float(rules.exponents.get(group["workload"].iloc[0], math.nan))
    columns = zip(rates, complete["last_quality"].astype(float), complete["quality_target"].astype(float), strict=True)
    valid = pd.Series([compute_vflops(*column, exponent) for column in columns], index=rates.index, dtype=float)
    for name, scores in (("VFLOPS", valid), ("throughput", rates)):
        if np.isfinite(scores).all():
            return name, scores
    return "", rates[:0]


def training_times(group: pd.DataFrame, trials: Trials | None = None) -> TrainingTimes:
    """Return the times to train of one benchmark, variant and scale.

    Parameters
    ----------
    group
        All of its runs.
    trials
        Those of :func:`select_trials`, if they have been selected.

    Returns
    -------
    TrainingTimes
        Times of the runs of :func:`select_trials` that reached the target. If the rules count every run, the others
        count as slower than all, and too many of them leave no time (MLPerf HPC rules 3.0, 8).
    """
    trials, (chosen, window) = trials or select_trials(group), choose_runs(group)
    (rules, demanded), counts = result_rules(group), count_runs(chosen)
    converged = (trials.kept["outcome"] == "converged").to_numpy()
    reached = trials.kept["time_to_train_s"].to_numpy(float)[converged]
    if rules.counts == "finished":
        some = SOME_REACHED(reached=len(reached), n=len(trials.kept), word=rules.word)
        left_out = len(trials.kept) - len(reached)
        notes = [some if left_out else "", too_few(counts, rules, demanded)]
        return TrainingTimes(Sample(reached, trials.statistic), join_reasons(list(filter(None, notes))), left_out)
    nothing = no_result(counts, rules)
    if nothing:
        notes = [NO_RESULT(reason=nothing), window]
        return TrainingTimes(Sample(reached[:0], trials.statistic), join_reasons(list(filter(None, notes))))
    slower = counts.total - counts.converged if trials.statistic == "median" else 0
    notes = [
        f"{slower} that did not converge counts as the slowest" if slower else "",
        too_few(counts, rules, demanded),
        window,
    ]
    return TrainingTimes(Sample(reached, trials.statistic, slower), join_reasons(list(filter(None, notes))))


def result_rules(group: pd.DataFrame) -> tuple[ResultRules, int]:
    """Return the suite's rules for a result, and the number of runs that they require."""
    rules = rules_of(group["suite"].iloc[0]).results
    return rules, rules.runs[group["workload"].iloc[0]]


def count_runs(group: pd.DataFrame) -> RunCounts:
    """Count the outcomes of the runs of a scale."""
    outcomes = group["outcome"].tolist()
    converged, missed = map(outcomes.count, COMPLETE)
    return RunCounts(converged, missed, len(group))


def name_statistics(cells: Iterable[str]) -> str:
    """Return in words the statistics of several rows, from their ``statistic``: for legends and captions."""
    kinds = {"mean": "mean without extremes", "median": "median", "one": "one run"}
    found = {cell.split(" ")[0] for cell in cells}
    return " or ".join(words for kind, words in kinds.items() if kind in found)
