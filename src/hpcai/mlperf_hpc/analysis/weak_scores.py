"""Weak scaling: models trained concurrently on a whole machine, the time for all, and models per minute."""

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from hpcai.core.messages import Message
from hpcai.mlperf_hpc.analysis.columns import WEAK_COLUMNS
from hpcai.mlperf_hpc.analysis.counted_runs import claims_success
from hpcai.mlperf_hpc.analysis.energy import Energy, RunKey
from hpcai.mlperf_hpc.analysis.labels import label_results
from hpcai.mlperf_hpc.analysis.targets import QUALITY
from hpcai.mlperf_hpc.analysis.weak_pruning import best_pruning, time_to_train_all
from hpcai.mlperf_hpc.analysis.weak_scales import WeakScales, counted_instances, read_scales
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Span, Submission

NOT_COUNTED = Message("weak_scores.not_counted", "not counted, because the log does not comply: {files}")
TOO_FEW = Message("weak_scores.too_few", "no score: {counted} instances count, the rules ask for {needed}")
NOT_CONVERGED = Message(
    "weak_scores.not_converged",
    "against the rules: instances that count say at run_stop that they did not converge: {files}",
)
BETTER_PRUNED = Message(
    "weak_scores.better_pruned",
    "pruned to {count} instances the time for all would be {time_s:g} s, {models_per_min:.4g} models/min",
)

SEEDS_DIFFER_FROM = "2.0.0"
"""First rule set that requires pruning instances with equal seeds."""
_NAMED = 5
"""Number of files named in a reason; the table of verdicts lists all."""


@dataclass(frozen=True)
class WeakScore:
    """The result of one weak-scaling folder: (T, S, M', TTTa) of the rules.

    Attributes
    ----------
    scales
        T and S.
    instances
        M: all instances, pruned ones included.
    counted
        M': the instances that count.
    time_to_train_all_s
        TTTa: last run_stop minus first run_start of the instances that count [s]; NaN without a valid score.
    reason
        Why there is no score, and other remarks.
    """

    scales: WeakScales
    instances: int
    counted: int
    time_to_train_all_s: float
    reason: str

    @property
    def models_per_min(self) -> float:
        """Counted models per minute of the time for all [1/min]."""
        return 60 * self.counted / self.time_to_train_all_s if self.time_to_train_all_s > 0 else math.nan


def weak_table(rounds: Iterable[CheckedRound], energies: Mapping[RunKey, Energy]) -> pd.DataFrame:
    """Return one row per weak-scaling result.

    Parameters
    ----------
    rounds
        Rounds with the verdicts of their logs.
    energies
        Energies of runs with power logs (:func:`hpcai.mlperf_hpc.analysis.energy.read_energies`).

    Returns
    -------
    pandas.DataFrame
        ``WEAK_COLUMNS``. The energy is that of all counted instances. The package instead gives the mean of the
        instances without the lowest, the same number in each of its columns, which is not the energy of anything.
    """
    rows = [
        _row(checked, submission, energies)
        for checked in rounds
        for submission in checked.round.submissions
        if submission.scaling == "weak"
    ]
    table = pd.DataFrame(rows, columns=list(WEAK_COLUMNS))
    return table.assign(label=label_results(table))


def _row(checked: CheckedRound, submission: Submission, energies: Mapping[RunKey, Energy]) -> dict[str, Any]:
    complying = checked.complying
    quality = QUALITY.get(submission.benchmark)
    needed = quality.runs_by_rule if quality else len(submission.runs)
    score = score_weak(submission, complying, checked.choice.rule_set, needed)
    counted = counted_instances(submission, complying)
    parts = [energies.get((checked.round.name, run.source)) for run in counted]
    known = [part.energy_j for part in parts if part is not None]
    return {
        **submission.identity,
        "rule_set": checked.choice.rule_set,
        "whole_scale": score.scales.whole,
        "instance_scale": score.scales.instance,
        "scale_unit": score.scales.unit,
        "instance_scale_source": score.scales.source,
        "logged_instance_scale": score.scales.logged,
        "instances": score.instances,
        "counted_instances": score.counted,
        "time_to_train_all_s": score.time_to_train_all_s,
        "models_per_min": score.models_per_min,
        "energy_j": math.fsum(known) if known and len(known) == len(counted) else math.nan,
        "same_runs_as": "",
        "reason": score.reason,
        "source": submission.folder,
    }


