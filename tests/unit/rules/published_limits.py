"""What the published rules demand, by hand from their texts (benchmarks.md 2 to 8), never from the tables under test.

One entry per rule: the levels at which it holds, its effect, and the limits of what it looks at. Without limits a rule
is only stated, or declared not to be kept.
"""

from typing import Any

Published = dict[str, tuple[tuple[str, ...], str, dict[str, dict[str, Any]]]]

CLOSED, OPEN, BOTH = ("closed",), ("open",), ("closed", "open")
HARDWARE, SYSTEM, FIXED, ALWAYS = ("hardware",), ("system",), ("hardware", "system"), ("hardware", "system", "free")
"""Layer 5 is fixed at the hardware level alone, layers 6 to 8 up to the system level, layer 9 always: 7.1."""
BREAKS, FLAG = "deviation", "flag"
FREE: dict[str, Any] = {"free": True}
NO_CACHES = {"plan.point.evaluation_cache": {"equals": "none"}, "plan.point.training_cache": {"equals": "none"}}

MLPERF_HPC: Published = {
    # 4a, 5a, 6a: numbers of samples and their shapes; closed: the same data, open: the same evaluation (8.1).
    "official_data": (BOTH, BREAKS, {"facts.data_source": {"one_of": ("downloaded", "existing")}}),
    "unverified_data": (BOTH, FLAG, {"facts.data_source": {"one_of": ("generated", "downloaded")}}),
    "reformatting": (CLOSED, BREAKS, {}),
    "traversal": (CLOSED, BREAKS, {}),
    "cosmoflow_training_data": (CLOSED, BREAKS, {"data.train_samples": {"equals": 524_288}}),
    "cosmoflow_validation_data": (BOTH, BREAKS, {"data.validation_samples": {"equals": 65_536}}),
    "cosmoflow_sample": (BOTH, BREAKS, {"data.edge": {"equals": 128}, "data.channels": {"equals": 4}}),
    "deepcam_training_data": (CLOSED, BREAKS, {"data.train_samples": {"equals": 121_266}}),
    "deepcam_validation_data": (BOTH, BREAKS, {"data.validation_samples": {"equals": 15_158}}),
    "deepcam_sample": (
        BOTH,
        BREAKS,
        {"data.height": {"equals": 768}, "data.width": {"equals": 1152}, "data.channels": {"equals": 16}},
    ),
    "opencatalyst_training_data": (CLOSED, BREAKS, {"data.train_samples": {"equals": 2_000_000}}),
    "opencatalyst_validation_data": (BOTH, BREAKS, {"data.validation_samples": {"equals": 999_866}}),
    "opencatalyst_graph": (
        BOTH,
        BREAKS,
        {"data.cutoff_angstrom": {"equals": 6.0}, "data.max_neighbours": {"equals": 50}},
    ),
    "cosmoflow_augmentation": (CLOSED, BREAKS, {"recipe.augmentation": {"equals": "none"}}),
    "cached_samples": (BOTH, FLAG, NO_CACHES),
    # 8.2: clock and initialisation, 30 minutes or 4 hours; a weak-scaling instance is timed as well (8.4).
    "timed": (BOTH, BREAKS, {"plan.kind": {"one_of": ("timed", "weak")}}),
    "caches_cleared": (BOTH, BREAKS, {"facts.page_cache": {"equals": "dropped"}}),
    "staging_on_the_clock": (BOTH, BREAKS, {"plan.time_staging": {"equals": True}}),
    "closed_initialisation": (CLOSED, BREAKS, {"facts.init_s": {"at_most": 30 * 60}}),
    "open_initialisation": (OPEN, BREAKS, {"facts.init_s": {"at_most": 4 * 60 * 60}}),
    # 8.1, 8.3: seeds, formats that need no approval.
    "seeds": (CLOSED, BREAKS, {"plan.seeds": {"equals": "entropy"}}),
    "number_formats": (
        CLOSED,
        BREAKS,
        {
            "plan.point.precision": {
                "one_of": ("fp64", "fp32", "tf32", "fp16", "fp8", "bf16", "int8", "uint8", "int4", "uint4")
            },
            "plan.point.compression": {"one_of": ("none", "fp16")},
        },
    ),
    "exchange_of_gradients": (
        CLOSED,
        BREAKS,
        {
            f"plan.point.{name}": FREE
            for name in ("fusion_bytes", "gradient_groups", "cycle_time_s", "allreduce_topology")
        },
    ),
    # 4b, 5b, 6b: models. Open runs too train the reference's, as version 3.0 says (8.1).
    "same_graph": (BOTH, BREAKS, {"plan.point.engine": FREE}),
    "cosmoflow_model": (
        BOTH,
        BREAKS,
        {
            "facts.parameters": {"equals": 8_907_556},
            "model.kernel": {"equals": 3},
            "model.conv_layers": {"equals": 5},
            "model.base_filters": {"equals": 32},
            "model.dense": {"equals": (128, 64)},
        },
    ),
    "deepcam_model": (
        BOTH,
        BREAKS,
        {
            "facts.parameters": {"equals": 56_454_720},
            "model.stem": {"equals": (32, 64)},
            "model.entry": {"equals": (128, 256, 728)},
            "model.middle_blocks": {"equals": 16},
            "model.exit": {"equals": (1024, 1536, 2048)},
            "model.aspp": {"equals": 256},
            "model.low_level": {"equals": 48},
            "model.decoder": {"equals": 256},
        },
    ),
    "opencatalyst_model": (
        BOTH,
        BREAKS,
        {
            "facts.parameters": {"equals": 1_810_182},
            "model.hidden": {"equals": 192},
            "model.output_hidden": {"equals": 192},
            "model.blocks": {"equals": 3},
            "model.radial": {"equals": 6},
            "model.spherical": {"equals": 7},
            "model.interaction_hidden": {"equals": 64},
            "model.basis_hidden": {"equals": 8},
            "model.layers_before_skip": {"equals": 1},
            "model.layers_after_skip": {"equals": 2},
            "model.output_layers": {"equals": 3},
            "model.envelope_exponent": {"equals": 5},
        },
    ),
    "initial_weights": (CLOSED, BREAKS, {}),
    # 4f: CosmoFlow's table of hyper-parameters.
    "cosmoflow_optimizer": (
        CLOSED,
        BREAKS,
        {"recipe.optimizer": {"equals": "sgd"}, "recipe.momentum": {"equals": 0.9}},
    ),
    "cosmoflow_schedule": (
        CLOSED,
        BREAKS,
        {
            "recipe.global_batch": FREE,
            "recipe.base_learning_rate": FREE,
            "recipe.warmup_epochs": FREE,
            "recipe.decay_epochs": {"each": {"above": 0}},
            "recipe.decay_factors": {"each": {"above": 0, "below": 1}},
        },
    ),
    "cosmoflow_decay": (CLOSED, BREAKS, {"recipe.schedule": {"equals": "step"}}),
    "cosmoflow_regularisation": (
        CLOSED,
        BREAKS,
        {"model.dropout": {"at_least": 0, "below": 1}, "recipe.weight_decay": {"at_least": 0}},
    ),
    # 5f: DeepCAM's.
    "deepcam_optimizer": (
        CLOSED,
        BREAKS,
        {
            "recipe.global_batch": FREE,
            "recipe.optimizer": {"one_of": ("Adam", "AdamW", "LAMB")},
            "recipe.betas": FREE,
            "recipe.learning_rate": FREE,
            "recipe.weight_decay": {"at_least": 0},
        },
    ),
    "deepcam_optimizer_constants": (CLOSED, BREAKS, {}),
    "deepcam_schedule": (
        CLOSED,
        BREAKS,
        {
            "recipe.schedule.type": {"one_of": ("multistep", "cosine_annealing")},
            "recipe.warmup_steps": {"at_least": 0},
            "recipe.warmup_factor": {"at_least": 1},
        },
    ),
    "deepcam_multistep": (
        CLOSED,
        BREAKS,
        {"recipe.schedule.milestones": FREE, "recipe.schedule.decay_rate": {"at_most": 1}},
    ),
    # The text has a period of at least 0, the log checker of at least 1: the stricter one.
    "deepcam_cosine_annealing": (
        CLOSED,
        BREAKS,
        {"recipe.schedule.t_max": {"at_least": 1}, "recipe.schedule.eta_min": {"at_least": 0}},
    ),
    # 6c and 6f: OpenCatalyst's.
    "opencatalyst_optimizer": (
        CLOSED,
        BREAKS,
        {"recipe.optimizer": {"equals": "adamw"}, "recipe.weight_decay": {"equals": 0.01}},
    ),
    "opencatalyst_schedule": (
        CLOSED,
        BREAKS,
        {
            "recipe.global_batch": {"at_least": 1},
            "recipe.base_learning_rate": {"above": 0},
            "recipe.warmup_steps": {"at_least": 0},
            "recipe.warmup_factor": {"at_least": 0, "at_most": 1},
            "recipe.decay_steps": {"each": {"above": 0}},
            "recipe.decay_factor": {"at_least": 0, "at_most": 1},
        },
    ),
    "opencatalyst_loss": (
        CLOSED,
        BREAKS,
        {
            "recipe.force_coefficient": {"equals": 50},
            "recipe.force_standard_deviation": {"equals": 2.887317180633545},
        },
    ),
    # 5f and 8.1: of all; what is in no table is the reference's.
    "gradient_accumulation": (CLOSED, BREAKS, {"plan.point.accumulation": {"at_least": 1}}),
    "model_parallelism": (CLOSED, BREAKS, {"plan.point.spatial_parts": {"at_least": 1}}),
    "batch_norm_group": (CLOSED, BREAKS, {"plan.point.batchnorm_group": {"at_least": 1}}),
    "gradient_skipping": (CLOSED, BREAKS, {"recipe.skip_gradient_norm": {"at_most": 0}}),
    "reference_convergence": (CLOSED, BREAKS, {}),
    # 4d, 5d, 6d: targets and qualities, with the log checker's other bound.
    "cosmoflow_target": (BOTH, BREAKS, {"target.value": {"equals": 0.124}}),
    "deepcam_target": (BOTH, BREAKS, {"target.value": {"equals": 0.82}}),
    "opencatalyst_target": (BOTH, BREAKS, {"target.value": {"equals": 0.036}}),
    "cosmoflow_quality": (BOTH, BREAKS, {"facts.quality": {"above": 0, "at_most": 0.124}}),
    "deepcam_quality": (BOTH, BREAKS, {"facts.quality": {"at_least": 0.82, "at_most": 1}}),
    "opencatalyst_quality": (BOTH, BREAKS, {"facts.quality": {"above": 0, "at_most": 0.036}}),
    "evaluation": (CLOSED, BREAKS, {"recipe.evaluation_interval_epochs": {"equals": 1}}),
    "evaluation_execution": (CLOSED, BREAKS, {"plan.point.evaluation_batch": FREE}),
    "target_reached": (BOTH, BREAKS, {"facts.outcome": {"equals": "converged"}}),
    "unique_seeds": (CLOSED, BREAKS, {}),
}
HPC_AI500: Published = {
    # 7.1, layers 5 and 6.
    "source_code": (HARDWARE, BREAKS, {}),
    "reference_framework": (HARDWARE, BREAKS, {"plan.point.engine": {"one_of": ("horovod", "tensorflow")}}),
    "synchronous_training": (FIXED, BREAKS, {}),
    "gradient_accumulation": (FIXED, BREAKS, {"plan.point.accumulation": {"at_least": 1}}),
    "model_parallelism": (FIXED, BREAKS, {"plan.point.spatial_parts": {"at_least": 1}}),
    "gradient_skipping": (FIXED, BREAKS, {"recipe.skip_gradient_norm": {"at_most": 0}}),
    # 2b, 2c, 3b and 7.1, layer 7; "41 million" parameters is what rounds to it.
    "image_classification_model": (
        FIXED,
        BREAKS,
        {
            "facts.parameters": {"equals": 25_559_081},
            "model.stem_filters": {"equals": 64},
            "model.blocks": {"equals": (3, 4, 6, 3)},
            "data.classes": {"equals": 1000},
        },
    ),
    "image_classification_input": (FIXED, BREAKS, {"data.crop": {"equals": 224}, "data.resize_edge": {"equals": 256}}),
    "image_classification_boxes": (ALWAYS, FLAG, {"facts.data_source": {"one_of": ("generated", "existing")}}),
    "batch_norm": (FIXED, BREAKS, {"plan.point.batchnorm_group": {"equals": 1}}),
    "extreme_weather_reference": (FIXED, BREAKS, {}),
    "extreme_weather_model": (FIXED, BREAKS, {"facts.parameters": {"at_least": 40.5e6, "below": 41.5e6}}),
    "equivalence_check": (SYSTEM, BREAKS, {}),
    # 2c, 2f and 7.1, layer 8: all but the batch and the policy of the learning rate, LARS and LAMB included.
    "image_classification_recipe": (
        FIXED,
        BREAKS,
        {
            "recipe.momentum": {"equals": 0.875},
            "recipe.weight_decay": {"equals": 2.0**-15},
            "recipe.label_smoothing": {"equals": 0.1},
        },
    ),
    "extreme_weather_recipe": (FIXED, BREAKS, {}),
    "optimizer": (FIXED, BREAKS, {"recipe.optimizer": {"one_of": ("sgd", "lars", "lamb")}}),
    "optimizer_as_policy": (ALWAYS, FLAG, {"recipe.optimizer": {"equals": "sgd"}}),
    "batch_and_learning_rate": (FIXED, BREAKS, {"recipe.global_batch": FREE, "recipe.base_learning_rate": FREE}),
    "image_classification_learning_rate": (
        FIXED,
        BREAKS,
        {"recipe.scaling": FREE, "recipe.warmup_epochs": FREE, "recipe.schedule": FREE},
    ),
    # 2a, 2d, 3a, 3d and 7.1, layer 9.
    "official_data": (ALWAYS, BREAKS, {"facts.data_source": {"one_of": ("downloaded", "existing")}}),
    "unverified_data": (ALWAYS, FLAG, {"facts.data_source": {"one_of": ("generated", "downloaded")}}),
    "image_classification_data": (
        ALWAYS,
        BREAKS,
        {
            "data.train_samples": {"equals": 1_281_167},
            "data.validation_samples": {"equals": 50_000},
            "data.classes": {"equals": 1000},
        },
    ),
    "extreme_weather_data": (
        ALWAYS,
        BREAKS,
        {
            "data.train_samples + data.validation_samples": {"equals": 9 * 1460},
            "data.height": {"equals": 768},
            "data.width": {"equals": 1152},
            "data.channels": {"equals": 16},
        },
    ),
    "image_classification_target": (ALWAYS, BREAKS, {"target.value": {"equals": 0.763}}),
    "extreme_weather_target": (ALWAYS, BREAKS, {"target.value": {"equals": 0.35}}),
    "image_classification_trained_epochs": (ALWAYS, BREAKS, {"facts.epochs": {"equals": 90}}),
    "image_classification_epochs": (ALWAYS, BREAKS, {"recipe.max_epochs": {"equals": 90}}),
    "extreme_weather_trained_epochs": (ALWAYS, BREAKS, {"facts.epochs": {"equals": 50}}),
    "extreme_weather_epochs": (ALWAYS, BREAKS, {"recipe.max_epochs": {"equals": 50}}),
    # 7.3: the clock, from the first batch to the last of the fixed epochs, and what is published.
    "evaluation_execution": (ALWAYS, BREAKS, {"plan.point.evaluation_batch": FREE}),
    "cached_samples": (ALWAYS, FLAG, NO_CACHES),
    "timed": (ALWAYS, BREAKS, {"plan.kind": {"equals": "timed"}}),
    "clock": (ALWAYS, BREAKS, {"plan.time_staging": {"equals": False}}),
    "trial_finished": (ALWAYS, BREAKS, {"facts.outcome": {"one_of": ("converged", "not_converged")}}),
    "raw_data": (ALWAYS, BREAKS, {}),
}
PUBLISHED = {"mlperf_hpc": MLPERF_HPC, "hpc_ai500": HPC_AI500}

CONDITIONS: dict[str, dict[str, dict[str, Any]]] = {
    # Version 3.0 lifts it (8.2).
    "staging_on_the_clock": {"plan.rule_set": {"one_of": ("hpc_1.0.0", "hpc_2.0.0")}},
    "deepcam_multistep": {"recipe.schedule.type": {"equals": "multistep"}},
    "deepcam_cosine_annealing": {"recipe.schedule.type": {"equals": "cosine_annealing"}},
    "optimizer_as_policy": {"recipe.optimizer": {"one_of": ("lars", "lamb")}},
    **{
        f"{workload}_quality": {"facts.outcome": {"equals": "converged"}, "target.value": {"equals": target}}
        for workload, target in (("cosmoflow", 0.124), ("deepcam", 0.82), ("opencatalyst", 0.036))
    },
}
"""Whom a rule concerns, where not all runs of its workloads."""
