"""Which columns of the tables of predictions the page shows: what a reader compares, the files have all."""

from hpcai.report.cells import Column
from hpcai.report.columns import plain

PREDICTIONS = (
    *plain("benchmark", "variant", "question", "from_scale", "scale_words", "ranks", "link", "precision"),
    *plain("compression", "global_batch_samples"),
    Column("time_to_train_s", "time_to_train_low_s", "time_to_train_high_s", "interval_n", "time_to_train_reason"),
    Column("step_s", "step_low_s", "step_high_s", "interval_n", "reason"),
    *plain("cost_model", "compute_s", "communication_s", "communication_share_ratio", "calibration_ratio", "regime"),
    Column("rate_samples_per_s", "rate_low_samples_per_s", "rate_high_samples_per_s"),
    Column("speedup_ratio", "speedup_low_ratio", "speedup_high_ratio"),
    Column("efficiency_ratio", "efficiency_low_ratio", "efficiency_high_ratio", reason="efficiency_reason"),
    Column("baseline"),
    Column("rate_flop_per_s", "rate_low_flop_per_s", "rate_high_flop_per_s", reason="reason"),
    Column(
        "vflops_flop_per_s", "vflops_low_flop_per_s", "vflops_high_flop_per_s", reason="vflops_reason"
    ),
    *plain("epochs", "epochs_basis", "interval_basis", "assumed", "extrapolated", "method", "reason", "source"),
)  # fmt: skip
PREDICTION_ACCURACY = (
    *plain("benchmark", "variant", "scale", "ranks", "basis", "question", "cost_model"),
    Column("predicted_step_s", reason="reason"), Column("measured_step_s", reason="reason"),
    Column("relative_error_ratio", reason="reason"), *plain("used_for_interval", "reason", "method"),
    Column("source"),
)  # fmt: skip
TRAINING_NETWORKS = plain(
    "network", "data", "parameters", "forward_flop_per_sample", "cost_model", "step_s", "epoch_s", "compute_s",
    "forward_s", "input_gradient_s", "weight_gradient_s", "elementwise_s", "communication_s",
    "communication_share_ratio", "method", "source",
)  # fmt: skip
PREDICTION_FINDINGS = plain("finding", "part", "source_value", "computed", "reproduced", "note", "source")
KERNEL_ACCURACY = (
    *plain("kernel"), Column("mape_ratio", n="n_test", reason="reason"), *plain("goal_ratio", "within_goal"),
    *plain("median_ape_ratio", "bias_ratio", "weighted_error_ratio", "mape_log_linear_ratio"),
    *plain("mape_two_parameter_ratio", "gain_ratio", "n", "n_training", "n_validation", "n_test", "epochs"),
    *plain("method", "reason", "source"),
)  # fmt: skip
KERNEL_GOALS = plain(
    "goal", "value_ratio", "goal_ratio", "within_goal", "kernels", "kernels_within_goal", "worst_kernel", "method",
    "source",
)  # fmt: skip
STEP_STAGES = plain(
    "stage", "overhead", "n", "weighted_error_ratio", "total_error_ratio", "largest_error_ratio", "goal_ratio",
    "within_goal", "method", "source",
)  # fmt: skip
STEP_ACCURACY = (
    *plain("name", "origin", "variant", "scale", "ranks", "batch", "cost_model", "overhead", "stage"),
    Column("estimated_s", reason="reason"), Column("measured_s", reason="reason"),
    Column("relative_error_ratio", reason="reason"),
    *plain("goal_ratio", "within_goal", "covered_ratio", "quiet", "others_ratio", "steal_ratio"),
    *plain("method", "reason", "source"),
)  # fmt: skip
HPL_PUBLISHED = plain(
    "row", "nodes", "gpus_per_node", "order", "block", "estimated_rate_flop_per_s", "real_rate_flop_per_s",
    "printed_time_s", "implied_time_s", "printed_difference_ratio", "difference_ratio", "assumption_set", "assumptions",
    "variant", "rate_flop_per_s", "error_to_estimate_ratio", "error_to_real_ratio", "fitted", "note", "method",
    "source",
)  # fmt: skip
HPL_VALIDATION = (
    *plain("order", "block", "process_rows", "process_columns", "attempt", "model"),
    Column("measured_time_s", reason="reason"), Column("measured_rate_flop_per_s", reason="reason"),
    Column("predicted_time_s", reason="reason"), Column("error_ratio", reason="reason"),
    *plain("goal_ratio", "within_goal", "accepted", "cpu_ratio", "steal_ratio", "residual", "threshold", "verdict"),
    *plain("method", "reason", "source"),
)  # fmt: skip
HPL_RATES = (
    *plain("routine", "remaining_order", "rows", "columns", "block", "process_rows", "process_columns"),
    Column("simultaneous"), Column("rate_flop_per_s", n="n", reason="reason"),
    *plain("best_flop_per_s", "cpu_ratio", "quiet", "others_ratio", "steal_ratio", "library", "method", "reason"),
    *plain("source"),
)  # fmt: skip
HPL_ANSWERS = (
    *plain("machine", "question", "given"), Column("answer", reason="reason"),
    *plain("unit", "variant", "method", "reason", "source"),
)  # fmt: skip
