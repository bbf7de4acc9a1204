"""The table of scales: what the repeats of one benchmark and variant at one scale say together."""

from dataclasses import fields
from typing import Any

import pandas as pd

from hpcai.config.runs import Point
from hpcai.metrics.quietness import DISTURBED, UNKNOWN
from hpcai.metrics.scaling import COMPLETE, compute_scaling
from hpcai.metrics.scores import TimeShares
from hpcai.metrics.statistics import mean_interval, median, olympic_mean, variation_ratio
from hpcai.metrics.validity import (
    RunCounts,
    common_levels,
    counted_runs,
    join_reasons,
    judge_runs,
    label_result,
    no_result,
    split_reasons,
    too_few,
)
from hpcai.rules.table import ResultRules, rules_of

OUTCOMES = ("converged", "not_converged", "diverged", "failed", "timed_out")
POINT_SETTINGS = tuple(
    name
    for name in Point.model_fields
    if name not in ("benchmark", "variant", "nodes", "ranks_per_node", "global_batch")  # stand in columns of their own
)
"""What makes a variant: the settings of a point of the run table, one column each."""
ABOUT = (
    "suite",
    "workload",
    *POINT_SETTINGS,
    "global_batch_samples",
    "data_source",
    "quality_metric",
    "quality_unit",
    "quality_target",
)
"""Columns of the run table that are the same in all runs of a scale."""
KEYS = ["benchmark", "variant", "scale", "nodes", "ranks_per_node", "ranks"]
SHARES = tuple(field.name for field in fields(TimeShares))
RATES = {
    "train_rate": "train_rate_samples_per_s",
    "evaluation_rate": "evaluation_rate_samples_per_s",
    "staging_read_rate": "staging_read_rate_bytes_per_s",
    "staging_write_rate": "staging_write_rate_bytes_per_s",
}
_SCALING = ("speedup_ratio", "speedup_low_ratio", "speedup_high_ratio", "efficiency_ratio", "efficiency_low_ratio")


def summarise_scales(runs: pd.DataFrame) -> pd.DataFrame:
    """Return one row per benchmark, variant and scale.

    Parameters
    ----------
    runs
        The run table (:func:`hpcai.tables.collect_runs`).

    Returns
    -------
    pandas.DataFrame
        ``n_ok`` of ``n`` runs converged. ``time_to_train_score_s`` is the olympic mean of the rules [s], the columns
        ``time_to_train_mean_s``, ``_low_s``, ``_high_s`` the plain mean of the converged runs with its interval
        (:func:`hpcai.metrics.statistics.mean_interval`). Rates are arithmetic means of the runs' rates with their
        intervals over the ``rate_n`` runs that trained to their end; ``staging_epoch_ratio`` is a ratio of
        means; shares are means of the runs' shares. Speed-ups and efficiencies are those of
        :func:`hpcai.metrics.scaling.compute_scaling`.
    """
    rows = []
    for key, group in runs.groupby(KEYS, sort=False):
        complete = group[group["outcome"].isin(COMPLETE)]
        rows.append(
            dict(zip(KEYS, key, strict=True))
            | {name: group[name].iloc[0] for name in ABOUT}
            | _counts(group)
            | _time_to_train(group)
            | _rates(complete)
            | _staging_and_shares(complete)
            | _quietness(complete)
            | _judgement(group)
        )
    scales = pd.DataFrame(rows)
    if scales.empty:
        return pd.DataFrame(columns=KEYS)
    scales = scales.merge(_wide_scaling(runs), on=["benchmark", "variant", "scale"], how="left", validate="1:1")
    scales["train_rate_ideal_samples_per_s"] = _ideal_rates(scales)
    return scales.sort_values(["benchmark", "variant", "ranks", "nodes"], kind="stable", ignore_index=True)


def _counts(group: pd.DataFrame) -> dict[str, Any]:
    counts = {f"n_{outcome}": int((group["outcome"] == outcome).sum()) for outcome in OUTCOMES}
    return {"n": len(group), "n_ok": counts["n_converged"], **counts}


def _time_to_train(group: pd.DataFrame) -> dict[str, Any]:
    times = group.loc[group["outcome"] == "converged", "time_to_train_s"]
    epochs = group.loc[group["outcome"] == "converged", "epochs_to_target"]
    rules, rule = _rules(group)
    # Where trials that trained to their end count, one that missed the target is no failure: it has no time to it.
    failed = len(group) - len(times) if rules.counts == "all" else 0
    score = olympic_mean(times, failed=failed, runs_by_rule=rule)
    mean = mean_interval(times)
    return {
        "time_to_train_score_s": score.value,
        "time_to_train_score_method": score.method,
        "time_to_train_score_note": score.note,
        "time_to_train_mean_s": mean.value,
        "time_to_train_low_s": mean.low,
        "time_to_train_high_s": mean.high,
        "time_to_train_median_s": median(times),
        "time_to_train_variation_ratio": variation_ratio(times),
        "epochs_to_target_median": median(epochs),
        "epochs_to_target_min": float(epochs.min()) if len(epochs) else float("nan"),
        "epochs_to_target_max": float(epochs.max()) if len(epochs) else float("nan"),
    }


