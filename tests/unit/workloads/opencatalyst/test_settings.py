"""Settings of OpenCatalyst: official defaults and refused values."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from hpcai.workloads.opencatalyst.settings import OpenCatalystBenchmark

ROOT = Path(__file__).parents[4]
FILES = ["config/benchmarks/opencatalyst.yaml", "config/benchmarks/opencatalyst_tiny.yaml",
         "tests/config/benchmarks/opencatalyst_mini.yaml"]  # fmt: skip


def settings(**sections: dict[str, Any]) -> dict[str, Any]:
    data = {"dataset": "x", "source": "generate", "train_samples": 4, "validation_samples": 2}
    base = {"name": "x", "workload": "opencatalyst", "title": "x", "data": data, "target": {"value": 0.036}}
    return {**base, **{key: {**base.get(key, {}), **values} for key, values in sections.items()}}


@pytest.mark.parametrize("file", FILES)
def test_the_files_are_valid(file: str) -> None:
    benchmark = OpenCatalystBenchmark.model_validate(yaml.safe_load((ROOT / file).read_text()))
    assert benchmark.name == Path(file).stem
    assert benchmark.target.official == (file == FILES[0])


def test_the_defaults_are_the_official_recipe() -> None:
    benchmark = OpenCatalystBenchmark.model_validate(yaml.safe_load((ROOT / FILES[0]).read_text()))
    recipe = benchmark.recipe
    assert (recipe.global_batch, recipe.base_learning_rate, recipe.max_epochs) == (256, 0.0004, 30)
    assert (recipe.warmup_steps, recipe.warmup_factor) == (31_252, 0.2)
    assert (recipe.decay_steps, recipe.decay_factor) == ((125_008, 187_512, 250_016), 0.1)
    assert (recipe.weight_decay, recipe.force_coefficient) == (0.01, 50)
    assert recipe.force_standard_deviation == 2.887317180633545
    assert (benchmark.data.cutoff_angstrom, benchmark.data.max_neighbours) == (6.0, 50)
    assert (benchmark.data.train_samples, benchmark.data.validation_samples) == (2_000_000, 999_866)
    assert benchmark.target.value == 0.036
    assert (benchmark.suite, benchmark.stop, benchmark.remainder, benchmark.native) == (
        "mlperf_hpc", "target", "pad", False)  # fmt: skip


@pytest.mark.parametrize(
    ("sections", "match"),
    [
        ({"recipe": {"decay_steps": [5, 5]}}, "decay_steps must grow"),
        ({"recipe": {"warmup_factor": 1.5}}, "less than or equal to 1"),
        ({"recipe": {"force_standard_deviation": "validation"}}, "training"),
        ({"recipe": {"force_standard_deviation": 0.0}}, "greater than 0"),
        ({"model": {"spherical": 8}}, "less than or equal to 7"),
        ({"data": {"slabs": {"metals": ["Fe"]}}}, "Input should be 'Al'"),
        ({"data": {"slabs": {"adsorbates": []}}}, "at least 1 item"),
        ({"data": {"capacity": {"triplets": 3}}}, "Extra inputs"),
        ({"staging": {"place": "none"}}, "needs pack.codec: 'none'"),
    ],
)
def test_what_cannot_be_is_refused(sections: dict[str, Any], match: str) -> None:
    with pytest.raises(ValidationError, match=match):
        OpenCatalystBenchmark.model_validate(settings(**sections))
