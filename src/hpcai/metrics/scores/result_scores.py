"""Scores of every result by the procedure of HPC AI500 V2.0, and the best result of each machine and benchmark."""

import math
import os
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT, label_of
from hpcai.config.machine import Machine, Precision
from hpcai.core.messages import Message
from hpcai.metrics.cells import divide, records_of
from hpcai.metrics.roofline.samples_above import TOLERANCE_RATIO
from hpcai.metrics.scaling.trials import COMPLETE, choose_runs, result_rules, score_basis, select_trials
from hpcai.metrics.scores.best_results import best_of, choosing_measures, say_why_chosen
from hpcai.metrics.scores.columns import MACHINE_COLUMNS, SCORE_COLUMNS, TIMINGS, score_frame
from hpcai.metrics.scores.validity import NONE_FINISHED, join_reasons, split_reasons
from hpcai.metrics.statistics.summaries import interval_of, variation_ratio
from hpcai.records.run import RunRecord
from hpcai.rules.table import rules_of

DATA_TOPICS = ("data", "problem_domain")
"""Topics of the suites' rules about the dataset and its target."""
_NUMBERS = (
    "train_rate_samples_per_s", "rate_flop_per_s", "quality", "vflops_flop_per_s", "vflops_capped_flop_per_s",
    "time_to_quality_s", "evaluation_s", "mean_power_w",
)  # fmt: skip
"""Numbers of the kept trials, combined by the statistic of their row."""
OWNERS = Message("result_scores.owners", "n = {n:g} ({names})")
NO_SCORE = Message("result_scores.no_score", "no score: {reason}")
BROKEN = Message("result_scores.broken", "{broken} of {n} did not complete training")
NO_SUITE_SCORE = Message("result_scores.no_suite_score", "{suite} itself defines no score of rates")
EXTREMES_DROPPED = Message(
    "result_scores.extremes_dropped",
    "arithmetic mean of {kept} of {n} {word}s, {which} ({section})",
)
TOO_FEW_TO_DROP = Message(
    "result_scores.too_few_to_drop",
    "{number}: extremes are dropped only with the {by_rule} {word}s that the rules require",
)
MIXED_TIMING = Message(
    "result_scores.mixed_timing",
    "timing: staging is on the clock in some runs and before it in others",
)
NO_PEAK = Message("result_scores.no_peak", "no ratio to the peak: the machine file declares none for {precision}")
PEAK_SOURCE = Message("result_scores.peak_source", "machine file, {precision}: {source}")
ABOVE_PEAK = Message(
    "result_scores.above_peak",
    "no ratio to the peak: FLOPS are {ratio:.3g} times the declared {precision} peak, more than {tolerance:g} % "
    "above: the peak is for another precision or device (earlier versions took TF32 for fp32 on GPUs), or the "
    "work is overcounted",
)
_INTERVALS = {
    "train_rate_samples_per_s": ("train_rate_low_samples_per_s", "train_rate_high_samples_per_s"),
    "rate_flop_per_s": ("rate_low_flop_per_s", "rate_high_flop_per_s"),
    "vflops_flop_per_s": ("vflops_low_flop_per_s", "vflops_high_flop_per_s"),
}
_SHARED = (
    "suite", "workload", *POINT, "nodes", "ranks", "precision", "compression", "flop_per_sample", "flop_method",
    "quality_target", "exponent",
)  # fmt: skip
_PER_MACHINE = [
    "method", "machine", "suite", "workload", "benchmark", "dataset", "quality_metric", "quality_target", "division",
    "timing",
]  # fmt: skip
_NAN = math.nan


def name_datasets(records: Iterable[RunRecord]) -> dict[str, str]:
    """Return the dataset of each benchmark with its source, such as ``imagenet (official)``.

    It is official if no rule of the suite on the dataset or its target found a deviation; else it is generated,
    downloaded, or was already present on the machine.
    """
    found: dict[str, dict[str, None]] = {}
    for record in records:
        name = f"{record.plan.benchmark.data.dataset} ({_data_source(record)})"
        found.setdefault(record.plan.benchmark.name, {})[name] = None
    return {benchmark: ", ".join(names) for benchmark, names in sorted(found.items())}


