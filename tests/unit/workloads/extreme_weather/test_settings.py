"""Settings of the extreme-weather workload: official defaults and refused values."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from hpcai.workloads.extreme_weather.settings import ExtremeWeatherBenchmark, ExtremeWeatherData, ExtremeWeatherModel

ROOT = Path(__file__).parents[4]
DATA: dict[str, Any] = {
    "dataset": "small",
    "source": "generate",
    "height": 64,
    "width": 96,
    "train_years": [1979, 1980],
    "validation_years": [1984],
    "train_samples": 8,
    "validation_samples": 3,
}


def test_frames_follow_from_samples_and_years() -> None:
    data = ExtremeWeatherData.model_validate(DATA)
    assert data.frames(1980) == 4
    assert data.frames(1984) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": 80}, "height: a multiple of 32"),
        ({"width": 100}, "width: a multiple of 32"),
        ({"validation_years": [1980]}, "name each year once"),
        ({"train_years": [1979, 1979]}, "name each year once"),
        ({"train_samples": 9}, "cannot be spread evenly over 2 years"),
        ({"train_years": []}, "train_years"),
        ({"channels": 3}, "channels"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_refused_data(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ExtremeWeatherData.model_validate({**DATA, **change})


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"anchors": {"positive_iou": 0.2}}, "negative_iou must be positive and at most"),
        ({"anchors": {"sizes": [8, 16, 32, 64, 128, 256]}}, "at most 5"),
        ({"blocks": [3, 4, 6]}, "blocks"),
        ({"regions": {"samples_per_cell": 3}}, "samples_per_cell"),
    ],
)
def test_refused_models(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ExtremeWeatherModel.model_validate(section)


def test_decay_points_grow() -> None:
    benchmark = yaml.safe_load((ROOT / "config/benchmarks/extreme_weather.yaml").read_text())
    benchmark["recipe"]["decay_points"] = [0.9, 0.6]
    with pytest.raises(ValidationError, match="decay_points must grow"):
        ExtremeWeatherBenchmark.model_validate(benchmark)


def test_official_file() -> None:
    text = (ROOT / "config/benchmarks/extreme_weather.yaml").read_text()
    benchmark = ExtremeWeatherBenchmark.model_validate(yaml.safe_load(text))
    data = benchmark.data
    assert data.train_samples + data.validation_samples == 13_140
    assert {data.frames(year) for year in (*data.train_years, *data.validation_years)} == {1460}
    assert len(data.archives) == 9
    assert (data.height, data.width) == (768, 1152)
    assert benchmark.model == ExtremeWeatherModel()
    assert benchmark.recipe.max_epochs == 50
    assert benchmark.target.official
    assert benchmark.target.value == 0.35


@pytest.mark.parametrize(
    "path", ["config/benchmarks/extreme_weather_tiny.yaml", "tests/config/benchmarks/extreme_weather_mini.yaml"]
)
def test_small_files_are_never_official(path: str) -> None:
    benchmark = ExtremeWeatherBenchmark.model_validate(yaml.safe_load((ROOT / path).read_text()))
    assert not benchmark.target.official
    assert benchmark.data.source == "generate"
