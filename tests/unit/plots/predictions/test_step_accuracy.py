"""Predicted against measured steps: marks are counted, and a prediction without a number is not drawn."""

import pandas as pd
import pytest
from unit.plots.prediction_factory import make_steps
from unit.plots.shared_axes import visible_texts
from unit.plots.test_figures import outside, overlaps, points

from hpcai.plots.predictions.step_accuracy import NO_STEP, plot_step_accuracy
from hpcai.plots.theme import to_svg

STEPS = {
    "all": make_steps,
    "raw": lambda: make_steps(("none",)),
    "own": lambda: make_steps().query("origin == 'own run'"),
    "one": lambda: make_steps().head(1),
    "far": lambda: make_steps().assign(relative_error_ratio=lambda rows: 6 * rows["relative_error_ratio"]),
    "unknown_model": lambda: make_steps().replace({"cost_model": {"full": "something new"}}),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.filterwarnings("error::UserWarning")
def test_figure_can_be_read(name: str) -> None:
    figure = plot_step_accuracy(STEPS[name]())
    figure.draw_without_rendering()
    texts = visible_texts(figure)
    assert overlaps(texts) == []
    assert outside(figure, texts) == []
    assert "nan" not in " ".join(text.get_text() for text in texts).lower()


@pytest.mark.parametrize("name", ["all", "raw", "own", "one", "unknown_model"])
def test_every_known_prediction_is_drawn(name: str) -> None:
    steps = STEPS[name]()
    figure = plot_step_accuracy(steps)
    known = steps.dropna(subset=["estimated_s"])
    assert len(known) > 0
    assert points(figure, "step") == (known["stage"] == "step").sum()
    assert points(figure, "error") == len(known)


def test_errors_that_are_far_off_are_arrows() -> None:
    far = make_steps(("none",)).assign(relative_error_ratio=4.0).dropna(subset=["estimated_s"])
    figure = plot_step_accuracy(far)
    assert points(figure, "error") == 0
    assert points(figure, "error-beyond") > 0


def test_raw_and_fitted_predictions_are_apart() -> None:
    left, right, *_ = plot_step_accuracy(make_steps(("none",))).axes
    assert sum(line.get_gid() == "step" for line in left.lines) > 0
    assert not right.lines
    assert "no such prediction" in [text.get_text() for text in right.texts]


@pytest.mark.slow
def test_equal_tables_give_equal_bytes() -> None:
    assert to_svg(plot_step_accuracy(make_steps())) == to_svg(plot_step_accuracy(make_steps()))


@pytest.mark.parametrize("steps", [pd.DataFrame(), make_steps().assign(measured_s=float("nan"))])
def test_nothing_to_compare_is_said(steps: pd.DataFrame) -> None:
    words = " ".join(text.get_text() for text in visible_texts(plot_step_accuracy(steps))).split()
    assert NO_STEP in " ".join(words)
