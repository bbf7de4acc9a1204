"""CosmoFlow in MLPerf HPC: names in logs, rounds and rules."""

from hpcai.workloads.declaration import MlperfFacts

MLPERF = MlperfFacts(
    "cosmoflow",
    "cosmoflow_v2",
    "mean_absolute_error",
    reference_samples=524_288,  # benchmarks.md 4c
    log_settings={
        "sgd_opt_momentum": "recipe.momentum",
        "opt_momentum": "recipe.momentum",
        "opt_base_learning_rate": "recipe.base_learning_rate",
        "opt_learning_rate_warmup_epochs": "recipe.warmup_epochs",
        "opt_learning_rate_decay_boundary_epochs": "recipe.decay_epochs",
        "opt_learning_rate_decay_factor": "recipe.decay_factors",
        "dropout": "model.dropout",
        "opt_weight_decay": "recipe.weight_decay",
    },
    first_round_datasets={262_144: "cosmoflow_v07"},  # benchmarks.md 13, 14
    # All convolutions, which do nearly all of the work, had kernel size 2 instead of 3 (benchmarks.md 4b).
    first_round_work_ratio=(2 / 3) ** 3,
)
