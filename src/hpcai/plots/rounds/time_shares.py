"""Breakdown of the time to solution of MLPerf HPC results: staging, training, evaluation and the rest."""

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.plots import theme
from hpcai.plots.rounds import marks as mlperf_marks

SHARES = {
    "staging_share_ratio": "staging",
    "train_share_ratio": "training",
    "evaluation_share_ratio": "evaluation",
    "extra_share_ratio": "neither",
}
HATCHES = {"staging": "///", "evaluation": "...", "neither": "xxx"}
ROW = 0.2
"""Height of one bar including its gap to the next [inch]."""
NARROW = 0.05
"""A smaller share is too narrow for its number."""


@figure(
    "mlperf_time_shares",
    stage="rounds",
    category="MLPerf HPC rounds",
    title="Shares of the time to solution (Fig. 1 of the MLPerf HPC paper)",
    tables=("mlperf_results",),
    section="rounds",
    before="staging",
)
def plot_mlperf_time_shares(results: pd.DataFrame) -> Figure:
    """Draw the shares of the mean time to solution of every strong-scaling result, one panel per benchmark.

    Parameters
    ----------
    results
        Table ``mlperf_results``.
    """
    with theme.house_style():
        drawn = mlperf_marks.strong_results(results)
        drawn = mlperf_marks.thin_results(drawn[drawn["train_share_ratio"].notna()])
        if drawn.empty:
            return theme.sentence_figure("Shares of the time to solution", mlperf_marks.why_none(results))
        parts = mlperf_marks.parts_of(drawn)
        heights = [0.55 + ROW * len(part) for _, part in parts]
        figure = Figure(figsize=(9.6, sum(heights) + 0.9), layout="constrained")
        grid = figure.subplots(
            len(parts), 1, squeeze=False, gridspec_kw={"height_ratios": [len(part) for _, part in parts]}
        )
        palette = theme.colours(list(SHARES.values()))
        for (axes,), (name, part) in zip(grid, parts, strict=True):
            axes.set_title(name, loc="left")
            _draw_bars(axes, part, palette)
        grid[-1][0].set_xlabel("share of the mean time to solution [%]")
        keys = [
            Patch(facecolor=palette[word], hatch=HATCHES.get(word), edgecolor="white", label=word)
            for word in SHARES.values()
        ]
        figure.legend(handles=keys, loc="outside upper left", ncols=len(keys))
        return figure


def _draw_bars(axes: Axes, part: pd.DataFrame, palette: dict[str, theme.Colour]) -> None:
    rows = part.to_dict("records")
    for place, row in enumerate(rows):
        left = 0.0
        for column, word in SHARES.items():
            share = row[column]
            if math.isnan(share):
                continue
            # Overlapping evaluation makes the remainder negative; it has no bar.
            width = 100 * max(share, 0.0)
            style: dict[str, Any] = {
                "color": palette[word],
                "hatch": HATCHES.get(word),
                "edgecolor": "white",
                "linewidth": 0.4,
            }
            axes.barh(place, width, left=left, height=0.74, gid=column, **style)
            if share >= NARROW:
                _write_share(axes, left + width / 2, place, share)
            left += width
        minutes = f"{row['run_s'] / 60:,.4g} min"
        missing = "" if not math.isnan(row["staging_share_ratio"]) else ", staging not logged"
        axes.annotate(
            minutes + missing, (max(left, 100), place), (4, 0), textcoords="offset points", va="center", fontsize=7
        )
    names = [mlperf_marks.name_result(row) for row in rows]
    axes.set_yticks(range(len(rows)), names, fontsize=7.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 126)
    axes.set_xticks(range(0, 101, 20))
    axes.spines["bottom"].set_bounds(0, 100)
    axes.grid(visible=False, axis="y")


def _write_share(axes: Axes, x: float, y: float, share: float) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.85}
    axes.text(x, y, f"{100 * share:.0f}", ha="center", va="center", fontsize=6.5, bbox=box)
