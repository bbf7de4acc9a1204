"""The table of scales: the combined result of the repeats of one benchmark and variant at one scale."""

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.catalogue.points import POINT, SERIES
from hpcai.config.runs import Point
from hpcai.metrics.quietness import DISTURBED, UNKNOWN
from hpcai.metrics.scaling.efficiency import compute_scaling
from hpcai.metrics.scaling.trials import (
    COMPLETE,
    Trials,
    choose_runs,
    count_runs,
    result_rules,
    select_trials,
    training_times,
)
from hpcai.metrics.scores.of_run import TimeShares
from hpcai.metrics.scores.validity import (
    common_levels,
    counted_runs,
    join_reasons,
    judge_runs,
    label_result,
    no_result,
    split_reasons,
    too_few,
)
from hpcai.metrics.statistics.summaries import interval_of, median, variation_ratio

OUTCOMES = ("converged", "not_converged", "diverged", "failed", "timed_out")
POINT_SETTINGS = tuple(
    name
    for name in Point.model_fields
    if name not in ("benchmark", "variant", "nodes", "ranks_per_node", "global_batch")  # have their own columns
)
"""Settings that define a variant: those of a point in the run table, one column each."""
STEP = ("global_batch_samples", "part_bytes")
ABOUT = (
    "suite",
    "workload",
    *POINT_SETTINGS,
    *STEP,
    "data_source",
    "quality_metric",
    "quality_unit",
    "quality_target",
)
"""Columns of the run table that are equal in all runs of a scale."""
KEYS = [*POINT, "nodes", "ranks_per_node", "ranks"]
SHARES = tuple(field.name for field in fields(TimeShares))
RATES = {
    "train_rate": "train_rate_samples_per_s",
    "evaluation_rate": "evaluation_rate_samples_per_s",
    "staging_read_rate": "staging_read_rate_bytes_per_s",
    "staging_write_rate": "staging_write_rate_bytes_per_s",
}
_SCALING = ("speedup_ratio", "speedup_low_ratio", "speedup_high_ratio", "efficiency_ratio", "efficiency_low_ratio")


