"""HPL figures from the model's own sweeps and from small tables; empty tables give reasons."""

import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.plots import theme
from hpcai.plots.predictions import hpl
from hpcai.plots.predictions.hpl import MUTED, plot_hpl_efficiency, plot_hpl_host_link, plot_hpl_network
from hpcai.plots.predictions.hpl_validation import NO_RUN, NO_TABLE, choose_runs, plot_hpl_validation
from hpcai.predict.hpl.figures_data import sweep_figures

RUN = {"order": 4000, "block": 128, "process_rows": 1, "process_columns": 1, "measured_time_s": 0.8, "goal_ratio": 0.1}
SOLUTIONS = {"n": 1, "spread_ratio": float("nan")}
MODELS = {"all parts": -0.02, "three rates": -0.05, "GEMM only": -0.12, "credited / GEMM rate": -0.07}


@pytest.fixture(scope="module")
def sweeps() -> pd.DataFrame:
    return sweep_figures()


def validation(*accepted: bool, **changes: float) -> pd.DataFrame:
    run = {**RUN, **SOLUTIONS, **changes}
    return pd.DataFrame(
        [
            {**run, "attempt": number, "accepted": good, "model": model, "error_ratio": error - number / 100}
            for number, good in enumerate(accepted, 1)
            for model, error in MODELS.items()
        ]
    )


def published() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "row": row,
                "assumption_set": name,
                "variant": "device",
                "fitted": fitted,
                "error_to_estimate_ratio": estimate,
                "error_to_real_ratio": real,
            }
            for name, fitted, estimate, real in (("S1", False, 0.02, 0.06), ("S6", True, float("nan"), 0.001))
            for row in range(1, 9)
        ]
    )


def words_of(figure: Figure) -> str:
    return theme.to_svg(figure).decode()


def plain_words(figure: Figure) -> str:
    """Return the text of a figure as read continuously over its lines."""
    return " ".join(re.sub(r"<[^>]+>", " ", words_of(figure)).split())


def coloured(axes: Axes) -> int:
    return sum(line.get_color() != MUTED for line in axes.get_lines())


def test_efficiency_has_three_panels_and_names_every_variant(sweeps: pd.DataFrame) -> None:
    figure = plot_hpl_efficiency(sweeps)
    panels = figure.axes[:3]
    assert [coloured(axes) for axes in panels] == [4, 4, 4]
    assert [len(axes.get_lines()) for axes in panels] == [6, 6, 6]
    text = words_of(figure)
    for word in ("modelled, nothing measured", "balance, NB 256", "pipe, NB 256", "device, host link 102.4 GB/s"):
        assert word in text


def test_efficiency_draws_what_the_table_says(sweeps: pd.DataFrame) -> None:
    line = next(
        line for line in plot_hpl_efficiency(sweeps).axes[1].get_lines() if line.get_color() != MUTED
    )  # host link 32 GB/s
    assert np.asarray(line.get_xdata()).tolist() == [128, 256, 512, 1024]
    assert np.asarray(line.get_ydata()).tolist() == pytest.approx([75.73, 75.36, 74.61, 73.15], abs=0.1)


def test_host_link_leaves_out_what_no_link_keeps(sweeps: pd.DataFrame) -> None:
    six = sweeps["figure"] == "6"
    missing = int(sweeps[six]["host_link_bytes_per_s"].isna().sum())
    assert missing > 0
    assert hpl.LEFT_OUT(missing=missing, cases=six.sum()) in plain_words(plot_hpl_host_link(sweeps))
    nothing = sweeps.assign(host_link_bytes_per_s=sweeps["host_link_bytes_per_s"].mask(six))
    assert hpl.NO_LINK() in plain_words(plot_hpl_host_link(nothing))


def test_network_is_drawn_over_all_rates(sweeps: pd.DataFrame) -> None:
    axes = plot_hpl_network(sweeps).axes[0]
    drawn = {round(float(value)) for line in axes.get_lines() for value in np.asarray(line.get_xdata())}
    assert drawn == {round(1e-9 * rate) for rate in sweeps["network_bit_per_s"].dropna()}
    assert axes.get_xscale() == "log"


@pytest.mark.parametrize("plot", [plot_hpl_efficiency, plot_hpl_host_link, plot_hpl_network])
def test_empty_sweeps_say_why(plot: type, sweeps: pd.DataFrame) -> None:
    assert hpl.NO_SWEEPS in plain_words(plot(sweeps.iloc[:0]))


def test_validation_draws_accepted_runs_filled_and_others_hollow() -> None:
    for accepted, face_is_white in ((True, False), (False, True)):
        figure = plot_hpl_validation(validation(accepted), published())
        marks = [line for line in figure.axes[0].get_lines() if line.get_gid() == "run"]
        assert sorted(float(np.asarray(mark.get_xdata())[0]) for mark in marks) == pytest.approx([-13, -8, -6, -3])
        assert [mark.get_markerfacecolor() == "white" for mark in marks] == [face_is_white] * len(MODELS)
        assert ("run not accepted" in words_of(figure)) is face_is_white


def test_validation_shows_the_accepted_start_or_the_last() -> None:
    assert set(choose_runs(validation(False, True, False))["attempt"]) == {2}
    assert set(choose_runs(validation(False, False))["attempt"]) == {2}


def test_several_solutions_show_how_far_they_differ() -> None:
    words = plain_words(plot_hpl_validation(validation(True, n=3, spread_ratio=0.024), published()))
    assert "0.8 s measured, median of 3, spread 2.4 %" in words


def test_sets_without_a_number_are_left_out_of_a_panel() -> None:
    left, right = plot_hpl_validation(validation(True), published()).axes[1:]
    assert len(left.get_lines()) == 2  # zero, S1
    assert len(right.get_lines()) == 3
    assert right.get_lines()[-1].get_markerfacecolor() == "white"


def test_empty_validation_says_why() -> None:
    text = plain_words(plot_hpl_validation(validation(True).iloc[:0], published().iloc[:0]))
    assert NO_RUN in text
    assert NO_TABLE in text
