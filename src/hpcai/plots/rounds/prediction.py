"""Fitted curves of MLPerf HPC rounds: epochs, epoch time, predicted time to solution, and its errors."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator

from hpcai.catalogue.figures import figure
from hpcai.core.limits import MOST_MARKS
from hpcai.plots import theme
from hpcai.plots.rounds import marks as mlperf_marks

Palette = Mapping[str, theme.Colour]
NO_CURVES = "no benchmark has two strong-scaling results with a time, so there is nothing to fit"
BLOCK, ROW, FRAME = 6.0, 0.15, 0.95
"""Heights of two rows of panels, of one line of the errors, and of its axis and title [inch]."""
WIDTH = 11.6
BAND = 0.13
POINT = 5
REFERENCE = "reference"
"""Kind of the ``mlperf_curves`` rows with points of the reference implementation."""
MOST_DECADES = 1.6
"""Over more decades only powers of ten are labelled, because other labels would touch."""
ERROR_LIMITS = (0.05, 20.0)
"""Largest error factor drawn to scale; larger ones are at the edge, and the table has the number."""


@dataclass(frozen=True)
class Part:
    """Data drawn for one edition of a benchmark, and the number of results beyond ``MOST_MARKS``."""

    title: str
    curves: pd.DataFrame
    predictions: pd.DataFrame
    errors: pd.DataFrame
    left_out: int = 0


@figure(
    "mlperf_prediction",
    stage="rounds",
    category="MLPerf HPC rounds",
    title="Fitted curves and their errors",
    tables=("mlperf_curves", "mlperf_predictions", "mlperf_leave_one_out", "mlperf_prediction_errors"),
    section="round-prediction",
    before="mlperf_prediction_errors",
)
def plot_mlperf_prediction(
    curves: pd.DataFrame, predictions: pd.DataFrame, leave_one_out: pd.DataFrame, prediction_errors: pd.DataFrame
) -> Figure:
    """Draw for each benchmark edition its curves with the published points, predictions, and their errors.

    Parameters
    ----------
    curves, predictions, leave_one_out, prediction_errors
        The tables ``mlperf_curves``, ``mlperf_predictions``, ``mlperf_leave_one_out`` and
        ``mlperf_prediction_errors``.
    """
    with theme.house_style():
        parts = _parts_of(curves, predictions, leave_one_out)
        if not parts:
            return theme.sentence_figure("Prediction from fitted curves", NO_CURVES)
        palette = theme.colours(sorted({name for part in parts for name in part.errors["family"]}))
        heights = [BLOCK + max(0.0, FRAME + ROW * len(part.errors) - BLOCK / 2) for part in parts]
        figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
        blocks = figure.subfigures(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
        for block, part in zip(blocks, parts, strict=True):
            summary = prediction_errors[
                (prediction_errors["benchmark"] + ", " + prediction_errors["edition"]) == part.title
            ]
            _draw_part(block, part, palette, _say_errors(summary))
        theme.add_legend(figure, _legend(parts, palette))
        return figure


def _parts_of(curves: pd.DataFrame, predictions: pd.DataFrame, errors: pd.DataFrame) -> list[Part]:
    parts = []
    for (benchmark, edition), part in curves.groupby(["benchmark", "edition"], sort=True):
        own = [
            frame[(frame["benchmark"] == benchmark) & (frame["edition"] == edition)] for frame in (predictions, errors)
        ]
        held = own[1].dropna(subset=["run_s", "units"])
        parts.append(Part(f"{benchmark}, {edition}", part, own[0], _most_of(held), len(held[MOST_MARKS:])))
    return parts


def _most_of(held: pd.DataFrame) -> pd.DataFrame:
    """Return at most ``MOST_MARKS`` results, those that were predicted from the others first."""
    if len(held) <= MOST_MARKS:
        return held
    return held.sort_values("reason", key=lambda why: why.ne(""), kind="stable").head(MOST_MARKS)


def _draw_part(block: SubFigure, part: Part, palette: Palette, summary: str) -> None:
    extra = max(0.0, FRAME + ROW * len(part.errors) - BLOCK / 2)
    grid = block.subplots(2, 2, height_ratios=(BLOCK / 2, BLOCK / 2 + extra))
    _draw_epochs(grid[0][0], part, palette)
    _draw_epoch_time(grid[0][1], part, palette)
    _draw_predictions(grid[1][0], part, palette)
    _draw_errors(grid[1][1], part, palette, summary)
    for axes, words in zip(grid.ravel(), ("epochs", "epoch time", "time to solution", "held out"), strict=True):
        axes.set_title(f"{theme.plain_text(part.title)}:\n{words}", loc="left")


def _draw_epochs(axes: Axes, part: Part, palette: Palette) -> None:
    curve = part.curves[part.curves["kind"] == "epochs"]
    _draw_curve(axes, curve, "global_batch_samples", ("epochs", "epochs_low", "epochs_high"), theme.IDEAL_COLOUR)
    known = part.curves[part.curves["kind"] == REFERENCE]
    axes.plot(known["global_batch_samples"], known["epochs"], "D", color=theme.TARGET_COLOUR, markerfacecolor="white",
              markersize=4, gid="reference")  # fmt: skip
    _draw_points(axes, part, palette, "global_batch_samples", "epochs")
    _finish(axes, "global batch [samples]", "epochs to solution")


def _draw_epoch_time(axes: Axes, part: Part, palette: Palette) -> None:
    times = part.curves[part.curves["kind"] == "epoch_time"]
    for family, curve in times.groupby("family", sort=True):
        names = ("epoch_s", "epoch_low_s", "epoch_high_s")
        _draw_curve(axes, curve, "units", names, palette[str(family)])
    _draw_points(axes, part, palette, "units", "epoch_s")
    _finish(axes, "compute units", "epoch time [s]")


def _draw_predictions(axes: Axes, part: Part, palette: Palette) -> None:
    known = part.predictions.dropna(subset=["run_s"])
    for (_, family), rows in known.groupby(["org", "family"], sort=True):
        ordered = rows.sort_values("units")
        colour = palette[str(family)]
        values = ordered["run_s"].to_numpy(dtype=float)
        spread = np.vstack([values - ordered["run_low_s"], ordered["run_high_s"] - values])
        axes.errorbar(
            ordered["units"], values, spread, color=colour, fmt="-", linewidth=0.9, elinewidth=0.8, alpha=0.6, capsize=2
        )
    _draw_points(axes, part, palette, "units", "run_s")
    _finish(axes, "compute units", "time to solution [s]")


def _draw_errors(axes: Axes, part: Part, palette: Palette, summary: str) -> None:
    rows = part.errors.sort_values(["family", "units", "submission"], kind="stable").to_dict("records")
    for height, row in enumerate(rows):
        if row["reason"]:
            axes.text(1.1, height, "cannot be predicted", va="center", fontsize=7)
            continue
        colour, published = palette[row["family"]], row["run_s"]
        ends = np.clip([row["run_low_s"] / published, row["run_high_s"] / published], *ERROR_LIMITS)
        axes.plot(ends, [height, height], "-", color=colour, linewidth=1.2)
        axes.plot(np.clip(row["run_error_ratio"], *ERROR_LIMITS), height, "o", color=colour, markersize=POINT,
                  gid="left-out")  # fmt: skip
        axes.plot(np.clip(row["nearest_error_ratio"], *ERROR_LIMITS), height, "x", color=theme.TARGET_COLOUR,
                  markersize=4)  # fmt: skip
    axes.axvline(1.0, color=theme.IDEAL_COLOUR, linewidth=0.9)
    axes.set_yticks(range(len(rows)), [mlperf_marks.name_result(row) for row in rows], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.set_xlim(ERROR_LIMITS[0] / 1.2, ERROR_LIMITS[1] * 1.2)
    axes.set_xticks([0.1, 0.2, 0.5, 1, 2, 5, 10], ["0.1", "0.2", "0.5", "1", "2", "5", "10"])
    axes.minorticks_off()
    axes.grid(visible=False, axis="y")
    left = f"\n{part.left_out:,} more results in the tables" if part.left_out else ""
    axes.set_xlabel(f"predicted / actual time to solution\n{summary}{left}")


def _draw_curve(axes: Axes, curve: pd.DataFrame, x: str, names: tuple[str, str, str], colour: theme.Colour) -> None:
    ordered = curve.sort_values(x)
    middle, low, high = (ordered[name].to_numpy(dtype=float) for name in names)
    axes.fill_between(ordered[x].to_numpy(dtype=float), low, high, color=colour, alpha=BAND, linewidth=0)
    inside = ~ordered["extrapolated"].to_numpy(dtype=bool)
    axes.plot(ordered[x], middle, ":", color=colour, linewidth=1.1)
    axes.plot(ordered[x], np.where(inside, middle, np.nan), "-", color=colour)


def _draw_points(axes: Axes, part: Part, palette: Palette, x: str, y: str) -> None:
    for row in part.errors.to_dict("records"):
        colour = palette[row["family"]]
        shares = row["units"] > row["global_batch_samples"]
        axes.plot(row[x], row[y], "o", color=colour, markerfacecolor="white" if shares else colour, markersize=POINT,
                  gid="published")  # fmt: skip


def _finish(axes: Axes, x_words: str, y_words: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    # Bands of families with one result span decades: the axis covers lines and points, and bands are clipped.
    lines = [line for line in axes.lines if len(np.atleast_1d(line.get_xdata()))]
    for axis, limits in (
        (axes.xaxis, mlperf_marks.log_limits(np.concatenate([np.asarray(line.get_xdata(), float) for line in lines]))),
        (axes.yaxis, mlperf_marks.log_limits(np.concatenate([np.asarray(line.get_ydata(), float) for line in lines]))),
    ):
        (axes.set_xlim if axis is axes.xaxis else axes.set_ylim)(limits)
        mlperf_marks.label_axis(axis, limits)
        if np.log10(limits[1] / limits[0]) > MOST_DECADES:
            axis.set_major_locator(LogLocator(base=10))
    axes.set_xlabel(x_words)
    axes.set_ylabel(y_words)


def _say_errors(summary: pd.DataFrame) -> str:
    """Return the error of an edition's predictions as text."""
    rows = summary.to_dict("records")
    if not rows or not rows[0]["predicted"]:
        return "no result can be predicted from the others"
    row = rows[0]
    return (
        f"median factor {row['median_error_factor']:.2f}, nearest {row['nearest_median_error_factor']:.2f}; "
        f"{row['inside']} of {row['predicted']} in the interval"
    )


