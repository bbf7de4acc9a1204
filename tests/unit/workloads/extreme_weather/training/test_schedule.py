"""Learning rates of the official recipe and of a short one."""

import pytest

from hpcai.workloads.extreme_weather.settings import ExtremeWeatherRecipe
from hpcai.workloads.extreme_weather.training.schedule import learning_rate, peak_rate

STEPS = 9000


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 0.02 / 3),
        (500, 0.02 * 2 / 3),
        (999, 0.02 * (1 / 3 + 2 / 3 * 0.999)),
        (1000, 0.02),
        (5999, 0.02),
        (6000, 0.002),
        (7999, 0.002),
        (8000, 0.0002),
        (8999, 0.0002),
    ],
)
def test_official_schedule_for_16_images(step: int, expected: float) -> None:
    assert learning_rate(ExtremeWeatherRecipe(), 16, step, STEPS) == pytest.approx(expected)


def test_linear_scaling() -> None:
    assert peak_rate(ExtremeWeatherRecipe(), 8) == 0.01
    assert peak_rate(ExtremeWeatherRecipe(), 64) == pytest.approx(0.08)


def test_without_warmup_and_decay() -> None:
    recipe = ExtremeWeatherRecipe(warmup_steps=0, decay_points=())
    assert {learning_rate(recipe, 8, step, 10) for step in range(10)} == {0.01}
