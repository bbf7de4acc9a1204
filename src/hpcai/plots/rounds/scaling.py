"""Scaling of MLPerf HPC results: epochs, throughputs and compute time over compute units, on shared axes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from hpcai.catalogue.figures import figure
from hpcai.plots import theme
from hpcai.plots.rounds import marks as mlperf_marks


@dataclass(frozen=True)
class Quantity:
    """One row of panels: column, spread, factor to the axis unit, and the slope of equal efficiency."""

    column: str
    words: str
    spread: str = ""
    factor: float = 1.0
    slope: int = 0


HARMONIC = "throughput,\nharmonic mean [samples/s]"
QUANTITIES = (
    Quantity("epochs", "epochs to solution", "epochs_std"),
    Quantity("epoch_rate_per_s", "epoch throughput,\nharmonic mean [1/min]", "epoch_rate_std_per_s", 60, 1),
    Quantity("train_rate_samples_per_s", f"training {HARMONIC}", "train_rate_std_samples_per_s", 1, 1),
    Quantity("evaluation_rate_samples_per_s", f"evaluation {HARMONIC}", "evaluation_rate_std_samples_per_s", 1, 1),
    Quantity("compute_s", "compute time [min]", "compute_std_s", 1 / 60, -1),
)
PANEL = (2.9, 1.85)
"""Approximate size of a panel's frame [inch]."""
MOST_COLUMNS = 4
"""Editions side by side; further ones go below."""
Parts = Sequence[tuple[str, pd.DataFrame]]


@figure(
    "mlperf_scaling",
    stage="rounds",
    category="MLPerf HPC rounds",
    title="Epochs, throughput and compute time (Fig. 2 of the MLPerf HPC paper)",
    tables=("mlperf_results",),
    section="round-scaling",
    before="scales",
)
def plot_mlperf_scaling(results: pd.DataFrame) -> Figure:
    """Draw epochs, throughputs and compute time of every strong-scaling result against its compute units.

    Parameters
    ----------
    results
        Table ``mlperf_results``.
    """
    with theme.house_style():
        drawn = mlperf_marks.strong_results(results)
        drawn = mlperf_marks.thin_results(drawn[drawn["units"].notna() & drawn["epochs"].notna()])
        drawn = _add_spreads(drawn)
        if drawn.empty:
            return theme.sentence_figure("Scaling of MLPerf HPC results", mlperf_marks.why_none(results))
        parts = mlperf_marks.parts_of(drawn)
        palette = mlperf_marks.colour_origins(drawn)
        rows = [parts[place : place + MOST_COLUMNS] for place in range(0, len(parts), MOST_COLUMNS)]
        heights = [sum(_heights(row)) + 0.5 for row in rows]
        width = 0.9 + (PANEL[0] + 0.75) * min(len(parts), MOST_COLUMNS)
        figure = Figure(figsize=(width, sum(heights) + 0.6), layout="constrained")
        blocks = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
        for block, row in zip(blocks, rows, strict=True):
            _draw_block(block, row, min(len(parts), MOST_COLUMNS), palette)
        entries = mlperf_marks.key_entries(drawn, palette)
        entries["equal efficiency"] = theme.key_line("#bbbbbb", style="--")
        figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=min(4, len(entries)))
        return figure


def _heights(parts: Parts) -> list[float]:
    """Return the row heights of a block: the panels, and below each column of them the height of its key."""
    shown = [len(part) if len(part) <= mlperf_marks.MOST_TAGS else 2 for _, part in parts]
    return [*([PANEL[1] + 0.3] * len(QUANTITIES)), 0.2 + 0.135 * max(shown)]


def _draw_block(block: SubFigure, parts: Parts, columns: int, palette: Mapping[str, theme.Colour]) -> None:
    """Draw one column of panels per edition; all blocks have equally many columns."""
    heights = _heights(parts)
    grid = block.subplots(len(heights), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes in grid[:, len(parts) :].ravel():
        axes.set_axis_off()
    for column, (name, part) in enumerate(parts):
        theme.set_title(grid[0][column], *name.split(", "), f"n = {len(part)}")
        x_limits = mlperf_marks.log_limits(part["units"])
        for line, quantity in enumerate(QUANTITIES):
            axes = grid[line][column]
            axes.set_xscale("log")
            axes.set_xlim(x_limits)
            _draw_panel(axes, part, quantity, palette)
            mlperf_marks.label_axis(axes.xaxis, x_limits)
            if column == 0:
                axes.set_ylabel(quantity.words)
            if line < len(QUANTITIES) - 1:
                axes.tick_params(labelbottom=False)
        grid[len(QUANTITIES) - 1][column].set_xlabel("compute units")
        mlperf_marks.write_key(grid[-1][column], part)


def _add_spreads(results: pd.DataFrame) -> pd.DataFrame:
    """Add standard deviations of rates, derived from those of their times (first order)."""
    units = results["units"]
    return results.assign(
        epoch_rate_std_per_s=results["epoch_rate_per_s"] * results["epoch_std_s"] / results["epoch_s"],
        train_rate_std_samples_per_s=results["train_rate_per_unit_std_samples_per_s"] * units,
        evaluation_rate_std_samples_per_s=results["evaluation_rate_per_unit_std_samples_per_s"] * units,
    )


def _draw_panel(axes: Axes, part: pd.DataFrame, quantity: Quantity, palette: Mapping[str, theme.Colour]) -> None:
    shown = part[part[quantity.column] > 0]
    if shown.empty:
        theme.say_empty(axes, "no result has it")
        return
    values = quantity.factor * shown[quantity.column]
    spreads = (quantity.factor * shown[quantity.spread]).fillna(0.0)
    limits = mlperf_marks.log_limits([*values, *(values + spreads)], 0.12)
    axes.set_yscale("log")
    axes.set_ylim(limits)
    if quantity.slope:
        for (left, low), (right, high) in mlperf_marks.spread_lines((axes.get_xlim(), limits), quantity.slope):
            axes.plot(
                [left, right], [low, high], "--", color="#bbbbbb", linewidth=0.7, zorder=0, gid="equal-efficiency"
            )
    for row, value, spread in zip(shown.to_dict("records"), values, spreads, strict=True):
        style = mlperf_marks.point_style(row, palette)
        # A spread as large as its value has no lower end on a logarithmic axis: the bar goes to the edge.
        low = min(spread, value - limits[0] / 2)
        axes.errorbar([row["units"]], [value], yerr=[[low], [spread]], capsize=2, elinewidth=0.9, gid="result", **style)
    mlperf_marks.label_axis(axes.yaxis, limits)
    if len(part) <= mlperf_marks.MOST_TAGS:
        mlperf_marks.draw_tags(axes, list(zip(shown["units"], values, strict=True)), list(shown["tag"]), PANEL)