def summarise_scales(runs: pd.DataFrame, scaling: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row per benchmark, variant and scale.

    Parameters
    ----------
    runs
        The run table (:func:`hpcai.metrics.run_tables.collect_runs`).
    scaling
        Its table of scaling, if it has been made.

    Returns
    -------
    pandas.DataFrame
        ``n_ok`` of ``n`` runs converged. Rates, step times, shares and staging come from the ``rate_n`` runs of
        :func:`hpcai.metrics.scaling.trials.select_trials`. ``statistic`` names how they are combined: the mean of that
        many, extremes dropped, or the median. Bounds come from
        :func:`hpcai.metrics.statistics.summaries.interval_of`. Shares and ``*_mean_s`` are arithmetic means of the same
        runs, because they must add up; ``staging_epoch_ratio`` is a ratio of means. ``time_to_train_score_s`` is the
        time of the ``time_to_train_n`` of these runs that reached the target
        (:func:`hpcai.metrics.scaling.trials.training_times`). Variation and epochs to the target cover all runs that
        converged. Speed-ups and efficiencies come from :func:`hpcai.metrics.scaling.efficiency.compute_scaling`.
    """
    about = runs.drop_duplicates(KEYS)[[*KEYS, *(name for name in ABOUT if name not in KEYS)]].to_dict("records")
    rows = []
    for first, (_, group) in zip(about, runs.groupby(KEYS, sort=False), strict=True):
        trials = select_trials(group)
        rows.append(
            {str(name): value for name, value in first.items()}
            | _counts(group)
            | _time_to_train(group, trials)
            | _rates(trials)
            | _staging_and_shares(trials)
            | _quietness(trials.kept)
            | _judgement(group)
        )
    scales = pd.DataFrame(rows)
    if scales.empty:
        return pd.DataFrame(columns=KEYS)
    scales = scales.merge(
        _wide_scaling(compute_scaling(runs) if scaling is None else scaling), on=POINT, how="left", validate="1:1"
    )
    scales["train_rate_ideal_samples_per_s"] = _ideal_rates(scales)
    return scales.sort_values([*SERIES, "ranks", "nodes"], kind="stable", ignore_index=True)


def _counts(group: pd.DataFrame) -> dict[str, Any]:
    found = group["outcome"].tolist()
    counts = {f"n_{outcome}": found.count(outcome) for outcome in OUTCOMES}
    return {"n": len(group), "n_ok": counts["n_converged"], **counts}


def _time_to_train(group: pd.DataFrame, trials: Trials) -> dict[str, Any]:
    converged = (group["outcome"] == "converged").to_numpy()
    epochs, times = group["epochs_to_target"].to_numpy(float)[converged], training_times(group, trials)
    score = interval_of(times.sample)
    return {
        "time_to_train_score_s": score.value,
        "time_to_train_low_s": score.low,
        "time_to_train_high_s": score.high,
        "time_to_train_n": times.sample.n,
        "time_to_train_score_method": times.sample.words,
        "time_to_train_score_note": times.note,
        "time_to_train_variation_ratio": variation_ratio(group["time_to_train_s"].to_numpy(float)[converged]),
        "epochs_to_target_median": median(epochs),
        "epochs_to_target_min": _least(epochs),
        "epochs_to_target_max": _largest(epochs),
    }


def _rates(trials: Trials) -> dict[str, Any]:
    columns: dict[str, Any] = {"statistic": trials.words, "rate_n": len(trials.kept)}
    for name, column in RATES.items():
        estimate, unit = interval_of(trials.sample(column)), column.removeprefix(f"{name}_")
        columns |= {
            column: estimate.value,
            f"{name}_low_{unit}": estimate.low,
            f"{name}_high_{unit}": estimate.high,
        }
    return columns


def _staging_and_shares(trials: Trials) -> dict[str, Any]:
    kept = trials.kept
    staged, shared = (kept[name].notna().to_numpy() for name in ("staging_epoch_ratio", "rest_ratio"))
    staging_s = _mean(_numbers(kept, "staging_s")[staged])
    return {
        "staging_n": int(staged.sum()),
        "staging_mean_s": staging_s,
        "epoch_mean_s": trials.mean("epoch_s"),
        "staging_epoch_ratio": staging_s / _mean(_numbers(kept, "epoch_s")[staged]),
        "staging_compression_ratio": _mean(_numbers(kept, "staging_compression_ratio")[staged]),
        "staging_place": " and ".join(sorted(set(kept["staging_place"].to_numpy()[staged]) - {""})),
        "overhead_mean_s": trials.mean("overhead_s"),
        "step_time_median_s": trials.sample("step_time_median_s").value,
        "peak_memory_max_bytes": _largest(_numbers(kept, "peak_memory_bytes")),
        "share_n": int(shared.sum()),
        **_mean_shares({name: _numbers(kept, name)[shared] for name in SHARES}),
    }


def _mean_shares(shares: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """Return the mean shares of the wall time; the rest includes the launch unless it was timed in all runs."""
    launch, rest = shares["launch_ratio"], shares["rest_ratio"]
    if np.isnan(launch).any():
        # Means over different runs would not add up.
        shares = {**shares, "launch_ratio": np.full_like(launch, np.nan), "rest_ratio": rest + np.nan_to_num(launch)}
    return {name: _mean(values) for name, values in shares.items()}


def _quietness(kept: pd.DataFrame) -> dict[str, Any]:
    """Return how many of the runs behind the row were disturbed or stalled, and the largest disturbance."""
    quiet, stalls = kept["quiet"].to_numpy(), _numbers(kept, "stalls")
    known, stalled = quiet != UNKNOWN, stalls > 0
    longest = kept[stalled].nlargest(1, "stall_max_s") if stalled.any() else kept[:0]
    return {
        "n_disturbed": float((quiet == DISTURBED).sum()) if known.any() else float("nan"),
        "others_max_ratio": _largest(_numbers(kept, "others_ratio")[known]),
        "steal_max_ratio": _largest(_numbers(kept, "steal_ratio")[known]),
        "n_stalled": float(stalled.sum()) if not np.isnan(stalls).all() else float("nan"),
        "stall_max_s": _mean(_numbers(longest, "stall_max_s")),
        "stall_beside_s": _mean(_numbers(longest, "stall_beside_s")),
    }


def _judgement(group: pd.DataFrame) -> dict[str, Any]:
    """Return the verdict of the rules on the runs that make the result."""
    (rules, rule), (chosen, window) = result_rules(group), choose_runs(group)
    counts = count_runs(chosen)
    counting = ("converged",) if rules.counts == "all" else COMPLETE
    levels = [
        level
        for level, outcome in zip(chosen["valid_for"].tolist(), chosen["outcome"].tolist(), strict=True)
        if outcome in counting
    ]
    numbers = [no_result(counts, rules), too_few(counts, rules, rule)]
    reasons = [*split_reasons(chosen["invalid_reasons"]), *filter(None, numbers)]
    return {
        "runs_by_rule": rule,
        "n_counted": counted_runs(counts, rules),
        "no_result": numbers[0],
        "valid_for": "none" if any(numbers) else common_levels(levels),
        "verdict": join_reasons([judge_runs(counts, rules, rule), *([window] if window else [])]),
        "flags": join_reasons(split_reasons(chosen["flags"])),
        "label": label_result(group["suite"].iloc[0], reasons),
    }


def _wide_scaling(points: pd.DataFrame) -> pd.DataFrame:
    """Return the scaling table with one row per scale: columns such as ``train_rate_speedup_ratio``."""
    keys = POINT
    wide = points[points["measure"] == "time_to_train"][[*keys, "baseline"]]
    for measure in points["measure"].unique():
        part = points.loc[points["measure"] == measure, [*keys, *_SCALING, "efficiency_high_ratio"]]
        renamed = part.rename(columns={name: f"{measure}_{name}" for name in part.columns if name not in keys})
        wide = wide.merge(renamed, on=keys, how="left", validate="1:1")
    return wide


def _ideal_rates(scales: pd.DataFrame) -> pd.Series:
    """Return the training throughput of the base scale, times the ranks over the base's."""
    base = scales.merge(
        scales[[*POINT, "ranks", "train_rate_samples_per_s"]],
        left_on=[*SERIES, "baseline"],
        right_on=POINT,
        suffixes=("", "_base"),
        how="left",
        validate="m:1",
    )
    ideal: pd.Series = base["train_rate_samples_per_s_base"] * base["ranks"] / base["ranks_base"]
    return ideal


def _numbers(runs: pd.DataFrame, column: str) -> NDArray[np.float64]:
    """Return a column as numbers: for thousands of small groups, tables of a part of the rows take too long."""
    return runs[column].to_numpy(float)


def _mean(values: NDArray[np.float64]) -> float:
    measured = ~np.isnan(values)
    return float(np.where(measured, values, 0.0).sum() / measured.sum()) if measured.any() else float("nan")


def _least(values: NDArray[np.float64]) -> float:
    measured = values[~np.isnan(values)]
    return float(measured.min()) if len(measured) else float("nan")


def _largest(values: NDArray[np.float64]) -> float:
    measured = values[~np.isnan(values)]
    return float(measured.max()) if len(measured) else float("nan")