def _legend(parts: list[Part], palette: Palette) -> dict[str, Artist]:
    """Return the colours of the families and the marks that occur."""
    entries: dict[str, Artist] = {
        theme.plain_text(name): theme.key_line(colour, "o") for name, colour in palette.items()
    }
    plain = theme.IDEAL_COLOUR
    entries["mean of a result's runs"] = theme.key_line(plain, "o", "")
    if any((part.errors["units"] > part.errors["global_batch_samples"]).any() for part in parts):
        hollow = theme.key_line(plain, "o", "")
        hollow.set_markerfacecolor("white")
        entries["several units per sample\n(curves: one sample)"] = hollow
    if any((part.curves["kind"] == REFERENCE).any() for part in parts):
        diamond = theme.key_line(theme.TARGET_COLOUR, "D", "")
        diamond.set_markerfacecolor("white")
        entries["reference runs of\nmlperf_logging"] = diamond
    level = f"{100 * parts[0].curves['level_ratio'].iloc[0]:.0f} %"
    entries[f"{level} interval for\nanother submission"] = Patch(color=plain, alpha=0.3)
    entries["dotted: outside\nthese results"] = theme.key_line(plain, "", ":")
    entries[f"predicted for a machine,\n{level} interval"] = theme.key_line(plain, "_")
    entries["held out: nearest\nother result"] = theme.key_line(theme.TARGET_COLOUR, "x", "")
    return entries