def score_weak(submission: Submission, complying: Container[str], rule_set: str, needed: int) -> WeakScore:
    """Return the weak-scaling score of the instances of a submission.

    Parameters
    ----------
    submission
        Its ``runs`` are the instances that the submitter counts, its ``pruned`` those left out.
    complying
        Sources of the logs that comply with the rule set; a run that has not converged does not.
    rule_set
        Such as "2.0.0".
    needed
        Smallest allowed M' (10 for CosmoFlow and OpenFold, 5 for DeepCAM and OC20).

    Returns
    -------
    WeakScore
        As in the package, an instance that does not comply is left out and named. Rules that the package does not check
        here (T beyond S to M S; equal seeds; a status other than success) do not remove the score; `reason` names the
        violations.

    References
    ----------
    MLPerf HPC rules 2.0 and 3.0, weak scaling; mlperf_logging 4.1.68, ``_compute_weak_score_standalone``.
    """
    counted = counted_instances(submission, complying)
    scales = read_scales(submission, counted)
    instances = len(submission.runs) + len(submission.pruned)
    obstacles = [*_too_few(len(counted), needed), *_unequal(scales.by_nodes)]
    spans = [run.run for run in counted if run.run is not None]
    reasons = [
        *obstacles,
        *_left_out(submission, counted),
        *scales.reasons(instances),
        *_not_converged(counted),
        *(_equal_seeds(counted) if rule_set >= SEEDS_DIFFER_FROM else []),
        *([] if obstacles else _better_pruning(spans, needed)),
    ]
    return WeakScore(
        scales=scales,
        instances=instances,
        counted=len(counted),
        time_to_train_all_s=math.nan if obstacles else time_to_train_all(spans),
        reason="; ".join(reasons),
    )


def _too_few(counted: int, needed: int) -> list[str]:
    return [] if counted >= needed else [TOO_FEW(counted=counted, needed=needed)]


def _unequal(scales: Sequence[int]) -> list[str]:
    words = ", ".join(map(str, scales))
    return [f"no score: instances of different scales ({words})"] if len(scales) > 1 else []


def _left_out(submission: Submission, counted: Sequence[LoggedRun]) -> Iterator[str]:
    kept = {run.source for run in counted}
    names = [_name(run) for run in submission.runs if run.source not in kept]
    if names:
        yield NOT_COUNTED(files=_list(names))


def _not_converged(counted: Sequence[LoggedRun]) -> Iterator[str]:
    """Report instances that count by their quality, as in the package, but whose final status is not success."""
    names = [f"{_name(run)} ({run.claim})" for run in counted if not claims_success(run)]
    if names:
        yield NOT_CONVERGED(files=_list(names))


def _equal_seeds(counted: Sequence[LoggedRun]) -> Iterator[str]:
    seen: dict[str, str] = {}
    again = []
    for run in counted:
        seeds = {str(seed) for seed in run.seeds}
        if seeds & seen.keys():
            first = seen[min(seeds & seen.keys())]
            again.append(f"{_name(run)} as {first}")
        seen |= {seed: _name(run) for seed in seeds - seen.keys()}
    if again:
        yield f"against the rules: instances with equal seeds have to be pruned ({', '.join(again)})"


def _better_pruning(spans: Sequence[Span], needed: int) -> Iterator[str]:
    count, time_s = best_pruning(spans, needed)
    if count < len(spans):
        rate = 60 * count / time_s
        yield BETTER_PRUNED(count=count, time_s=time_s, models_per_min=rate)


def _name(run: LoggedRun) -> str:
    return PurePosixPath(run.source).name


def _list(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
