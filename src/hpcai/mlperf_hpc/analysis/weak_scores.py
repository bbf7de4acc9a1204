"""Weak scaling: models trained at the same time on a whole machine, the time for all of them, and models per minute."""

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from hpcai.mlperf_hpc.analysis.columns import WEAK_COLUMNS
from hpcai.mlperf_hpc.analysis.energy import Energy, RunKey
from hpcai.mlperf_hpc.analysis.labels import label_results
from hpcai.mlperf_hpc.analysis.olympic import claims_success
from hpcai.mlperf_hpc.analysis.targets import QUALITY
from hpcai.mlperf_hpc.analysis.weak_pruning import best_pruning, time_to_train_all
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
from hpcai.mlperf_hpc.rounds.model import LoggedRun, Span, Submission

SEEDS_DIFFER_FROM = "2.0.0"
"""First rule set in which instances with equal seeds have to be pruned."""
_NAMED = 5
"""So many files are named in a reason; the table of verdicts has all."""


@dataclass(frozen=True)
class WeakScore:
    """The result of one weak-scaling folder: (T, S, M', TTTa) of the rules.

    Attributes
    ----------
    whole_scale
        T: accelerators of the system file, or its nodes where it has no accelerators; NaN without one.
    instance_scale
        S: accelerators (nodes) of one instance, from the logs; NaN where no log states them.
    scale_unit
        Unit of both: "accelerator" or "node"; blank if no one says.
    instances
        M: all instances, pruned ones included.
    counted
        M': the instances that count.
    time_to_train_all_s
        TTTa: last run_stop minus first run_start of the instances that count [s]; NaN where the rules leave no score.
    reason
        Why there is no score, and what else a reader has to know.
    """

    whole_scale: float
    instance_scale: float
    scale_unit: str
    instances: int
    counted: int
    time_to_train_all_s: float
    reason: str

    @property
    def models_per_min(self) -> float:
        """Models that count per minute of the time for all [1/min]."""
        return 60 * self.counted / self.time_to_train_all_s if self.time_to_train_all_s > 0 else math.nan


