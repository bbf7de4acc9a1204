"""Settings of image classification: official values and impossible combinations."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from hpcai.workloads.image_classification.settings import ImageClassificationBenchmark

ROOT = Path(__file__).parents[4]


def settings(**sections: dict[str, Any]) -> ImageClassificationBenchmark:
    data = {"dataset": "images", "source": "generate", "train_samples": 2048, "validation_samples": 128}
    base: dict[str, Any] = {
        "name": "images",
        "workload": "image_classification",
        "title": "a test",
        "data": {**data, **sections.pop("data", {})},
        "target": {"value": 0.5},
    }
    return ImageClassificationBenchmark.model_validate({**base, **sections})


def test_defaults_are_the_official_recipe_and_network() -> None:
    benchmark = settings()
    assert benchmark.model.model_dump() == {"stem_filters": 64, "blocks": (3, 4, 6, 3)}
    recipe = benchmark.recipe.model_dump()
    assert recipe["weight_decay"] == 3.0517578125e-05
    assert {key: recipe[key] for key in ("momentum", "label_smoothing", "base_learning_rate", "base_batch")} == {
        "momentum": 0.875,
        "label_smoothing": 0.1,
        "base_learning_rate": 0.256,
        "base_batch": 256,
    }
    assert (recipe["warmup_epochs"], recipe["max_epochs"], recipe["schedule"]) == (8, 90, "cosine")
    data = benchmark.data
    assert (data.classes, data.crop, data.resize_edge) == (1000, 224, 256)
    assert (data.train_shards, data.validation_shards) == (1024, 128)


def test_what_the_suite_rules() -> None:
    assert ImageClassificationBenchmark.suite == "hpc_ai500"
    assert ImageClassificationBenchmark.stop == "epochs"
    assert ImageClassificationBenchmark.remainder == "drop"
    assert ImageClassificationBenchmark.native


@pytest.mark.parametrize(
    "path",
    [
        "config/benchmarks/resnet50.yaml",
        "config/benchmarks/resnet50_tiny.yaml",
        "tests/config/benchmarks/resnet50_mini.yaml",
    ],
)
def test_benchmark_files_are_valid_and_only_the_official_size_has_the_official_target(path: str) -> None:
    benchmark = ImageClassificationBenchmark.model_validate(yaml.safe_load((ROOT / path).read_text()))
    assert benchmark.name == Path(path).stem
    official = benchmark.name == "resnet50"
    assert benchmark.target.official == official
    assert (benchmark.target.value == 0.763) == official
    assert (benchmark.data.source == "generate") != official
    if official:
        assert (benchmark.data.train_samples, benchmark.data.validation_samples) == (1_281_167, 50_000)
        assert benchmark.model == settings().model
        assert benchmark.recipe == settings().recipe


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"data": {"crop": 31}}, "greater than or equal to 32"),
        ({"data": {"crop": 257}}, "crop: 257 is more than resize_edge = 256"),
        ({"data": {"classes": 1}}, "greater than or equal to 2"),
        ({"data": {"train_samples": 1000}}, "train_shards: 1024 files for 1000 samples leave some of them empty"),
        ({"data": {"train_samples": 2000}}, "train_shards: 2000 samples in 1024 files are not equally many"),
        ({"model": {"blocks": []}}, "at least 1 item"),
        ({"model": {"blocks": [3, 0]}}, "greater than or equal to 1"),
        ({"recipe": {"decay_epochs": [60, 30]}}, "decay_epochs must grow"),
        ({"recipe": {"warmup_epochs": 91}}, "warmup_epochs: 91 is more than max_epochs = 90"),
        ({"recipe": {"label_smoothing": 1.0}}, "less than 1"),
        ({"recipe": {"optimizer": "adam"}}, "sgd"),
    ],
)
def test_what_cannot_be(sections: dict[str, dict[str, Any]], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        settings(**sections)


@pytest.mark.parametrize(
    ("recipe", "key"),
    [
        ({"trust_coefficient": 0.01}, "trust_coefficient"),
        ({"optimizer": "lamb", "trust_coefficient": 0.01}, "trust_coefficient"),
        ({"optimizer": "lars", "betas": [0.9, 0.99]}, "betas"),
    ],
)
def test_constants_of_another_optimizer_are_refused(recipe: dict[str, Any], key: str) -> None:
    with pytest.raises(ValidationError, match=f"{key}: only for"):
        settings(recipe=recipe)


def test_plans_are_as_they_were_before_there_were_policies() -> None:
    plain = settings().recipe.model_dump()
    assert not {"betas", "trust_coefficient", "scaling"} & set(plain)
    chosen = settings(recipe={"optimizer": "lars", "trust_coefficient": 0.02, "scaling": "sqrt"}).recipe.model_dump()
    assert (chosen["optimizer"], chosen["trust_coefficient"], chosen["scaling"]) == ("lars", 0.02, "sqrt")
