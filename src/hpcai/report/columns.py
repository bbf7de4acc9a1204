"""Which columns of each table the page shows: the ones that a reader compares, the files have all."""

from dataclasses import replace

from hpcai.report.cells import POINT, RAW, Column

TIME_TO_TRAIN = Column("time_to_train_score_s", "time_to_train_low_s", "time_to_train_high_s", "time_to_train_n")
THROUGHPUT = Column(
    "train_rate_samples_per_s", "train_rate_low_samples_per_s", "train_rate_high_samples_per_s", "rate_n"
)
RATE = Column("rate_flop_per_s", "rate_low_flop_per_s", "rate_high_flop_per_s", "n_scored", "reason")
VALID_RATE = Column(
    "vflops_flop_per_s", "vflops_low_flop_per_s", "vflops_high_flop_per_s", "n_scored", "reason"
)


def plain(*keys: str) -> tuple[Column, ...]:
    """Return columns that have neither interval nor reason."""
    return tuple(Column(key) for key in keys)


ANSWER = (
    Column(POINT), Column("converged", link="runs_folder", note="statistic"), Column("valid"),
    replace(TIME_TO_TRAIN, note="stalled_note"), replace(THROUGHPUT, note="machine_note"),
    Column("rate_flop_per_s", "rate_low_flop_per_s", "rate_high_flop_per_s", "score_n", "score_reason"),
    Column(
        "vflops_flop_per_s", "vflops_low_flop_per_s", "vflops_high_flop_per_s", "score_n", "score_reason",
        "exponent_note",
    ),
    Column(
        "train_rate_efficiency_ratio", "train_rate_efficiency_low_ratio", "train_rate_efficiency_high_ratio",
        note="base_note",
    ),
)  # fmt: skip
"""The answer on the first screen: the table of scales beside the table of scores."""
SCORES = (
    Column(POINT), RATE, Column("peak_ratio"), VALID_RATE, Column("exponent"),
    *plain("quality", "quality_target", "quality_coefficient_ratio", "vflops_capped_flop_per_s"),
    Column("rate_variation_ratio"), Column("vflops_variation_ratio"),
    *plain("statistic", "n", "n_scored", "runs_by_rule", "time_to_quality_s", "evaluation_s", "time_to_train_s"),
    *plain("mean_power_w", "power_method", "flop_per_j", "vflops_flop_per_j", "dataset", "valid_for"),
    *plain("score_method", "peak_source", "source"),
)  # fmt: skip
MACHINE_SCORES = (
    *plain("machine", "benchmark", "variant", "scale", "dataset"), RATE, VALID_RATE,
    *plain("statistic", "exponent", "quality", "flop_per_j", "vflops_flop_per_j", "chosen_because", "source"),
)  # fmt: skip
RUN_SCORES = (
    *plain("run_id", "outcome"), Column("rate_flop_per_s", reason="reason"),
    Column("vflops_flop_per_s", reason="reason"),
    *plain("exponent", "quality", "quality_coefficient_ratio", "vflops_capped_flop_per_s", "time_to_quality_s"),
    *plain("evaluation_s", "time_to_train_s", "mean_power_w", "power_method", "flop_per_j", "vflops_flop_per_j"),
    *plain("dropped", RAW),
)  # fmt: skip
SCALES = (
    *plain(POINT), TIME_TO_TRAIN,
    *plain("time_to_train_score_method", "time_to_train_score_note", "time_to_train_variation_ratio"),
    *plain("epochs_to_target_median", "statistic"), THROUGHPUT,
    *plain("step_time_median_s", "staging_mean_s", "overhead_mean_s", "peak_memory_max_bytes"),
    *plain("n_disturbed", "others_max_ratio", "steal_max_ratio", "n_stalled", "stall_max_s", "stall_beside_s"),
    *plain("n_ok", "n", "verdict", "valid_for", "global_batch_samples", "precision", "compression"),
)  # fmt: skip
EFFICIENCY = (
    *plain("run_id", "outcome", "asked_nodes", "asked_cores", "asked_memory_bytes", "asked_time_s", "queue_wait_s"),
    *plain("wall_s", "cpu_used_ratio", "node_memory_bytes", "memory_used_ratio", "time_used_ratio", "overhead_ratio"),
    *plain("node_hours", "attempts", "lost_node_hours", "source", "reason", RAW),
)  # fmt: skip
RANKING = (
    *plain("list", "place", "result", "machine", "method"), Column("score", "score_low", "score_high", "n_scored"),
    *plain("statistic", "ratio_to_first", "quality", "exponent", "flop_per_sample", "flop_method", "valid", "reason"),
    *plain("note", "source"),
)  # fmt: skip
DECLARED_CHECKS = plain(
    "origin", "result", "quantity", "computed", "printed", "ratio", "tolerance", "agrees",
    "expected", "note", "where",
)  # fmt: skip
DECLARED_BREAKDOWNS = plain(
    "origin", "breakdown", "part", "time_s", "share_ratio", "instructions_per_cycle", "dram_utilisation",
    "device_busy_ratio", "where", "note",
)  # fmt: skip
ROOFLINE_POINTS = (
    Column(POINT), *plain("scope", "participants"), Column("intensity_flop_per_byte", reason="reason"),
    Column("rate_flop_per_s", reason="reason"),
    *plain("roof_flop_per_s", "roof_ratio", "bound", "ridge_flop_per_byte", "compute_roof_name", "link_name"),
    *plain("link_bytes_per_s", "link_method", "message_bytes", "message_method", "status", "reason", "source"),
)  # fmt: skip
ROOFLINE_CEILINGS = plain(
    "name", "scope", "kind", "precision", "ranks", "value", "method", "status", "reason", "source"
)  # fmt: skip
ROOFLINE_MOVES = (
    *plain(POINT, "change", "kind", "scope", "gain_ratio", "rate_flop_per_s", "rate_to_flop_per_s"),
    *plain("intensity_flop_per_byte", "intensity_to_flop_per_byte", "note", "source"),
)  # fmt: skip
WORK = (
    *plain(POINT, "method"), Column("flop_per_sample", reason="reason"),
    *plain("ratio_to_formula", "samples_per_step", "flop_per_step", "memory_bytes_per_sample", "memory_method"),
    *plain("train_rate_samples_per_s"), Column("rate_flop_per_s", n="rate_n", reason="reason"), Column("source"),
)  # fmt: skip
CEILINGS = (
    *plain("kind", "precision", "backend", "place", "setting", "threads"), Column("value", n="n", reason="reason"),
    *plain("status", "threads_used", "median", "spread_ratio", "agreement_ratio", "quiet", "others_ratio"),
    *plain("steal_ratio", "reason", "source"),
)  # fmt: skip
INCONSISTENCIES = plain("what", "sample", "roof", "ratio", "sentence")
CHARACTERISATION = (
    *plain(POINT),
    Column("memory_bandwidth_bytes_per_s", reason="memory_bandwidth_reason"), Column("memory_bandwidth_method"),
    Column("network_bandwidth_bytes_per_s", reason="network_bandwidth_reason"), Column("network_bandwidth_method"),
    Column("io_bandwidth_bytes_per_s", reason="io_bandwidth_reason"), Column("io_bandwidth_method"),
    *plain("memory_bandwidth_source", "network_bandwidth_source", "io_bandwidth_source"),
)  # fmt: skip
SCALING = (
    *plain(POINT, "measure", "baseline", "statistic"),
    Column("speedup_ratio", "speedup_low_ratio", "speedup_high_ratio", "n"), Column("speedup_ideal_ratio"),
    Column("efficiency_ratio", "efficiency_low_ratio", "efficiency_high_ratio"), *plain("regime", "method", "note"),
)  # fmt: skip
SCALING_DETAILS = (
    *plain(POINT, "regime", "samples_per_rank", "statistic"),
    Column("train_rate_samples_per_s", "train_rate_low_samples_per_s", "train_rate_high_samples_per_s", "rate_n"),
    Column("rate_flop_per_s", "rate_low_flop_per_s", "rate_high_flop_per_s", reason="score_reason"),
    Column("vflops_flop_per_s", "vflops_low_flop_per_s", "vflops_high_flop_per_s", reason="score_reason"),
    Column("efficiency_ratio", "efficiency_low_ratio", "efficiency_high_ratio"), Column("baseline"),
    Column("communication_share_ratio", n="communication_n", reason="communication_reason"),
    *plain("bandwidth_used_bytes_per_s", "bandwidth_measured_bytes_per_s", "bandwidth_declared_bytes_per_s"),
    Column("bandwidth_used_ratio", reason="bandwidth_reason"), *plain("bandwidth_used_of", "message_bytes"),
    *plain("step_time_median_s", "staging_ratio", "communication_source", "bandwidth_measured_source"),
)  # fmt: skip
CONTENTION = (
    *plain(POINT, "instances"), Column("contention_ratio", reason="reason"),
    *plain("together_rate_samples_per_s", "alone_rate_samples_per_s", "distributed_variant", "distributed_scale"),
    Column("distributed_ratio", reason="reason"), Column("communication_ratio", reason="reason"),
    *plain("n_disturbed", "n_stalled", "reason", "method", "source"),
)  # fmt: skip
SCALING_FITS = (
    *plain("benchmark", "variant", "law", "chosen", "regime", "n", "scales"),
    Column("serial_fraction_ratio", "serial_fraction_low_ratio", "serial_fraction_high_ratio"),
    Column("coherency_ratio", "coherency_low_ratio", "coherency_high_ratio"),
    *plain("rate_limit_samples_per_s", "best_ranks", "misfit_ratio", "aicc", "sentence", "reason", "method", "source"),
)  # fmt: skip
VARIANT_EFFECTS = (
    *plain(POINT, "reference_variant", "changes", "joint", "measure"),
    Column("effect_ratio", "effect_low_ratio", "effect_high_ratio", "n"),
    *plain("difference", "value", "reference_value", "n_reference", "better", "reading", "p_corrected", "note"),
    *plain("source", "reference_source"),
)  # fmt: skip
COMPARISON = (
    *plain(POINT, "measure", "finding"), Column("base_value", n="n_base"), Column("new_value", n="n_new"),
    Column("ratio", "low_ratio", "high_ratio"),
    *plain("p_corrected", "smallest_p", "detectable_ratio", "better", "method", "note", "source"),
)  # fmt: skip
CHANGES = plain("category", "key", "where", "points", "before", "after", "source")
HISTORY = (
    *plain(POINT, "measure", "number", "study", "started_utc", "commit"), Column("value", "low", "high", "n"),
    *plain("ratio_to_previous", "ratio_to_best", "verdict", "reason", "remark", "source"),
)  # fmt: skip
PHASES = plain(
    POINT, "phase", "share_ratio", "spans", "total_s", "mean_s", "median_s", "excluded_spans", "source"
)  # fmt: skip
COMMUNICATION = (
    *plain(POINT, "communication_share_ratio", "step_time_s", "exchange_per_step_s", "overlap_ratio"),
    *plain("negotiation_share_ratio", "bytes_per_step", "batch_bytes_mean", "batches", "bus_bandwidth_bytes_per_s"),
    *plain("transfer_s", "other_batches", "other_transfer_s"),
    *plain("slowest_rank", "slowest_rank_last_ratio", "steps", "coverage_ratio", "reasons", "source"),
)  # fmt: skip
LINK_FITS = plain(
    "what", "scope", "ranks", "latency_s", "latency_error_s", "bandwidth_bytes_per_s", "bandwidth_error_bytes_per_s",
    "n", "misfit_ratio", "quiet", "others_ratio", "steal_ratio", "reason", "source",
)  # fmt: skip
LINKS = plain(
    "what", "scope", "ranks", "bytes", "time_s", "time_min_s", "time_max_s", "n", "algorithm_bandwidth_bytes_per_s",
    "bus_bandwidth_bytes_per_s", "source",
)  # fmt: skip
IO = plain(
    POINT, "data", "page_cache", "workers", "bandwidth_sum_bytes_per_s", "bandwidth_parallel_bytes_per_s",
    "bandwidth_delivered_bytes_per_s", "io_share_ratio", "io_epoch_s", "epoch_s", "read_bytes", "reads", "files",
    "metadata_s", "coverage_ratio", "reasons", "source",
)  # fmt: skip
KERNELS = plain(
    POINT, "category", "share_ratio", "calls", "total_s", "instructions_per_cycle", "dram_rate_bytes_per_s", "tool",
    "coverage_ratio", "reasons", "source",
)  # fmt: skip
COUNTERS = plain(
    POINT, "tool", "flop_per_sample", "rate_flop_per_s", "dram_bytes", "dram_rate_bytes_per_s",
    "instructions_per_cycle", "intensity_flop_per_byte", "coverage_ratio", "reasons", "source",
)  # fmt: skip
POWER = plain(
    POINT, "instrument", "mean_power_w", "energy_j", "duration_s", "samples", "coverage_ratio", "reasons", "source"
)  # fmt: skip
ADVICE = plain(POINT, "topic", "sentence", "evidence")
VERDICTS = plain(
    "benchmark", "variant", "suite", "level", "verdict", "kind", "finding", "n_found", "n_valid", "n", "rule", "section"
)  # fmt: skip
CAPTURES = plain(
    POINT, "profile", "tool", "status", "reason", "coverage_ratio", "quiet", "others_ratio", "steal_ratio", "raw"
)  # fmt: skip
FAILURES = plain("run_id", "outcome", "reason", "earlier", RAW)
RUNS = (
    *plain("run_id", "outcome", "reason", RAW),
    Column("time_to_train_s"), *plain("epochs_to_target", "epochs", "best_quality", "quality_target"),
    *plain("train_rate_samples_per_s", "step_time_median_s", "wall_s", "staging_s", "evaluation_s", "overhead_s"),
    *plain("quiet", "others_ratio", "steal_ratio", "disturbance_limit_ratio"),
    *plain("probe_before_flop_per_s", "probe_after_flop_per_s"),
    *plain("longest_gap_s", "stalls", "stall_max_s", "stall_beside_s"),
    *plain("peak_memory_bytes", "ranks_identical", "page_cache", "valid_for"),
)  # fmt: skip
ROUND_ORIGINS = plain(
    "origin", "method", "benchmarks", "results", "logs", "complying", "reaching", "rule_set", "rule_set_reason",
    "repairs",
)  # fmt: skip
"""Rounds of :func:`hpcai.report.rounds.group_origins`."""
SOURCE = Column("source", link="source")
"""Files of own runs lie beside the page; those of published ones lie where they were imported from."""
RESULT_NAME = plain("label", "benchmark", "division")
ROUND_TIMES = (
    *RESULT_NAME, *plain("edition"), Column("run_by_target_s", n="kept", reason="reason"),
    Column("run_by_target_std_s"),
    Column("time_to_train_s", reason="reason"),
    *plain("run_s", "run_std_s", "processors", "accelerators", "samples_per_unit", "runs", "runs_by_rule"),
    *plain("good_by_target", "good_by_status", "scaling_factor", "rule_set", "method", "same_runs_as", "reason"),
    SOURCE,
)  # fmt: skip
"""Table IV of the MLPerf HPC paper."""
ROUND_FASTEST = (
    *plain("benchmark", "train_samples", "origin", "method", "division", "label"),
    Column("run_by_target_s", n="kept", reason="reason"), Column("time_to_train_s", reason="reason"),
    *plain("units", "unit", "reason"), SOURCE,
)  # fmt: skip
"""Results of :func:`hpcai.report.rounds.group_fastest`."""
ROUND_STAGING = (
    *RESULT_NAME, Column("staging_s", n="kept", reason="reason"), *plain("staging_std_s", "epoch_s", "epoch_std_s"),
    *plain("staging_ratio", "staging_share_ratio", "staging_share_model_ratio", "evaluation_share_ratio"),
    *plain("train_share_ratio", "extra_share_ratio"), SOURCE,
)  # fmt: skip
"""Table V of the MLPerf HPC paper, and its Fig. 1 as numbers."""
ROUND_BUDGETS = (
    *RESULT_NAME, *plain("units", "unit", "global_batch_samples"), Column("epochs", n="kept", reason="reason"),
    *plain("epochs_std", "train_rate_per_unit_samples_per_s", "train_rate_per_unit_std_samples_per_s"),
    *plain("train_rate_per_unit_by_steps_samples_per_s", "evaluation_rate_per_unit_samples_per_s"),
    *plain("evaluation_rate_per_unit_std_samples_per_s", "run_s", "run_std_s", "budget_unit_h", "budget_std_unit_h"),
    SOURCE,
)  # fmt: skip
"""Table VI of the MLPerf HPC paper."""
ROUND_SCALES = (
    *RESULT_NAME, *plain("edition", "units", "unit", "global_batch_samples"),
    Column("epochs", n="kept", reason="reason"), *plain("epochs_std", "epoch_rate_per_s"),
    *plain( "train_rate_samples_per_s", "evaluation_rate_samples_per_s"),
    *plain("compute_s", "compute_std_s", "evaluations", "run_variation_ratio"), SOURCE,
)  # fmt: skip
"""Fig. 2 of the MLPerf HPC paper as numbers."""
ROUND_EFFICIENCIES = plain(
    "result", "benchmark", "quantity", "base", "base_units", "units", "efficiency_ratio", "speedup_ratio", "origin"
)  # fmt: skip
ROUND_PRINCIPAL = plain(
    "label", "benchmark", "runs", "centre_epochs", "centre_epoch_rate_per_s", "std1_log10", "axis1_epochs",
    "axis1_rate", "std2_log10", "axis2_epochs", "axis2_rate", "variance1_ratio", "correlation_ratio",
)  # fmt: skip
ROUND_WEAK = (
    *RESULT_NAME, *plain("origin", "whole_scale"), Column("instance_scale", reason="reason"),
    *plain("scale_unit", "instance_scale_source", "logged_instance_scale", "instances", "counted_instances"),
    Column("time_to_train_all_s", reason="reason"), Column("models_per_min", reason="reason"), Column("energy_j"),
    *plain("rule_set", "same_runs_as", "reason"), SOURCE,
)  # fmt: skip
ROUND_PREDICTION_ERRORS = plain(
    "benchmark", "edition", "submissions", "predicted", "median_error_factor", "largest_error_factor", "inside",
    "coverage_ratio", "level_ratio", "nearest_median_error_factor", "mean_median_error_factor",
    "epochs_median_error_factor", "epochs_coverage_ratio", "epoch_median_error_factor", "epoch_coverage_ratio",
)  # fmt: skip
ROUND_LEAVE_ONE_OUT = (
    *plain("submission", "benchmark", "edition", "origin", "family", "units", "global_batch_samples", "run_s"),
    Column("run_predicted_s", "run_low_s", "run_high_s", reason="reason"), *plain("run_error_ratio", "inside"),
    Column("epochs"), Column("epochs_predicted", "epochs_low", "epochs_high", reason="reason"),
    Column("epoch_s"), Column("epoch_predicted_s", "epoch_low_s", "epoch_high_s", reason="reason"),
    *plain("nearest_error_ratio", "mean_error_ratio", "others", "extrapolated", "reason"), SOURCE,
)  # fmt: skip
ROUND_PREDICTIONS = (
    *plain("org", "family", "benchmark", "edition", "units", "global_batch_samples", "ran"),
    Column("run_s", "run_low_s", "run_high_s", reason="reason"),
    Column("compute_s", "compute_low_s", "compute_high_s", reason="reason"),
    Column("staging_s", "staging_low_s", "staging_high_s", reason="reason"),
    Column("epochs", "epochs_low", "epochs_high", reason="reason"),
    Column("epoch_s", "epoch_low_s", "epoch_high_s", reason="reason"),
    *plain("extrapolated", "level_ratio", "basis", "reason", "method", "source"),
)  # fmt: skip
ROUND_VERDICTS = (
    *plain("submission", "message", "rule", "key", "logs", "origin", "rule_set", "line"), SOURCE,
)  # fmt: skip
"""Findings of :func:`hpcai.report.rounds.group_findings`."""
ROUND_REPAIRS = (*plain("kind", "origin", "files", "repairs", "found", "done"), SOURCE)
"""Repairs of :func:`hpcai.report.rounds.group_repairs`."""
