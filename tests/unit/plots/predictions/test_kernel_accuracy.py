"""Regressor errors: one panel per kernel, every case inside or counted as outside, goals shown by colour."""

import functools

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from unit.plots.prediction_factory import KERNELS, LOST, make_accuracy, make_errors
from unit.plots.shared_axes import visible_texts
from unit.plots.test_figures import outside, overlaps

from hpcai.plots.predictions.kernel_accuracy import COLOURS, MET, MISSED, NO_KERNEL, plot_kernel_errors
from hpcai.plots.theme import to_svg

TABLES = {
    "all": KERNELS,
    "few": ("conv2d_forward", "sgd", "copy"),
    "unknown": ("conv2d_forward", "attention_forward", "copy"),
    "one": ("sgd",),
}


@functools.cache
def draw(kernels: tuple[str, ...] = KERNELS) -> tuple[Figure, pd.DataFrame, pd.DataFrame]:
    accuracy = make_accuracy(kernels)
    errors = make_errors(accuracy)
    return plot_kernel_errors(errors, accuracy), errors, accuracy


def shown(figure: Figure) -> dict[str, Axes]:
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_visible()}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.filterwarnings("error::UserWarning")
def test_figure_can_be_read(name: str) -> None:
    figure, _, accuracy = draw(TABLES[name])
    figure.draw_without_rendering()
    panels = shown(figure)
    assert len(panels) == len(accuracy)
    texts = visible_texts(figure)
    assert overlaps(texts) == []
    assert outside(figure, texts) == []
    assert "nan" not in " ".join(text.get_text() for text in texts).lower()


def test_every_case_is_in_its_panel_or_outside() -> None:
    figure, errors, _ = draw()
    axes = shown(figure)["3-D input gradient"]
    own = errors[errors["kernel"] == "conv3d_input_gradient"]["relative_error_ratio"]
    far = float((own.abs() > 0.5).mean())
    assert far > 0
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(100 * (1 - far))
    assert f"{100 * far:.0f} %\noutside" in [text.get_text() for text in axes.texts]
    inside = shown(figure)["2-D forward"]
    assert sum(bar.get_height() for bar in inside.patches) == pytest.approx(100)
    assert not any("outside" in text.get_text() for text in inside.texts)


def test_colour_says_whether_goals_are_reached() -> None:
    figure, _, _ = draw()
    panels = shown(figure)
    for title, verdict in (("2-D forward", MET), ("3-D input gradient", MISSED)):
        assert {bar.get_facecolor() for bar in panels[title].patches} == {to_rgba(COLOURS[verdict])}


def test_kernel_without_a_regressor_says_why() -> None:
    axes = shown(draw()[0])["copy"]
    assert not axes.patches
    assert [text.get_text().replace("\n", " ") for text in axes.texts] == [LOST]


def test_panels_share_one_axis_of_errors() -> None:
    limits = {axes.get_xlim() for axes in shown(draw()[0]).values()}
    assert limits == {(-50.0, 50.0)}


@pytest.mark.slow
def test_equal_tables_give_equal_bytes() -> None:
    assert to_svg(draw.__wrapped__(TABLES["few"])[0]) == to_svg(draw.__wrapped__(TABLES["few"])[0])


def test_nothing_timed_is_said() -> None:
    figure = plot_kernel_errors(pd.DataFrame(), pd.DataFrame())
    words = " ".join(text.get_text() for text in visible_texts(figure)).split()
    assert NO_KERNEL in " ".join(words)
    assert not np.any([axes.patches for axes in figure.axes if axes.patches])
