"""Small plans for the tests of image classification."""

from typing import Any

from unit.training.training_plans import plan_of

from hpcai.config.runs import RunPlan

BENCHMARK: dict[str, Any] = {
    "name": "resnet_test",
    "workload": "image_classification",
    "title": "a test",
    "data": {
        "dataset": "resnet_test",
        "source": "generate",
        "train_samples": 32,
        "validation_samples": 8,
        "train_shards": 4,
        "validation_shards": 2,
        "classes": 8,
        "crop": 32,
        "resize_edge": 40,
    },
    "pack": {"codec": "none"},
    "model": {"stem_filters": 8, "blocks": [1, 1, 1, 1]},
    "recipe": {"global_batch": 8, "base_batch": 8, "warmup_epochs": 1, "max_epochs": 2},
    "target": {"value": 0.5},
}
OFFICIAL: dict[str, Any] = {
    "data": {
        "dataset": "imagenet",
        "source": "existing",
        "path": "imagenet",
        "train_samples": 1_281_167,
        "validation_samples": 50_000,
        "classes": 1000,
        "train_shards": 1024,
        "validation_shards": 128,
        "crop": 224,
        "resize_edge": 256,
    },
    "model": {"stem_filters": 64, "blocks": [3, 4, 6, 3]},
}


def image_plan(ranks: int = 1, **changes: dict[str, Any]) -> RunPlan:
    """Return a plan; ``changes`` go into the benchmark's sections, or into the point."""
    return plan_of(BENCHMARK, ranks, **changes)


def official_plan(global_batch: int = 256, **recipe: Any) -> RunPlan:
    """Return a plan with the official data, network and recipe."""
    defaults = {"global_batch": global_batch, "base_batch": 256, "warmup_epochs": 8, "max_epochs": 90}
    return image_plan(**OFFICIAL, recipe={**defaults, **recipe})
