"""Settings of DeepCAM: the defaults are the official ones, and errors name wrong values."""

import copy
from typing import Any

import pytest
from pydantic import ValidationError

from hpcai.workloads.deepcam.settings import DeepCamBenchmark

SMALL: dict[str, Any] = {
    "name": "deepcam_test",
    "workload": "deepcam",
    "title": "a test",
    "data": {"dataset": "deepcam_test", "source": "generate", "train_samples": 8, "validation_samples": 3},
    "pack": {"codec": "zstd"},
    "target": {"value": 0.82},
}


def benchmark(**changes: dict[str, Any]) -> DeepCamBenchmark:
    values = copy.deepcopy(SMALL)
    for section, change in changes.items():
        values.setdefault(section, {}).update(change)
    return DeepCamBenchmark.model_validate(values)


def test_defaults_are_the_official_sizes_and_the_published_recipe() -> None:
    found = benchmark()
    assert (found.data.height, found.data.width, found.data.channels) == (768, 1152, 16)
    assert found.model.entry == (128, 256, 728)
    assert found.model.exit == (1024, 1536, 2048)
    recipe = found.recipe
    assert (recipe.optimizer, recipe.learning_rate, recipe.weight_decay) == ("LAMB", 0.0055, 0.01)
    assert (recipe.warmup_steps, recipe.warmup_factor, recipe.global_batch) == (400, 1, 2048)
    assert recipe.schedule.model_dump() == {"type": "multistep", "milestones": (800,), "decay_rate": 0.1}


def test_suite_rules() -> None:
    assert (DeepCamBenchmark.suite, DeepCamBenchmark.stop) == ("mlperf_hpc", "target")
    assert (DeepCamBenchmark.remainder, DeepCamBenchmark.native) == ("drop", False)


def test_a_cosine_schedule_is_told_apart_by_its_type() -> None:
    schedule = {"type": "cosine_annealing", "t_max": 9000}
    assert benchmark(recipe={"schedule": schedule}).recipe.schedule.model_dump() == {**schedule, "eta_min": 0.0}


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("data", {"height": 760}, "multiple of 16"),
        ("data", {"width": 0}, "greater than or equal to 16"),
        ("data", {"channels": 4}, "16"),
        ("recipe", {"optimizer": "SGD"}, "'LAMB', 'AdamW' or 'Adam'"),
        ("recipe", {"warmup_factor": 0.5}, "greater than or equal to 1"),
        ("recipe", {"schedule": {"type": "multistep", "milestones": [20, 10]}}, "milestones must grow"),
        ("recipe", {"schedule": {"type": "linear"}}, "multistep"),
        ("recipe", {"schedule": {"type": "cosine_annealing"}}, "t_max"),
        ("recipe", {"epsilon": 1e-8}, "Extra inputs"),
        ("target", {"value": 82.0}, "at most 1"),
        ("staging", {"place": "none"}, "pack.codec"),
    ],
)
def test_wrong_values_are_named(section: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        benchmark(**{section: change})
