"""Summarise the kept runs of one submission: means, deviations, shares, throughputs, time budget and official score."""

import math
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

import pandas as pd

from hpcai.core.messages import Message
from hpcai.metrics.scores.validity import REASON_MARK, split_reasons
from hpcai.mlperf_hpc.analysis.counted_runs import FEWEST_RUNS, keep_runs
from hpcai.mlperf_hpc.analysis.run_quantities import NAN, divide
from hpcai.mlperf_hpc.analysis.targets import QUALITY, Quality

MEANS_APART = Message(
    "result_quantities.means_apart",
    "runs differ in {quantity} throughput: its arithmetic mean is {ratio:.3g} times the harmonic one",
)
NO_TIME = Message("result_quantities.no_time", "no time to train by its logs: {why}")
UNKNOWN_BENCHMARK = Message("result_quantities.unknown_benchmark", "the rules know no such benchmark")
OTHER_RUNS = Message("result_quantities.other_runs", "{runs} runs, the rules ask for {needed}")
OTHER_SAMPLES = Message("result_quantities.other_samples", "evaluated on {found} samples, the rules ask for {needed}")

SECONDS_PER_HOUR = 3600.0
MEANS_APART_RATIO = 1.05
"""From this ratio on, the reason mentions how far the arithmetic mean of throughputs is from the harmonic one."""
_IDENTITY = ("origin", "method", "submission", "org", "system", "benchmark", "scaling", "division", "rule_set", "unit")
_SETTINGS = (
    "nodes",
    "processors",
    "accelerators",
    "units",
    "global_batch_samples",
    "train_samples",
    "quality_target",
)


def summarise_runs(runs: pd.DataFrame) -> dict[str, Any]:
    """Return one row of the result table, without its label.

    Parameters
    ----------
    runs
        Rows of the run table: all runs of one submission.

    Returns
    -------
    dict
        Means and sample standard deviations (divisor: kept runs - 1) over the runs kept by status; NaN if a kept run
        lacks the quantity. Definitions: mlperf_logs.md 6.
    """
    kept = runs[runs["kept_by_status"]]
    reasons = split_reasons((kept if len(kept) else runs)["reason"])
    score_s, why_not = _score(runs)
    parts = {**_identify(runs, reasons), **_means(kept), **_by_target(runs[runs["kept_by_target"]])}
    units = parts["units"]
    return {
        **parts,
        "kept": len(kept),
        "samples_per_unit": divide(parts["global_batch_samples"], units),
        **_shares(kept),
        **_movement(kept),
        **_rates(kept, units),
        "budget_unit_h": parts["run_s"] / SECONDS_PER_HOUR * units,
        "budget_std_unit_h": parts["run_std_s"] / SECONDS_PER_HOUR * units,
        "run_variation_ratio": divide(parts["run_std_s"], parts["run_s"]),
        "time_to_train_s": score_s,
        "reason": join_reasons([*why_not, *_why_none_kept(runs, kept), *_say_means(kept), *reasons]),
        "source": _folder(runs),
    }


def harmonic_mean(rates: "pd.Series[float]") -> float:
    """Return the reciprocal of the mean time per sample (``mean=harmonic``); NaN if a rate is missing."""
    return divide(1.0, mean(1.0 / rates))


def mean(values: "pd.Series[float]") -> float:
    """Return the mean; NaN if a value is missing."""
    return float(values.mean(skipna=False)) if len(values) else NAN


def deviation(values: "pd.Series[float]") -> float:
    """Return the sample standard deviation; NaN if a value is missing, or with fewer than two."""
    return float(values.std(ddof=1, skipna=False)) if len(values) > 1 else NAN


def join_reasons(reasons: Iterable[str]) -> str:
    """Join different reasons into one cell."""
    return REASON_MARK.join(dict.fromkeys(reason for reason in reasons if reason))


def _identify(runs: pd.DataFrame, reasons: list[str]) -> dict[str, Any]:
    first = runs.iloc[0]
    quality = QUALITY.get(str(first["benchmark"]))
    factor = first["scaling_factor"]
    return {
        **{name: first[name] for name in _IDENTITY},
        **{name: _common(runs, name, reasons) for name in _SETTINGS},
        "started_utc": _first_start(runs),
        "runs": len(runs),
        "runs_by_rule": quality.runs_by_rule if quality else NAN,
        "good_by_status": int(runs["good_by_status"].sum()),
        "good_by_target": int(runs["good_by_target"].sum()),
        "scaling_factor": 1.0 if pd.isna(factor) else float(factor),
    }


def _first_start(runs: pd.DataFrame) -> str:
    """Return the start of the first of the runs (UTC); blank if no log tells one."""
    return min((str(start) for start in runs["started_utc"].dropna() if start), default="")


def _common(runs: pd.DataFrame, name: str, reasons: list[str]) -> float:
    """Return the value shared by all runs; NaN with a reason if they differ."""
    values = runs[name].dropna().unique()
    if len(values) > 1:
        reasons.append(f"{name} differs between the runs: {', '.join(f'{value:g}' for value in sorted(values))}")
    return values.tolist()[0] if len(values) == 1 else NAN


def _means(kept: pd.DataFrame) -> dict[str, float]:
    """Return times and counts; compute time is T_epochs."""
    return {
        "run_s": mean(kept["run_s"]),
        "run_std_s": deviation(kept["run_s"]),
        "staging_s": mean(kept["staging_s"]),
        "staging_std_s": deviation(kept["staging_s"]),
        "epochs": mean(kept["epochs"]),
        "epochs_std": deviation(kept["epochs"]),
        "epoch_s": mean(kept["epoch_s"]),
        "epoch_std_s": deviation(kept["epoch_s"]),
        "compute_s": mean(kept["epochs_s"]),
        "compute_std_s": deviation(kept["epochs_s"]),
        "evaluation_s": mean(kept["evaluation_s"]),
        "evaluations": mean(kept["evaluations"]),
        "evaluations_std": deviation(kept["evaluations"]),
        "train_s": mean(kept["train_s"]),
        "extra_s": mean(kept["extra_s"]),
    }


