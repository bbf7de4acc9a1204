"""DeepCAM in MLPerf HPC: names in logs, rounds and rules."""

from hpcai.workloads.declaration import MlperfFacts

MLPERF = MlperfFacts(
    "deepcam",
    "deepcam_all_hist",
    "intersection_over_union",
    reference_samples=121_266,  # benchmarks.md 5c
    log_settings={
        "opt_lr": "recipe.learning_rate",
        "opt_betas": "recipe.betas",
        "opt_weight_decay": "recipe.weight_decay",
        "scheduler_type": "recipe.schedule.type",
        "scheduler_lr_warmup_steps": "recipe.warmup_steps",
        "scheduler_lr_warmup_factor": "recipe.warmup_factor",
        "scheduler_milestones": "recipe.schedule.milestones",
        "scheduler_decay_rate": "recipe.schedule.decay_rate",
        "scheduler_t_max": "recipe.schedule.t_max",
        "scheduler_eta_min": "recipe.schedule.eta_min",
    },
    # v0.7 used another model and evaluated by steps; since v1.0 it evaluates after every epoch (benchmarks.md 1 and 5).
    first_round_model="deepcam_v07",
)
