"""Columns of the tables of scores: the contract between those who make scores and those who show, rank or compare them.

An empty cell was not measured and not declared. `origin` says whose result a row is: the name of a study, or of a file
of published results (`config/published/`); `result` is its name there. `source` names the raw file.
"""

TRIAL_COLUMNS = (
    "run_id", "suite", "workload", "benchmark", "variant", "scale", "nodes", "ranks", "repetition", "outcome",
    "precision", "compression", "train_rate_samples_per_s", "flop_per_sample", "flop_method", "rate_flop_per_s",
    "quality_metric", "quality", "quality_target", "exponent", "quality_coefficient_ratio",
    "quality_coefficient_capped_ratio", "valid_rate_flop_per_s", "valid_rate_capped_flop_per_s", "time_to_quality_s",
    "time_to_train_s", "mean_power_w", "power_method", "flop_per_j", "valid_flop_per_j", "dropped", "reason",
    "record_path", "work_source", "power_source",
)  # fmt: skip
"""One row for each timed run, failed ones included (table `run_scores`)."""
SCORE_COLUMNS = (
    "method", "origin", "result", "machine", "suite", "workload", "benchmark", "dataset", "variant", "scale", "nodes",
    "ranks", "precision", "compression", "global_batch_samples", "n", "n_scored", "runs_by_rule",
    "train_rate_samples_per_s", "train_rate_low_samples_per_s", "train_rate_high_samples_per_s",
    "flop_per_sample", "flop_method", "rate_flop_per_s", "rate_low_flop_per_s", "rate_high_flop_per_s",
    "rate_variation_ratio", "peak_flop_per_s", "peak_ratio", "peak_source",
    "quality_metric", "quality", "quality_target", "exponent", "quality_coefficient_ratio",
    "quality_coefficient_capped_ratio", "valid_rate_flop_per_s", "valid_rate_low_flop_per_s",
    "valid_rate_high_flop_per_s", "valid_rate_capped_flop_per_s", "valid_rate_variation_ratio",
    "time_to_quality_s", "time_to_train_s", "mean_power_w", "power_method", "flop_per_j", "valid_flop_per_j",
    "valid_for", "label", "score_method", "reason", "source",
)  # fmt: skip
"""One row for each result: a benchmark and variant at a scale of a machine (tables `scores`, `machine_scores`).

`method` is measured or declared. `rate_flop_per_s` and `valid_rate_flop_per_s` (VFLOPS) are the scores by the suite's
procedure (extremes dropped), the bounds 95 % intervals over all trials; `dataset` is the name of the dataset with its
source, such as "imagenet (official)" or "images_tiny (generated)": results on different ones are never ranked together.
"""
