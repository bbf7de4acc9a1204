"""Convert imported results to rows of ``run_scores`` and ``scores``, for ranking and comparison with own studies."""

import math
from collections.abc import Container, Mapping
from typing import Any

import pandas as pd

from hpcai.metrics.scaling.trials import COMPLETE, HIGHEST, LOWEST, Trials, select_trials
from hpcai.metrics.scores.columns import OF_THE_RUN, SCORE_COLUMNS, TRIAL_COLUMNS, score_frame
from hpcai.metrics.scores.declared import DECLARED
from hpcai.metrics.scores.trial_scores import NO_WORK, why_no_vflops
from hpcai.metrics.scores.validity import NOT_JUDGED, join_reasons, label_result
from hpcai.metrics.statistics.summaries import interval_of
from hpcai.mlperf_hpc.analysis.repeats import digest_runs, say_repeat
from hpcai.mlperf_hpc.analysis.run_quantities import divide
from hpcai.mlperf_hpc.analysis.study_names import (
    SUITE,
    Row,
    benchmark_of,
    dataset_of,
    name_timing,
    scale_of,
    task_of,
)
from hpcai.rules.table import rules_of

NO_FITTING_RULES = "its logs were not judged, the package has no rules for this round"
PUBLISHED = "published"
"""Method of values derived from published logs."""


def ranked_times(results: pd.DataFrame, unjudged: Container[str]) -> pd.DataFrame:
    """Return results with the time to train used for ranking.

    Parameters
    ----------
    results
        The table ``mlperf_results``, with a unique `variant` per submission, and `by_steps`.
    unjudged
        Rounds without rules in the package (v0.7).

    Returns
    -------
    pandas.DataFrame
        The same rows; `time_to_train_s` is the official score. For a round without rules it is the olympic mean of the
        runs that reach the target, as in that round's own tables, because no verdict is available. It is NaN if the
        result has not as many runs as the rules require. The column `judged` tells the two apart.
    """
    judged = ~results["origin"].map(lambda name: name in unjudged).astype(bool)
    whole = results["runs"].eq(results["runs_by_rule"])
    by_target = (results["run_by_target_s"] * results["scaling_factor"]).where(whole)
    return results.assign(time_to_train_s=results["time_to_train_s"].where(judged, by_target), judged=judged)


def mark_dropped(runs: pd.DataFrame, results: pd.DataFrame) -> pd.Series:
    """Mark the imported runs that their result excludes, as in ``dropped`` of the table of runs.

    Parameters
    ----------
    runs
        The table ``runs`` of imported rounds.
    results
        Their results (:func:`ranked_times`).

    Returns
    -------
    pandas.Series
        In a result with a time to train, the fastest run is "highest" and the slowest, or the one that does not count,
        is "lowest"; blank for all others.
    """
    scored = {(row["origin"], row["variant"], benchmark_of(row)) for row in _scored(results)}
    marks = pd.Series("", index=runs.index, dtype="object")
    for key, group in runs.groupby(["study", "variant", "benchmark"], sort=False):
        if key in scored:
            order = _fastest_first(group)
            marks.loc[order[:1]], marks.loc[order[-1:]] = HIGHEST, LOWEST
    return marks


def trial_scores(runs: pd.DataFrame, energies: Mapping[tuple[str, str], float]) -> pd.DataFrame:
    """Return the scores of imported runs.

    Parameters
    ----------
    runs
        The table ``runs`` of imported rounds, with their ``dropped`` (:func:`mark_dropped`).
    energies
        Energy of runs [J] by round and log; only runs with power logs.

    Returns
    -------
    pandas.DataFrame
        ``TRIAL_COLUMNS``. Mean power is energy over time.
    """
    return score_frame([_trial(run, energies) for run in runs.to_dict("records")], TRIAL_COLUMNS)


def _scored(results: pd.DataFrame) -> list[dict[Any, Any]]:
    return results[results["time_to_train_s"].notna()].to_dict("records")


def _fastest_first(group: pd.DataFrame) -> pd.Index:
    """Return the runs of a result, fastest first; a run without a time to train is the slowest."""
    good = (group["time_to_train_s"].notna()) & (group["valid_for"] != "none")
    return group.assign(time=group["time_to_train_s"].where(good, math.inf)).sort_values("time", kind="stable").index


def _trial(run: Row, energies: Mapping[tuple[str, str], float]) -> dict[str, Any]:
    row = {name: run[name] for name in OF_THE_RUN}
    if run["outcome"] not in COMPLETE:
        return row | {"reason": f"no score, {str(run['outcome']).replace('_', ' ')}: {run['reason']}"}
    power_w = divide(energies.get((str(run["study"]), str(run["record_path"])), math.nan), run["run_s"])
    return row | {
        "train_rate_samples_per_s": run["train_rate_samples_per_s"],
        "quality": run["last_quality"],
        "time_to_quality_s": run["run_s"],
        "evaluation_s": run["evaluation_s"],
        "time_to_train_s": run["time_to_train_s"],
        "mean_power_w": power_w,
        "power_method": PUBLISHED if power_w > 0 else "",
        "power_source": run["record_path"] if power_w > 0 else "",
        "reason": join_reasons([*_no_rates(run), *([str(run["invalid_reasons"])] if run["invalid_reasons"] else [])]),
    }