def name_divisions(records: Iterable[RunRecord]) -> dict[str, str]:
    """Return the submission division of each MLPerf HPC benchmark; other suites have none."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        if record.plan.benchmark.suite == "mlperf_hpc":
            found.setdefault(record.plan.benchmark.name, {})[record.plan.submission.division] = None
    return {benchmark: ", ".join(sorted(names)) for benchmark, names in sorted(found.items())}


def score_scales(
    run_scores: pd.DataFrame,
    runs: pd.DataFrame,
    scales: pd.DataFrame,
    datasets: Mapping[str, str],
    machine: Machine | None = None,
    *,
    divisions: Mapping[str, str] = MappingProxyType({}),
) -> pd.DataFrame:
    """Return the scores of every benchmark and variant at each scale.

    Parameters
    ----------
    run_scores
        The table of :func:`hpcai.metrics.scores.trial_scores.score_trials`.
    runs, scales
        The tables of runs and of scales.
    datasets
        Dataset of each benchmark (:func:`name_datasets`).
    machine
        Machine file of the study, for the declared peak.
    divisions
        Division of each benchmark for its submission (:func:`name_divisions`).

    Returns
    -------
    pandas.DataFrame
        ``SCORE_COLUMNS``. All numbers of a row use the same trials
        (:func:`hpcai.metrics.scaling.trials.select_trials`). With as many as the suite's rules require, they are
        arithmetic means without the trials of the highest and the lowest score; otherwise medians of all that completed
        training; `statistic` names which. Intervals (:func:`hpcai.metrics.statistics.summaries.interval_of`) use these
        trials, too; variation (standard deviation / mean) covers all that completed training. The coefficients are
        ratios of the scores, VFLOPS / FLOPS. `peak_ratio` is FLOPS over the declared peak of the precision used, NaN
        with a reason if it exceeds 1 by more than ``TOLERANCE_RATIO``. `time_to_train_s` is the score by the suite's
        own rule, as in the table of scales.

    References
    ----------
    HPC AI500 V2.0, 4.3 (variation), 6.3.2 (extremes dropped); we read its ambiguous wording as the extremes of the
    reported score.
    """
    metrics = _quality_metrics(runs)
    rows = []
    for _, trials in run_scores.groupby(POINT, sort=False):
        first = trials.iloc[0]
        scale = scales[(scales[POINT] == first[POINT]).all(axis=1)].iloc[0]
        run = runs[runs["run_id"].isin(trials["run_id"])]
        known = machine if machine is not None and set(run["machine"]) == {machine.name} else None
        row = (
            {name: first[name] for name in _SHARED}
            | _origin(run, scale, datasets[first["benchmark"]])
            | _scores(trials.sort_values("run_id"), run)
            | {"time_to_train_s": scale["time_to_train_score_s"], "quality_metric": metrics.get(first["benchmark"], "")}
            | {"division": divisions.get(first["benchmark"], "")}
        )
        peak, no_ratio = _peak(row, known)
        timing, unclear = _timing(run)
        rows.append(row | peak | {"timing": timing, "reason": join_reasons([*_reasons(trials), *no_ratio, *unclear])})
    return score_frame(rows, SCORE_COLUMNS)


def score_machines(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the best result of every machine and benchmark.

    Parameters
    ----------
    scores
        ``SCORE_COLUMNS`` of one or several studies and of declared results.

    Returns
    -------
    pandas.DataFrame
        ``MACHINE_COLUMNS``: for each machine, benchmark, dataset, quality target, division and timing, the result that
        the ranking would choose from all variants and scales. Among the valid results, or else all, that is the highest
        VFLOPS or, for suites without them, the shortest time to train; the highest FLOPS or throughput if no result has
        these.

    Raises
    ------
    ValueError
        Results of one benchmark have different exponents.
    """
    rows = []
    filled = score_frame(records_of(scores), SCORE_COLUMNS)
    ordered = filled.sort_values(["benchmark", "machine", "ranks", "variant", "scale", "origin", "result"])
    for _, group in ordered.groupby(_PER_MACHINE, sort=False, dropna=False):
        refuse_mixed_exponents(group)
        results = records_of(group)
        best, measure = best_of(results, choosing_measures(str(results[0]["suite"])))
        rows.append(best | {"chosen_because": say_why_chosen(results, best, measure)})
    return score_frame(rows, MACHINE_COLUMNS)


def refuse_mixed_exponents(scores: pd.DataFrame) -> None:
    """Refuse to compare scores computed with different exponents.

    Parameters
    ----------
    scores
        With the columns ``exponent``, ``benchmark`` and ``origin``; a result without VFLOPS has no exponent.

    Raises
    ------
    ValueError
        Names each exponent with its benchmarks and origins.
    """
    used = scores.dropna(subset=["exponent"])
    if used["exponent"].nunique() < 2:
        return
    owners = [
        OWNERS(n=exponent, names=", ".join(sorted({f"{row.benchmark} of {row.origin}" for row in group.itertuples()})))
        for exponent, group in used.groupby("exponent")
    ]
    raise ValueError(
        f"VFLOPS with different exponents are not compared, found {' and '.join(owners)}; compare results of one n"
    )


def _data_source(record: RunRecord) -> str:
    suite = rules_of(record.plan.benchmark.suite)
    about_data = {rule.id for rule in suite.rules if rule.topic in DATA_TOPICS and not rule.counted}
    deviations = {finding.rule for verdict in record.verdicts for finding in verdict.deviations}
    official = record.plan.benchmark.target.official and record.data_source != "generated"
    return "official" if official and record.verdicts and not deviations & about_data else record.data_source


def _origin(runs: pd.DataFrame, scale: pd.Series, dataset: str) -> dict[str, Any]:
    first = runs.iloc[0]
    return {
        "method": "measured",
        "origin": ", ".join(sorted(set(runs["study"]))),
        "result": label_of(first.to_dict()),
        "machine": ", ".join(sorted(set(runs["machine"]))),
        "dataset": dataset,
        "global_batch_samples": scale["global_batch_samples"],
        "runs_by_rule": scale["runs_by_rule"],
        "valid_for": scale["valid_for"],
        "label": scale["label"],
        "source": os.path.commonpath([PurePath(path).parent.parent for path in runs["record_path"]]),
    }