def _by_target(kept: pd.DataFrame) -> dict[str, float]:
    return {"run_by_target_s": mean(kept["run_s"]), "run_by_target_std_s": deviation(kept["run_s"])}


def _shares(kept: pd.DataFrame) -> dict[str, float]:
    """Return staging ratio R = T_staging / T_epoch (Table V), R / (R + epochs) (eq. 2), and ratios of means (Fig. 1).

    Only staging on the clock and evaluation without concurrent training have a share of the time to solution.
    """
    run_s = mean(kept["run_s"])
    ratio = divide(mean(kept["staging_s"]), mean(kept["epoch_s"]))
    return {
        "staging_ratio": ratio,
        "staging_share_model_ratio": divide(ratio, ratio + mean(kept["epochs"])),
        "staging_share_ratio": divide(mean(kept["staging_in_run_s"]), run_s),
        "evaluation_share_ratio": divide(mean(kept["evaluation_alone_s"]), run_s),
        "train_share_ratio": divide(mean(kept["train_s"]), run_s),
        "extra_share_ratio": divide(mean(kept["extra_s"]), run_s),
    }


def _movement(kept: pd.DataFrame) -> dict[str, float]:
    """Time to solution with all staging and without any; NaN if a kept run did not log its staging."""
    without = kept["run_s"] - kept["staging_in_run_s"]
    return {
        "run_with_movement_s": mean(without + kept["staging_s"]),
        "run_without_movement_s": mean(without.where(kept["staging_s"].notna())),
    }


def _rates(kept: pd.DataFrame, units: float) -> dict[str, float]:
    """Throughputs: harmonic means (Fig. 2), and arithmetic means per compute unit (Table VI)."""
    train, evaluation = kept["train_rate_samples_per_s"], kept["evaluation_rate_samples_per_s"]
    by_steps = kept["train_rate_by_steps_samples_per_s"]
    return {
        "epoch_rate_per_s": harmonic_mean(kept["epoch_rate_per_s"]),
        "train_rate_samples_per_s": harmonic_mean(train),
        "evaluation_rate_samples_per_s": harmonic_mean(evaluation),
        "train_rate_per_unit_samples_per_s": divide(mean(train), units),
        "train_rate_per_unit_std_samples_per_s": divide(deviation(train), units),
        "train_rate_per_unit_by_steps_samples_per_s": divide(mean(by_steps), units),
        "train_rate_per_unit_by_steps_std_samples_per_s": divide(deviation(by_steps), units),
        "evaluation_rate_per_unit_samples_per_s": divide(mean(evaluation), units),
        "evaluation_rate_per_unit_std_samples_per_s": divide(deviation(evaluation), units),
    }


def _say_means(kept: pd.DataFrame) -> list[str]:
    """Report where the two means of throughputs, per result and per unit, differ widely."""
    said: list[str] = []
    for name in ("train", "evaluation"):
        rates = kept[f"{name}_rate_samples_per_s"]
        ratio = divide(mean(rates), harmonic_mean(rates))
        if ratio >= MEANS_APART_RATIO:
            said.append(MEANS_APART(quantity=name, ratio=ratio))
    return said


def _score(runs: pd.DataFrame) -> tuple[float, list[str]]:
    """Return the official time to train: olympic mean of complying runs at the target, times the scaling factor.

    (MLPerf HPC rules 3.0, 8 Benchmark Results; the package's result_summarizer.)
    """
    quality = QUALITY.get(str(runs["benchmark"].iloc[0]))
    why = _why_no_score(runs, quality)
    if why:
        return NAN, [NO_TIME(why=why)]
    kept = keep_runs(list(runs["run_s"]), list(counts_officially(runs)))
    factor = runs["scaling_factor"].iloc[0]
    times_s = runs["run_s"].tolist()
    return math.fsum(times_s[place] for place in kept) / len(kept) * (1.0 if pd.isna(factor) else factor), []


def counts_officially(runs: pd.DataFrame) -> "pd.Series[bool]":
    """Return which runs comply and reach the target."""
    return runs["complies"].eq(other=True) & runs["good_by_target"]


def _why_no_score(runs: pd.DataFrame, quality: Quality | None) -> str:
    if quality is None:
        return UNKNOWN_BENCHMARK()
    if len(runs) != quality.runs_by_rule:
        return OTHER_RUNS(runs=len(runs), needed=quality.runs_by_rule)
    samples = set(runs["evaluation_samples"].dropna())
    if quality.evaluation_samples and samples and samples != {quality.evaluation_samples}:
        found = ", ".join(f"{count:g}" for count in sorted(samples))
        return OTHER_SAMPLES(found=found, needed=quality.evaluation_samples)
    failed = len(runs) - int(counts_officially(runs).sum())
    if failed > 1:
        return f"{failed} of {len(runs)} runs do not comply or miss the target, at most one may be dropped"
    return ""


def _why_none_kept(runs: pd.DataFrame, kept: pd.DataFrame) -> list[str]:
    if len(kept):
        return []
    if len(runs) < FEWEST_RUNS:
        return [f"no means: {len(runs)} runs leave none between the fastest and the slowest"]
    failed = len(runs) - int(runs["good_by_status"].sum())
    return [f"no means: {failed} of {len(runs)} runs claim no success or have no time, at most one may be dropped"]


def _folder(runs: pd.DataFrame) -> str:
    return str(PurePosixPath(str(runs["source"].iloc[0])).parent)
