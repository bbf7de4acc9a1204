"""Tables IV, V and VI of the MLPerf HPC paper, computed from results."""

import pandas as pd

SECONDS_PER_MINUTE = 60.0
STAGED_S = 1.0
"""Some logs have staging keys around nothing, up to 0.85 s on a mean (mlperf_logs.md 4); Table V leaves them out."""


def table_four(results: pd.DataFrame) -> pd.DataFrame:
    """Return Table IV: time to solution by target, processors, accelerators, and samples of a batch per unit."""
    return results[["label", "benchmark", "division"]].assign(
        time_to_solution_min=results["run_by_target_s"] / SECONDS_PER_MINUTE,
        processors=results["processors"],
        accelerators=results["accelerators"],
        samples_per_unit=results["samples_per_unit"],
    )


def table_five(results: pd.DataFrame) -> pd.DataFrame:
    """Return Table V: staging time and its ratio to the epoch time, of results that stage anything."""
    staged = results[results["staging_s"] >= STAGED_S]
    return staged[["label", "benchmark", "division"]].assign(
        staging_min=staged["staging_s"] / SECONDS_PER_MINUTE,
        staging_std_min=staged["staging_std_s"] / SECONDS_PER_MINUTE,
        staging_ratio=staged["staging_ratio"],
        staging_share_ratio=staged["staging_share_ratio"],
        staging_share_model_ratio=staged["staging_share_model_ratio"],
    )


def table_six(results: pd.DataFrame) -> pd.DataFrame:
    """Return Table VI: batch, epochs, throughput per unit, time to solution and compute budget.

    The paper takes the mean time by target and all else by status; here both times are given.
    """
    return results[
        [
            "label",
            "benchmark",
            "division",
            "global_batch_samples",
            "epochs",
            "epochs_std",
            "units",
            "train_rate_per_unit_samples_per_s",
            "train_rate_per_unit_std_samples_per_s",
            "train_rate_per_unit_by_steps_samples_per_s",
            "evaluation_rate_per_unit_samples_per_s",
            "evaluation_rate_per_unit_std_samples_per_s",
        ]
    ].assign(
        time_to_solution_min=results["run_s"] / SECONDS_PER_MINUTE,
        time_to_solution_std_min=results["run_std_s"] / SECONDS_PER_MINUTE,
        time_to_solution_by_target_min=results["run_by_target_s"] / SECONDS_PER_MINUTE,
        budget_unit_h=results["budget_unit_h"],
    )
