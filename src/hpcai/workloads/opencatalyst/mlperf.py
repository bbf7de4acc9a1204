"""OpenCatalyst in MLPerf HPC: names in logs, rounds and rules."""

from hpcai.workloads.declaration import MlperfFacts

MLPERF = MlperfFacts(
    "oc20",
    "opencatalyst_s2ef_2m",
    "force_mean_absolute_error",
    "eV/Å",
    reference_samples=2_000_000,  # benchmarks.md 6c
    log_settings={
        "opt_weight_decay": "recipe.weight_decay",
        "opt_base_learning_rate": "recipe.base_learning_rate",
        "opt_learning_rate_warmup_steps": "recipe.warmup_steps",
        "opt_learning_rate_warmup_factor": "recipe.warmup_factor",
        "opt_learning_rate_decay_boundary_steps": "recipe.decay_steps",
        "opt_learning_rate_decay_factor": "recipe.decay_factor",
    },
)
