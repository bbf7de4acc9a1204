"""Errors of the kernel time regressors on held-out cases, one small panel per kernel."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.core.text import say_ratio, say_share
from hpcai.plots import theme

Row = Mapping[Any, Any]
FAMILIES = {
    "convolution, 2-D": ("conv2d_",),
    "convolution, 3-D": ("conv3d_",),
    "matrix product": ("gemm_",),
    "pooling": ("max_pool_", "average_pool_"),
    "element-wise": ("batch_norm_", "relu_", "bias_", "softmax_"),
    "update, copy": ("sgd", "copy"),
}
"""Rows of panels by kernel name prefix; a row with more than four kernels continues on the next line."""
COLUMNS = 4
WORDS = {"conv2d": "2-D", "conv3d": "3-D", "gemm": "GEMM", "relu": "ReLU", "sgd": "SGD"}
REACH = 0.5
"""Largest relative error drawn; each panel counts the cases beyond it."""
BINS = 20
MET, MISSED, UNKNOWN = "goals reached", "a goal missed", "not judged"
COLOURS = {MET: "#3b8fd4", MISSED: "#d4572a", UNKNOWN: "#8f8f8f"}
WIDTH, HEIGHT = 10.6, 1.55
NO_KERNEL = "no kernel was timed on this machine (study key predict.kernel_samples), so no regressor was fitted"


@figure(
    "kernel_errors",
    stage="predict",
    category="Predictions",
    title="Errors of the kernel regressors",
    tables=("kernel_errors", "kernel_accuracy"),
    section="kernel-regressors",
    before="kernel_goals",
)
def plot_kernel_errors(kernel_errors: pd.DataFrame, kernel_accuracy: pd.DataFrame) -> Figure:
    """Draw the distribution of each kernel's relative errors on the test cases.

    Parameters
    ----------
    kernel_errors
        Table ``kernel_errors``, one row per test case.
    kernel_accuracy
        Table ``kernel_accuracy``: the kernels, their mean absolute errors and goals.
    """
    with theme.house_style():
        if kernel_accuracy.empty:
            return theme.sentence_figure("Errors of the kernel regressors", NO_KERNEL)
        lines = _lines(kernel_accuracy)
        figure = Figure(figsize=(WIDTH, HEIGHT * len(lines) + 0.9), layout="constrained")
        grid = figure.subplots(len(lines), COLUMNS, squeeze=False, sharex=True, sharey=True)
        own = dict(iter(kernel_errors.groupby("kernel"))) if len(kernel_errors) else {}
        for number, (line, (family, rows)) in enumerate(zip(grid, lines, strict=True)):
            for axes, row in zip(line, rows, strict=False):
                errors = own[row["kernel"]]["relative_error_ratio"] if row["kernel"] in own else pd.Series(dtype=float)
                _draw_kernel(axes, row, errors.dropna().to_numpy(dtype=float))
            for axes in line[len(rows) :]:
                axes.set_visible(False)
            line[0].set_ylabel(f"{family}\ncases [%]")
            for place, axes in enumerate(line[: len(rows)]):
                # Without a panel below, this one is the last of its column.
                last = number == len(lines) - 1 or len(lines[number + 1][1]) <= place
                axes.tick_params(labelbottom=last)
                if last:
                    axes.set_xlabel("relative error [%]")
        _finish(grid[0][0])
        _add_key(figure, kernel_accuracy)
        return figure


def _lines(accuracy: pd.DataFrame) -> list[tuple[str, list[Row]]]:
    """Return the lines of panels: family name, and up to ``COLUMNS`` kernels."""
    rows = accuracy.to_dict("records")
    families: dict[str, list[Row]] = {name: [] for name in (*FAMILIES, "other")}
    for row in rows:
        begins = (name for name, starts in FAMILIES.items() if str(row["kernel"]).startswith(starts))
        families[next(begins, "other")].append(row)
    return [
        (family, own[start : start + COLUMNS])
        for family, own in families.items()
        for start in range(0, len(own), COLUMNS)
    ]


def _draw_kernel(axes: Axes, row: Row, errors: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    axes.set_title(_name(str(row["kernel"])), loc="left")
    axes.grid(visible=False, axis="x")
    if not len(errors):
        reason = row.get("reason")
        words = reason if isinstance(reason, str) and reason else "no test case"
        axes.text(0.03, 0.92, _fold(words), transform=axes.transAxes, va="top", fontsize=7.5)
        return
    axes.axvline(0.0, color=theme.IDEAL_COLOUR, linewidth=0.9)
    edges = [float(edge) for edge in np.linspace(-100 * REACH, 100 * REACH, BINS + 1)]
    weights = np.full(len(errors), 100 / len(errors))
    axes.hist(100 * errors, edges, weights=weights, color=COLOURS[_verdict(row)], gid="errors")
    outside = float(np.mean(np.abs(errors) > REACH))
    found = (f"MAPE {say_ratio(row.get('mape_ratio'))}", f"gain {_gain(row.get('gain_ratio'))}", f"n = {len(errors)}")
    axes.text(0.03, 0.95, "\n".join(found), transform=axes.transAxes, va="top", fontsize=7.5)
    if outside:
        axes.text(
            0.98, 0.95, f"{say_share(outside)}\noutside", transform=axes.transAxes, va="top", ha="right", fontsize=7.5
        )


def _name(kernel: str) -> str:
    return " ".join(WORDS.get(word, word) for word in kernel.split("_"))


def _fold(words: str) -> str:
    short = words if len(words) <= 60 else words[:59].rsplit(" ", 1)[0] + " …"
    half = short.rfind(" ", 0, 34) if len(short) > 34 else -1
    return short if half < 0 else f"{short[:half]}\n{short[half + 1 :]}"


def _verdict(row: Row) -> str:
    within = row.get("within_goal")
    if pd.isna(within):
        return UNKNOWN
    return MET if within else MISSED


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _gain(value: object) -> str:
    number = _number(value)
    return "not known" if math.isnan(number) else f"{number:.2g} ×"


def _finish(axes: Axes) -> None:
    axes.set_xlim(-100 * REACH, 100 * REACH)
    axes.set_xticks([-50, -25, 0, 25, 50])
    axes.set_ylim(0, axes.get_ylim()[1] * 1.1)


def _add_key(figure: Figure, accuracy: pd.DataFrame) -> None:
    found = {_verdict(row) for row in accuracy.to_dict("records")}
    entries: dict[str, Artist] = {name: Patch(color=colour) for name, colour in COLOURS.items() if name in found}
    goals = [
        f"{words} {say(value)}"
        for column, words, say in (
            ("goal_ratio", "MAPE at most", say_ratio),
            ("gain_goal_ratio", "gain at least", _gain),
        )
        for value in (accuracy[column].dropna().unique() if column in accuracy else ())
    ]
    title = f"goals: {', '.join(goals)} (gain: MAPE of a log-linear fit over this one)" if goals else None
    figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=len(entries), title=title,
                  alignment="left")  # fmt: skip