def _scores(trials: pd.DataFrame, runs: pd.DataFrame) -> dict[str, Any]:
    """Return numbers and intervals of the kept trials; variation over all that completed training."""
    complete, chosen = trials[trials["outcome"].isin(COMPLETE)], select_trials(trials)
    row: dict[str, Any] = {name: chosen.sample(name).value for name in _NUMBERS}
    for name, bounds in _INTERVALS.items():
        estimate = interval_of(chosen.sample(name))
        row |= dict(zip(bounds, (estimate.low, estimate.high), strict=True))
    rate, valid = row["rate_flop_per_s"], row["vflops_flop_per_s"]
    return row | {
        "n": len(complete),
        "n_scored": len(chosen.kept),
        "statistic": chosen.words,
        "rate_variation_ratio": variation_ratio(complete["rate_flop_per_s"]),
        "vflops_variation_ratio": variation_ratio(complete["vflops_flop_per_s"]),
        "quality_coefficient_ratio": divide(valid, rate),
        "quality_coefficient_capped_ratio": divide(row["vflops_capped_flop_per_s"], rate),
        "power_method": next((method for method in chosen.kept["power_method"] if method), ""),
        "flop_per_j": divide(rate, row["mean_power_w"]),
        "vflops_flop_per_j": divide(valid, row["mean_power_w"]),
        "score_method": _procedure(runs, len(complete), len(chosen.kept)),
    }


def _procedure(runs: pd.DataFrame, complete: int, kept: int) -> str:
    suite = rules_of(runs["suite"].iloc[0])
    word = suite.results.word
    if not complete:
        return NO_SCORE(reason=NONE_FINISHED(n=len(runs), word=word))
    broken = len(runs) - complete
    sentences = [
        _say_statistic(runs, complete, kept),
        choose_runs(runs)[1],
        BROKEN(broken=broken, n=len(runs)) if broken else "",
        NO_SUITE_SCORE(suite=suite.title) if not suite.results.exponents else "",
        "time to train by the suite's own rule",
    ]
    return join_reasons([sentence for sentence in sentences if sentence])


def _say_statistic(runs: pd.DataFrame, complete: int, kept: int) -> str:
    """Describe in words the trials behind the numbers."""
    (rules, demanded), (basis, _) = result_rules(runs), score_basis(runs)
    if (runs["dropped"] != "").any():
        which = f"highest and lowest {basis} dropped" if rules.counts == "finished" else "fastest and slowest dropped"
        n = int(choose_runs(runs)[0]["outcome"].isin(COMPLETE).sum())
        return EXTREMES_DROPPED(kept=kept, n=n, word=rules.word, which=which, section=rules.section)
    number = f"median of {complete}" if complete > 1 else "only one"
    return TOO_FEW_TO_DROP(number=number, by_rule=demanded, word=rules.word)


def _quality_metrics(runs: pd.DataFrame) -> dict[str, str]:
    """Return the metric of each benchmark: runs that failed early lack its name, but share it."""
    named = runs[runs["quality_metric"].fillna("") != ""]
    return {str(name): str(own.iloc[0]) for name, own in named.groupby("benchmark")["quality_metric"]}


def _timing(runs: pd.DataFrame) -> tuple[str, list[str]]:
    """Return what the clock of the runs includes; blank with a reason if they differ."""
    found = set(runs["time_staging"].map(TIMINGS).fillna(""))
    if len(found) == 1:
        return str(found.pop()), []
    return "", [MIXED_TIMING()]


def _peak(row: Mapping[str, Any], machine: Machine | None) -> tuple[dict[str, Any], list[str]]:
    """Return the declared peak of all devices used in their precision, and why there is no ratio to it."""
    precision: Precision = row["precision"]
    peak = machine.device.peaks.get(precision) if machine is not None else None
    if machine is None or peak is None:
        why = NO_PEAK(precision=precision)
        return {"peak_flop_per_s": _NAN, "peak_ratio": _NAN, "peak_source": ""}, [why]
    total = peak.rate_flop_per_s * machine.devices_of(row["nodes"], row["ranks"])
    ratio, source = row["rate_flop_per_s"] / total, PEAK_SOURCE(precision=precision, source=peak.source)
    found = {"peak_flop_per_s": total, "peak_ratio": ratio, "peak_source": source}
    if not ratio > 1 + TOLERANCE_RATIO:
        return found, []
    why = ABOVE_PEAK(ratio=ratio, precision=precision, tolerance=100 * TOLERANCE_RATIO)
    return found | {"peak_ratio": _NAN}, [why]


def _reasons(trials: pd.DataFrame) -> list[str]:
    complete = trials[trials["outcome"].isin(COMPLETE)]
    return split_reasons((trials if complete.empty else complete)["reason"])