def _rates(complete: pd.DataFrame) -> dict[str, Any]:
    columns: dict[str, Any] = {"rate_n": len(complete)}
    for name, column in RATES.items():
        estimate, unit = mean_interval(complete[column]), column.removeprefix(f"{name}_")
        columns |= {
            f"{name}_mean_{unit}": estimate.value,
            f"{name}_low_{unit}": estimate.low,
            f"{name}_high_{unit}": estimate.high,
        }
    return columns


def _staging_and_shares(complete: pd.DataFrame) -> dict[str, Any]:
    staged = complete[complete["staging_epoch_ratio"].notna()]
    shared = complete[complete["rest_ratio"].notna()]
    return {
        "staging_n": len(staged),
        "staging_mean_s": _mean(staged["staging_s"]),
        "epoch_mean_s": _mean(complete["epoch_s"]),
        "staging_epoch_ratio": _mean(staged["staging_s"]) / _mean(staged["epoch_s"]),
        "staging_compression_ratio": _mean(staged["staging_compression_ratio"]),
        "overhead_mean_s": _mean(complete["overhead_s"]),
        "step_time_median_s": median(complete["step_time_median_s"]),
        "peak_memory_max_bytes": float(complete["peak_memory_bytes"].max()) if len(complete) else float("nan"),
        "share_n": len(shared),
        **{name: _mean(shared[name]) for name in SHARES},
    }


def _quietness(complete: pd.DataFrame) -> dict[str, Any]:
    """Return how many of the runs that the means rest on were disturbed or stalled, and by how much at most."""
    known = complete[complete["quiet"] != UNKNOWN]
    watched, stalled = complete[complete["stalls"].notna()], complete[complete["stalls"] > 0]
    longest = stalled.nlargest(1, "stall_max_s")
    return {
        "n_disturbed": float((known["quiet"] == DISTURBED).sum()) if len(known) else float("nan"),
        "others_max_ratio": float(known["others_ratio"].max()),
        "steal_max_ratio": float(known["steal_ratio"].max()),
        "n_stalled": float(len(stalled)) if len(watched) else float("nan"),
        "stall_max_s": _mean(longest["stall_max_s"]),
        "stall_beside_s": _mean(longest["stall_beside_s"]),
    }


def _judgement(group: pd.DataFrame) -> dict[str, Any]:
    rules, rule = _rules(group)
    converged, missed = (group["outcome"] == outcome for outcome in ("converged", "not_converged"))
    counts = RunCounts(int(converged.sum()), int(missed.sum()), len(group))
    counted = converged if rules.counts == "all" else converged | missed
    numbers = [no_result(counts, rules), too_few(counts, rules, rule)]
    reasons = [*split_reasons(group["invalid_reasons"]), *filter(None, numbers)]
    return {
        "runs_by_rule": rule,
        "n_counted": counted_runs(counts, rules),
        "no_result": numbers[0],
        "valid_for": "none" if any(numbers) else common_levels(group.loc[counted, "valid_for"]),
        "verdict": judge_runs(counts, rules, rule),
        "flags": join_reasons(split_reasons(group["flags"])),
        "label": label_result(group["suite"].iloc[0], reasons),
    }


def _rules(group: pd.DataFrame) -> tuple[ResultRules, int]:
    """Return the suite's rules of a result, and the number of runs that they ask for."""
    rules = rules_of(group["suite"].iloc[0]).results
    return rules, rules.runs[group["workload"].iloc[0]]


def _wide_scaling(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the scaling table with one row per scale: columns such as ``train_rate_speedup_ratio``."""
    points = compute_scaling(runs)
    keys = ["benchmark", "variant", "scale"]
    wide = points[points["measure"] == "time_to_train"][[*keys, "baseline"]]
    for measure in points["measure"].unique():
        part = points.loc[points["measure"] == measure, [*keys, *_SCALING, "efficiency_high_ratio"]]
        renamed = part.rename(columns={name: f"{measure}_{name}" for name in part.columns if name not in keys})
        wide = wide.merge(renamed, on=keys, how="left", validate="1:1")
    return wide


def _ideal_rates(scales: pd.DataFrame) -> pd.Series:
    """Training throughput of the base scale, times the ranks over the base's."""
    base = scales.merge(
        scales[["benchmark", "variant", "scale", "ranks", "train_rate_mean_samples_per_s"]],
        left_on=["benchmark", "variant", "baseline"],
        right_on=["benchmark", "variant", "scale"],
        suffixes=("", "_base"),
        how="left",
        validate="m:1",
    )
    ideal: pd.Series = base["train_rate_mean_samples_per_s_base"] * base["ranks"] / base["ranks_base"]
    return ideal


def _mean(values: pd.Series) -> float:
    return float(values.mean()) if len(values) else float("nan")
