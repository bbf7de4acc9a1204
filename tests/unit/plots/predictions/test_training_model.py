"""Training model figures: lines are counted, texts must not overlap, missing data is stated as text."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from unit.plots.prediction_factory import BASE, make_sweeps
from unit.plots.shared_axes import visible_texts
from unit.plots.test_figures import outside, overlaps

from hpcai.plots.predictions.training_batch import plot_training_batch
from hpcai.plots.predictions.training_model import SWEPT, plot_training_hardware
from hpcai.plots.theme import to_svg

DRAWN = {"hardware": plot_training_hardware, "batch": plot_training_batch}
SWEEPS = {
    "all": make_sweeps,
    "one": lambda: make_sweeps(("vgg16",), ("cifar10",), ("gemm",)),
    "own_names": lambda: make_sweeps().replace({"network": {"vgg11": "our_own_network_with_a_long_name"}}),
    "only_some_quantities": lambda: make_sweeps().query("swept in ('link', 'batch')"),
    "nothing": pd.DataFrame,
}


def lines(figure: Figure, name: str) -> int:
    return sum(line.get_gid() == name for axes in figure.axes for line in axes.lines)


@pytest.mark.parametrize("name", SWEEPS)
@pytest.mark.parametrize("figure", DRAWN)
@pytest.mark.filterwarnings("error::UserWarning")
def test_figure_can_be_read(figure: str, name: str) -> None:
    drawn = DRAWN[figure](SWEEPS[name]())
    drawn.draw_without_rendering()
    texts = visible_texts(drawn)
    assert overlaps(texts) == []
    assert outside(drawn, texts) == []
    assert "nan" not in " ".join(text.get_text() for text in texts).lower()


def test_every_network_has_a_step_in_each_panel() -> None:
    sweeps = make_sweeps()
    figure = plot_training_hardware(sweeps)
    panels = len(SWEPT) * sweeps["data"].nunique()
    assert len(figure.axes) == panels
    assert lines(figure, "step") == lines(figure, "communication") == panels * sweeps["network"].nunique()
    assert lines(figure, "baseline") == panels


def test_lines_are_of_the_fullest_cost_model() -> None:
    sweeps = make_sweeps(("vgg16",), ("cifar10",))
    line = next(line for line in plot_training_hardware(sweeps).axes[0].lines if line.get_gid() == "step")
    full = sweeps[(sweeps["cost_model"] == "full") & (sweeps["swept"] == "peak")]
    assert np.asarray(line.get_ydata()) == pytest.approx(1e3 * full["step_s"].to_numpy())
    assert np.asarray(line.get_xdata()) == pytest.approx(full["value"].to_numpy() / 1e12)


def test_rings_stand_where_half_of_a_step_is_communication() -> None:
    sweeps = make_sweeps(("densenet121",), ("cifar10",), ("full",))
    for axes in plot_training_hardware(sweeps).axes:
        step, sent = (next(line for line in axes.lines if line.get_gid() == name) for name in ("step", "communication"))
        share = np.asarray(sent.get_ydata(), float) / np.asarray(step.get_ydata(), float)
        crossings = int(np.sum((share[:-1] - 0.5) * (share[1:] - 0.5) < 0))
        rings = [line for line in axes.lines if line.get_gid() == "half"]
        assert len(rings) == crossings
        for ring in rings:
            place = float(np.asarray(ring.get_xdata())[0])
            between = np.interp(np.log(place), np.log(np.asarray(step.get_xdata(), float)), share)
            assert between == pytest.approx(0.5, abs=0.02)


def test_the_baseline_batch_is_marked() -> None:
    figure = plot_training_batch(make_sweeps())
    marks = [line for axes in figure.axes for line in axes.lines if line.get_gid() == "baseline"]
    assert {float(np.asarray(line.get_xdata())[0]) for line in marks} == {BASE["batch"]}


@pytest.mark.slow
@pytest.mark.parametrize("figure", DRAWN)
def test_equal_tables_give_equal_bytes(figure: str) -> None:
    assert to_svg(DRAWN[figure](make_sweeps())) == to_svg(DRAWN[figure](make_sweeps()))


@pytest.mark.parametrize("figure", DRAWN)
def test_nothing_modelled_is_said(figure: str) -> None:
    words = " ".join(text.get_text() for text in visible_texts(DRAWN[figure](pd.DataFrame()))).split()
    assert "no training step was modelled" in " ".join(words)