def _no_rates(run: Row) -> list[str]:
    return [f"no FLOPS: {NO_WORK}", why_no_vflops("mlperf_hpc", str(run["workload"]), str(run["quality_metric"]))]


def result_scores(results: pd.DataFrame, runs: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """Return imported results as rows of the table ``scores``.

    Parameters
    ----------
    results
        Results (:func:`ranked_times`).
    runs, trials
        The tables ``runs`` and ``run_scores`` of the same rounds.

    Returns
    -------
    pandas.DataFrame
        ``SCORE_COLUMNS``, one row per submission and benchmark, including those without a score. The method is
        "declared": the ranking places and marks such results, because only their logs were checked here. Throughput
        with its interval, quality, time to quality and power are arithmetic means of the runs in the score; without a
        score, medians of all runs that finished training.
    """
    return score_frame([_result(row, runs, trials) for row in results.to_dict("records")], SCORE_COLUMNS)


def _result(row: dict[Any, Any], runs: pd.DataFrame, trials: pd.DataFrame) -> dict[str, Any]:
    benchmark, variant, scale = benchmark_of(row), str(row["variant"]), scale_of(row)
    own = runs[(runs["study"] == row["origin"]) & (runs["variant"] == variant) & (runs["benchmark"] == benchmark)]
    trial = trials[trials["run_id"].isin(own["run_id"])]
    chosen, scored = select_trials(trial), row["time_to_train_s"] > 0
    clocks = {None if pd.isna(value) else bool(value) for value in own["time_staging"]}
    return {
        "method": DECLARED,
        "origin": row["origin"],
        "result": "/".join(part for part in (benchmark, variant, scale) if part),
        "machine": row["submission"],
        "suite": SUITE,
        "workload": task_of(row["benchmark"]).workload,
        "benchmark": benchmark,
        "dataset": dataset_of(row),
        "variant": variant,
        "scale": scale,
        "nodes": row["nodes"],
        "ranks": row["units"],
        "global_batch_samples": row["global_batch_samples"],
        "n": int(trial["outcome"].isin(COMPLETE).sum()),
        "n_scored": len(chosen.kept),
        "statistic": chosen.words,
        "runs_by_rule": row["runs_by_rule"],
        "quality_metric": task_of(row["benchmark"]).quality_metric,
        "quality_target": row["quality_target"],
        **_numbers(chosen),
        "time_to_train_s": row["time_to_train_s"],
        "timing": name_timing(clocks),
        "division": row["division"],
        "valid_for": _valid_for(own, scored=scored),
        "label": _label(row, scored=scored),
        "score_method": _method(row, len(chosen.kept), scored=scored),
        "runs_sha256": digest_runs(own),
        "reason": _remarks(row) if scored else row["reason"],
        "source": row["source"],
    }


def _remarks(row: Row) -> str:
    """Return the remark on a result with a score: that it was published before."""
    return say_repeat(str(row["same_runs_as"]))


def _numbers(trials: Trials) -> dict[str, Any]:
    names = ("train_rate_samples_per_s", "quality", "time_to_quality_s", "evaluation_s", "mean_power_w")
    interval = interval_of(trials.sample("train_rate_samples_per_s"))
    row: dict[str, Any] = {name: trials.sample(name).value for name in names}
    return row | {
        "train_rate_low_samples_per_s": interval.low,
        "train_rate_high_samples_per_s": interval.high,
        "power_method": PUBLISHED if row["mean_power_w"] > 0 else "",
    }


def _valid_for(runs: pd.DataFrame, *, scored: bool) -> str:
    """Return the division whose log rules the counted runs comply with."""
    if runs.empty or (runs["valid_for"] == NOT_JUDGED).any():
        return NOT_JUDGED
    levels = [level for level in runs["valid_for"].unique() if level != "none"]
    return levels[0] if scored and len(levels) == 1 else "none"


def _label(row: Row, *, scored: bool) -> str:
    if not scored:
        return label_result("mlperf_hpc", [str(row["reason"])])
    keeps = f"its logs keep the rules {row['rule_set']}, more than the logs was not judged here"
    title, what = rules_of(SUITE).title, keeps if row["judged"] else NO_FITTING_RULES
    return f"published {title} result of {row['origin']}, {row['division']} division: {what}"


def _method(row: Row, kept: int, *, scored: bool) -> str:
    if not scored:
        return f"no time to train; medians of the {kept} runs that trained to their end, from published logs"
    factor = row["scaling_factor"]
    scaled = f", times {factor:.6g} of scaling.json" if factor != 1 else ""
    which = "" if row["judged"] else f" that reach the target ({NO_FITTING_RULES})"
    return (
        f"time to train from published logs: olympic mean of {kept} of {row['runs']} runs{which}{scaled}; throughput "
        "and quality: arithmetic means of the same runs"
    )
