"""Figures of comparisons and histories: marks, texts, and nothing hidden."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hpcai.compare.history import HISTORY_COLUMNS
from hpcai.compare.scores import COMPARISON_COLUMNS, NOT_OF_ONE_KIND
from hpcai.plots import theme
from hpcai.plots.scores.comparison import NO_EARLIER, NO_RATIOS, NOT_COMPARED, VFLOPS_UNDEFINED, plot_comparison
from hpcai.plots.scores.history import NO_HISTORY, NO_SCORES, plot_history

TIME, RATE, VALID = "time_to_train_s", "train_rate_samples_per_s", "vflops_flop_per_s"


def comparison_of(*rows: dict[str, Any]) -> pd.DataFrame:
    common = {
        "status": "compared",
        "benchmark": "cosmoflow_tiny",
        "variant": "fp32",
        "engine": "horovod",
        "scale": "n1x1",
        "ranks": 1,
    }
    values = {"finding": "not significant", "measure": TIME, "better": "lower", "ratio": 1.0}
    return pd.DataFrame([common | values | row for row in rows], columns=list(COMPARISON_COLUMNS))


def history_of(*rows: dict[str, Any]) -> pd.DataFrame:
    common = {
        "benchmark": "cosmoflow_tiny",
        "variant": "fp32",
        "engine": "horovod",
        "scale": "n1x1",
        "ranks": 1,
        "series": 1,
        "remark": "",
    }
    values = {"measure": TIME, "value": 10.0, "verdict": "new", "number": 1, "started_utc": "2026-01-02T03:00:00Z"}
    return pd.DataFrame([common | values | row for row in rows], columns=list(HISTORY_COLUMNS))


def words(figure: Figure) -> str:
    return theme.to_svg(figure).decode()


def lines(figure: Figure, gid: str) -> list[Any]:
    return [line for axes in figure.axes for line in axes.lines if line.get_gid() == gid]


def test_every_ratio_is_drawn_in_the_colour_of_its_finding() -> None:
    figure = plot_comparison(
        comparison_of(
            {"ratio": 1.2, "low_ratio": 1.1, "high_ratio": 1.3, "finding": "worse"},
            {"ratio": 0.8, "low_ratio": 0.7, "high_ratio": 0.9, "finding": "better", "scale": "n1x2", "ranks": 2},
            {"ratio": 1.01, "finding": "one run", "measure": RATE, "better": "higher"},
        )
    )
    dots = lines(figure, "ratio")
    assert sorted(float(dot.get_xdata()[0]) for dot in dots) == [0.8, 1.01, 1.2]
    assert len({dot.get_color() for dot in dots}) == 3
    assert sum(dot.get_markerfacecolor() == "white" for dot in dots) == 1
    assert "  " not in "".join(re.findall(r">([^<>]*\S[^<>]*)</", words(figure)))  # browsers merge two spaces
    assert sides(figure.axes[0]) == ["← better", "worse →"]
    assert sides(figure.axes[1]) == ["← worse", "better →"]
    for dot in dots:
        low, high = dot.axes.get_xlim()
        assert low < dot.get_xdata()[0] < high


def sides(axes: Axes) -> list[str]:
    """Return the labels below an axis, if there is one on each side of its 1."""
    axes.figure.draw_without_rendering()
    texts = [text for text in axes.texts if text.get_text()[0] == "←" or text.get_text()[-1] == "→"]
    middle = axes.transData.transform((1.0, 0.0))[0]
    left, right = (text.get_window_extent() for text in texts)
    assert middle - left.x1 == pytest.approx(right.x0 - middle, abs=2)
    assert 0 < right.x0 - middle < 30
    label = axes.xaxis.label.get_window_extent()
    assert not any(label.overlaps(box) for box in (left, right))
    return [text.get_text() for text in texts]


@pytest.mark.parametrize("ratio", [1.003, 1.05, 1.12, 1.2, 1.25, 1.4, 1.9, 3.0, 10.0, 300.0])
def test_an_axis_is_symmetric_and_has_three_labels_or_more(ratio: float) -> None:
    row = {"ratio": ratio, "low_ratio": ratio / 1.001, "high_ratio": ratio * 1.001}
    axes = plot_comparison(comparison_of(row), tolerance_ratio=0.01).axes[0]
    low, high = axes.get_xlim()
    assert low * high == pytest.approx(1)
    ticks = axes.get_xticks()
    assert len(ticks) >= 3
    assert all(low <= tick <= high for tick in ticks)
    assert ticks * ticks[::-1] == pytest.approx(1)


def test_a_fifth_of_change_has_labels_on_both_sides() -> None:
    axes = plot_comparison(comparison_of({"ratio": 1.2, "low_ratio": 1.19, "high_ratio": 1.21})).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.833", "0.909", "1", "1.1", "1.2"]


def test_why_scores_are_not_compared_is_said() -> None:
    other = {"status": "not_comparable", "finding": "not comparable", "ratio": np.nan, "benchmark": "resnet50_tiny"}
    target = {**other, "measure": "", "note": "quality_target 0.3 against 0.35"}
    figure = plot_comparison(comparison_of({"ratio": 1.1}, {"ratio": 1.1, "measure": RATE}, target))
    text = words(figure)
    assert text.count("not compared: quality_target 0.3 against") == 2
    assert "nothing was measured" not in text.lower()
    note = NOT_OF_ONE_KIND(differences="exponent 5 against 10")
    kind = {**other, "status": "compared", "measure": VALID, "note": note}
    text = words(plot_comparison(comparison_of({"ratio": 1.1, "benchmark": "resnet50_tiny"}, kind)))
    assert note in text
    text = words(plot_comparison(comparison_of(target)))
    assert f"resnet50_tiny: {NOT_COMPARED(why='quality_target 0.3 against 0.35')}" in text
    assert "nothing was measured" not in text.lower()


def test_undefined_vflops_are_said_to_be() -> None:
    defined = {"benchmark": "resnet50_tiny", "suite": "hpc_ai500", "workload": "image_classification"}
    images = {**defined, "measure": VALID, "better": "higher"}
    undefined = {"suite": "mlperf_hpc", "workload": "cosmoflow"}
    text = words(plot_comparison(comparison_of(images, undefined)))
    assert len(re.findall(VFLOPS_UNDEFINED.pattern, text)) == 1
    assert "nothing was measured" not in text
    assert "neither result has this score" in text
    text = words(plot_history(history_of(images, undefined)))
    assert len(re.findall(VFLOPS_UNDEFINED.pattern, text)) == 1
    assert "nothing was measured" not in text
    assert "no result has this score" in text


def test_points_that_are_not_compared_are_named() -> None:
    alone = {"status": "only_base", "measure": "", "ratio": np.nan, "scale": "n1x4", "ranks": 4}
    other = {**alone, "status": "not_comparable", "scale": "n1x8", "ranks": 8}
    text = words(plot_comparison(comparison_of({"ratio": 1.1}, alone, other)))
    assert NOT_COMPARED(why="only in the base") in text
    assert "not compared: another problem" in text


def test_a_wide_interval_ends_in_an_arrow_inside_the_panel() -> None:
    figure = plot_comparison(comparison_of({"ratio": 1.1, "low_ratio": 0.01, "high_ratio": 120.0}))
    axes = figure.axes[0]
    arrows = [line for line in axes.lines if line.get_marker() in ("<", ">")]
    assert len(arrows) == 2
    assert all(axes.get_xlim()[0] < line.get_xdata()[0] < axes.get_xlim()[1] for line in arrows)
    assert axes.get_xlim()[1] < 10


@pytest.mark.parametrize("frame", [comparison_of({"ratio": np.nan}), comparison_of({"measure": "", "ratio": np.nan})])
def test_a_comparison_of_nothing_says_so(frame: pd.DataFrame) -> None:
    assert NO_RATIOS() in words(plot_comparison(frame))


def test_every_result_is_drawn_and_changes_are_ringed() -> None:
    figure = plot_history(
        history_of(
            {"number": 1, "low": 9.0, "high": 11.0},
            {"number": 2, "value": 10.1},
            {"number": 3, "value": 13.0, "verdict": "regression", "remark": "the level shifts here"},
            {"number": 4, "value": 9.0, "verdict": "improvement"},
            {"number": 1, "measure": "vflops_flop_per_s", "value": 3e12},
        )
    )
    assert [len(line.get_xdata()) for line in lines(figure, "regression")] == [1, 0]
    assert lines(figure, "regression")[0].get_ydata()[0] == 13.0
    assert lines(figure, "improvement")[0].get_ydata()[0] == 9.0
    assert len(lines(figure, "shift")) == 1
    text = words(figure)
    assert "VFLOPS [10¹² FLOP/s]" in text
    assert "2026-01-02" in text


def test_results_that_are_not_comparable_are_not_joined() -> None:
    figure = plot_history(history_of({"number": 1}, {"number": 2, "series": 2, "value": 20.0}, {"number": 3}))
    joined = [container.lines[0] for axes in figure.axes for container in axes.containers]
    assert sorted(len(line.get_xdata()) for line in joined) == [1, 2]


def test_a_history_of_nothing_says_so() -> None:
    assert NO_SCORES() in words(plot_history(history_of({"value": float("nan")})))


def test_what_was_not_asked_for_is_not_said_to_be_unmeasured() -> None:
    asked = {NO_HISTORY(): plot_history(history_of()), NO_EARLIER(): plot_comparison(comparison_of())}
    for sentence, figure in asked.items():
        assert sentence in words(figure)
        assert theme.NOTHING_MEASURED.opening not in words(figure)


def test_many_results_keep_their_labels_apart() -> None:
    rows = [{"number": number, "value": 10.0 * scale, "scale": f"n1x{scale}", "ranks": scale}
            for number in range(1, 31) for scale in (1, 8)]  # fmt: skip
    axes = plot_history(history_of(*rows)).axes[0]
    assert len(axes.get_xticks()) <= 4
    assert axes.get_yscale() == "log"
    assert len([label for label in axes.get_yticklabels() if label.get_text()]) >= 2


@pytest.mark.slow
def test_equal_tables_give_equal_bytes() -> None:
    for draw, frame in ((plot_comparison, comparison_of({"ratio": 1.1})), (plot_history, history_of({}))):
        assert words(draw(frame)) == words(draw(frame))