def weak_table(rounds: Iterable[CheckedRound], energies: Mapping[RunKey, Energy]) -> pd.DataFrame:
    """Return one row per weak-scaling result.

    Parameters
    ----------
    rounds
        Rounds with the verdicts of their logs.
    energies
        Of the runs that have power logs (:func:`hpcai.mlperf_hpc.analysis.energy.read_energies`).

    Returns
    -------
    pandas.DataFrame
        ``WEAK_COLUMNS``. The energy is that of all instances that count: the package gives the mean of the instances
        without the lowest, the same number for each of its columns, which is the energy of nothing.
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
    complying = {source for source, verdict in checked.verdicts.items() if verdict.complies}
    quality = QUALITY.get(submission.benchmark)
    needed = quality.runs_by_rule if quality else len(submission.runs)
    score = score_weak(submission, complying, checked.choice.rule_set, needed)
    counted = counted_instances(submission, complying)
    parts = [energies.get((checked.round.name, run.source)) for run in counted]
    known = [part.energy_j for part in parts if part is not None]
    return {
        **submission.identity,
        "rule_set": checked.choice.rule_set,
        "whole_scale": score.whole_scale,
        "instance_scale": score.instance_scale,
        "scale_unit": score.scale_unit,
        "instances": score.instances,
        "counted_instances": score.counted,
        "time_to_train_all_s": score.time_to_train_all_s,
        "models_per_min": score.models_per_min,
        "energy_j": math.fsum(known) if known and len(known) == len(counted) else math.nan,
        "reason": score.reason,
        "source": submission.folder,
    }


def score_weak(submission: Submission, complying: Container[str], rule_set: str, needed: int) -> WeakScore:
    """Return the weak-scaling score of the instances of a submission.

    Parameters
    ----------
    submission
        Its ``runs`` are what the submitter wants counted, its ``pruned`` what he took out.
    complying
        Sources of the logs that comply with the rule set: a run that has not converged does not.
    rule_set
        Such as "2.0.0".
    needed
        M' has to be at least this (10 CosmoFlow and OpenFold, 5 DeepCAM and OC20).

    Returns
    -------
    WeakScore
        Like the package, an instance that does not comply is left out and named. The score stands although a rule is
        broken that the package does not look at here (T beyond S to M S; equal seeds; a status that is no success):
        `reason` says so.

    References
    ----------
    MLPerf HPC rules 2.0 and 3.0, weak scaling; mlperf_logging 4.1.68, ``_compute_weak_score_standalone``.
    """
    counted = counted_instances(submission, complying)
    scales = sorted({scale for run in counted if (scale := instance_scale(run)) is not None})
    instances = len(submission.runs) + len(submission.pruned)
    whole, unit = _whole_scale(submission)
    own = float(scales[0]) if len(scales) == 1 else math.nan
    obstacles = [*_too_few(len(counted), needed), *_unequal(scales)]
    spans = [run.run for run in counted if run.run is not None]
    reasons = [
        *obstacles,
        *_left_out(submission, counted),
        *_scale_reasons(whole, scales, instances),
        *_together(spans, whole, own, unit),
        *_not_converged(counted),
        *(_equal_seeds(counted) if rule_set >= SEEDS_DIFFER_FROM else []),
        *([] if obstacles else _better_pruning(spans, needed)),
    ]
    return WeakScore(
        whole_scale=whole,
        instance_scale=own,
        scale_unit=unit or _logged_unit(counted),
        instances=instances,
        counted=len(counted),
        time_to_train_all_s=math.nan if obstacles else time_to_train_all(spans),
        reason="; ".join(reasons),
    )


def counted_instances(submission: Submission, complying: Container[str]) -> tuple[LoggedRun, ...]:
    """Return the instances that count: not pruned, complying, with run_start and run_stop."""
    return tuple(run for run in submission.runs if run.source in complying and run.run is not None)


def instance_scale(run: LoggedRun) -> int | None:
    """Return S of one log: number_of_nodes x max(accelerators_per_node, 1); None where it lacks one of them."""
    nodes, accelerators = (_whole(run.settings.get(key)) for key in ("number_of_nodes", "accelerators_per_node"))
    return None if nodes is None or accelerators is None else nodes * max(accelerators, 1)


def _whole_scale(submission: Submission) -> tuple[float, str]:
    system = submission.system
    if system is None or system.nodes is None or system.accelerators_per_node is None:
        return math.nan, ""
    return float(system.nodes * max(system.accelerators_per_node, 1)), _unit(system.accelerators_per_node)


def _logged_unit(counted: Sequence[LoggedRun]) -> str:
    known = [_whole(run.settings.get("accelerators_per_node")) for run in counted]
    return next((_unit(number) for number in known if number is not None), "")


def _unit(accelerators_per_node: int) -> str:
    return "accelerator" if accelerators_per_node else "node"


def _whole(value: object) -> int | None:
    """Return a logged count, which some write as text; None if it is none."""
    try:
        return int(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


def _too_few(counted: int, needed: int) -> list[str]:
    return [] if counted >= needed else [f"no score: {counted} instances count, the rules ask for {needed}"]


def _unequal(scales: Sequence[int]) -> list[str]:
    words = ", ".join(map(str, scales))
    return [f"no score: instances of different scales ({words})"] if len(scales) > 1 else []


def _left_out(submission: Submission, counted: Sequence[LoggedRun]) -> Iterator[str]:
    kept = {run.source for run in counted}
    names = [_name(run) for run in submission.runs if run.source not in kept]
    if names:
        yield f"not counted, because the log does not comply: {_list(names)}"


def _scale_reasons(whole: float, scales: Sequence[int], instances: int) -> Iterator[str]:
    if math.isnan(whole):
        yield "T unknown: no system file with the number of nodes and accelerators"
    if not scales:
        yield "S unknown: no log that counts has both number_of_nodes and accelerators_per_node"
    if len(scales) == 1 and scales[0] > whole:
        yield f"S <= T does not hold: S = {scales[0]} in the logs, T = {whole:g} in the system file"
    if len(scales) == 1 and whole > instances * scales[0]:
        yield f"T <= M x S does not hold: T = {whole:g} in the system file, M x S = {instances} x {scales[0]}"


def _together(spans: Sequence[Span], whole: float, own: float, unit: str) -> Iterator[str]:
    """Say that instances ran beside each other which do not fit.

    The logs tell the whole system as theirs; or instances share nodes of a machine without accelerators, of which T
    and S count whole nodes alone.
    """
    starts, stops = np.array([span.start_ms for span in spans]), np.array([span.stop_ms for span in spans])
    peak = max((int(np.sum((starts <= start) & (stops > start))) for start in starts), default=0)
    if peak * own > whole and unit == "node":
        yield (
            f"{peak} instances ran at the same time on T = {whole:g} nodes, S = {own:g} each: they shared nodes, which "
            "T and S count as whole ones, or their logs tell more nodes than they had"
        )
    elif peak * own > whole:
        yield f"not possible: {peak} instances ran at the same time, {peak} x {own:g} do not fit into T = {whole:g}"


def _not_converged(counted: Sequence[LoggedRun]) -> Iterator[str]:
    """Say which instances count by their quality, as in the package, but do not end as converged ones."""
    names = [f"{_name(run)} ({run.claim})" for run in counted if not claims_success(run)]
    if names:
        yield f"against the rules: instances that count say at run_stop that they did not converge: {_list(names)}"


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
        yield f"pruned to {count} instances the time for all would be {time_s:g} s, {rate:.4g} models/min"


def _name(run: LoggedRun) -> str:
    return PurePosixPath(run.source).name


def _list(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
