"""Kernels that take the time (HPC AI500 V2.0, Fig. 10), and their use of processor and memory."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from hpcai.catalogue.figures import figure
from hpcai.core.text import say_rate, say_share
from hpcai.metrics.profiles.kernel_rules import (
    ALLREDUCE,
    ARRANGEMENT,
    BATCH_NORM,
    CONVOLUTION,
    ELEMENTWISE,
    FURTHER_CATEGORIES,
    GEMM,
    MEMCPY,
    OTHER,
    POOLING,
    name_category,
)
from hpcai.plots import theme
from hpcai.plots.profiles import panels as profiles

ORDER = (CONVOLUTION, GEMM, BATCH_NORM, POOLING, ELEMENTWISE, ARRANGEMENT, ALLREDUCE, MEMCPY, *FURTHER_CATEGORIES)
"""Stacking order of bars: computation, overhead, others; unclassified kernels come last."""
HATCHES = ("", "///", "...", "\\\\\\", "", "xxx", "", "|||", "++", "oo", "--")
"""Hatches in the order of the categories: neighbours differ in print even without colour."""
OTHER_COLOUR = "#d9d9d9"
LONGEST_LINE = 110
"""Maximum length of a line below the bars [characters]."""
COLUMN = 0.82
"""Width of a category heading [inch]."""
LEGEND = 1.9
"""Width of the legend [inch]."""
NARROW = 0.05
"""A smaller share is too narrow for its number."""
NEARLY_ALL = 0.95
"""A measure covering less of a category's time shows its coverage."""
NO_KERNELS = "no kernel profiler ran"
NO_COUNTERS = "it needs hardware counters of the processor"
MEASURES = {
    "instructions_per_cycle": "instructions per cycle",
    "dram_rate_bytes_per_s": "use of DRAM: bytes read and written per second of kernel time",
}


@figure(
    "kernels",
    stage="views",
    category="Kernels",
    title="Kernel time by category",
    tables=("kernels", "captures"),
    section="kernels",
    before="kernels",
)
def plot_kernels(kernels: pd.DataFrame, captures: pd.DataFrame) -> Figure:
    """Draw each kernel category's share of the kernel time for every profiled run.

    Parameters
    ----------
    kernels
        ``category``, ``share_ratio``, and with counters ``instructions_per_cycle`` and ``dram_rate_bytes_per_s``.
    captures
        Reasons for missing captures.
    """
    with theme.house_style():
        known = kernels.dropna(subset=["share_ratio"]) if len(kernels) else kernels
        if known.empty:
            return theme.empty_figure("Kernels", profiles.say_why_not(captures, "kernels", NO_KERNELS))
        known = known.assign(category=known["category"].astype(str).map(name_category))
        runs = profiles.split_runs(known)
        order = order_categories(known["category"])
        height = profiles.row_height(runs) * len(runs)
        heights = [
            max(height + 0.9, 1.9),
            *(height + 0.75 if _is_known(known, column) else 0.75 for column in MEASURES),
        ]
        width = profiles.label_width(runs) + max(7.0, COLUMN * len(order)) + LEGEND
        figure = Figure(figsize=(width, sum(heights)), layout="constrained")
        top, *below = figure.subplots(3, 1, gridspec_kw={"height_ratios": heights})
        looks = {name: look for name, look in _looks(order).items() if name in order}
        for place, run in enumerate(runs):
            _draw_shares(top, place, run.part, looks)
        profiles.label_rows(top, runs)
        top.set_title("share of kernel time by category", loc="left")
        top.set_xlabel("share of kernel time [%]")
        top.set_xlim(0, 100)
        for axes, (column, words) in zip(below, MEASURES.items(), strict=True):
            axes.set_title(words, loc="left")
            if _is_known(known, column):
                _draw_measure(axes, runs, order, column)
            else:
                _say_not_measured(axes, profiles.say_why_not(captures, "counters", NO_COUNTERS))
        theme.add_legend(
            figure,
            {name: Patch(facecolor=colour, hatch=hatch, edgecolor="white") for name, (colour, hatch) in looks.items()},
        )
        return figure


def order_categories(categories: pd.Series) -> list[str]:
    """Return the present categories in the order of `ORDER`; then unlisted ones by name, then unclassified kernels."""
    present = set(categories)
    return [
        *(name for name in ORDER if name in present),
        *sorted(present - {*ORDER, OTHER}),
        *([OTHER] if OTHER in present else []),
    ]


def _looks(order: list[str]) -> dict[str, tuple[theme.Colour, str]]:
    """Return colour and hatch of each category; those of the eight standard ones never depend on the others."""
    names = [*ORDER, *(name for name in order if name not in {*ORDER, OTHER})]
    palette = list(theme.colours([str(number) for number in range(10)]).values())
    looks: dict[str, tuple[theme.Colour, str]] = {
        name: (palette[number % len(palette)], HATCHES[number % len(HATCHES)]) for number, name in enumerate(names)
    }
    return {**looks, OTHER: (OTHER_COLOUR, "")}


def _is_known(kernels: pd.DataFrame, column: str) -> bool:
    return column in kernels and bool(np.isfinite(kernels[column].astype(float)).any())


def _draw_shares(axes: Axes, place: int, kernels: pd.DataFrame, looks: dict[str, tuple[theme.Colour, str]]) -> None:
    shares = kernels.groupby("category")["share_ratio"].sum().to_dict()
    left = 0.0
    for name, (colour, hatch) in looks.items():
        width = 100 * float(shares.get(name, 0.0))
        axes.barh(place, width, left=left, height=0.66, color=colour, hatch=hatch, edgecolor="white")
        if width >= 100 * NARROW:
            axes.text(left + width / 2, place, f"{width:.0f}", ha="center", va="center", fontsize=8, bbox=profiles.BOX)
        left += width


def _draw_measure(axes: Axes, runs: list[profiles.ProfiledRun], order: list[str], column: str) -> None:
    """Write the values as a table: one row per run, one column per category."""
    _clear(axes)
    for place, run in enumerate(runs):
        known = run.part.dropna(subset=[column]).drop_duplicates("category")
        own = {row["category"]: row for row in known.to_dict("records")}
        if not own:
            axes.text(-0.4, place, "not measured", va="center", color="#666666", fontsize=8)
        for number, name in enumerate(order):
            if own:
                words = _say(column, own[name]) if name in own else "–"
                axes.text(number, place, words, ha="center", va="center", fontsize=8)
    # Long words would touch their neighbours.
    heads = [name.replace(" ", "\n").replace("-", "-\n") for name in order]
    axes.set_xticks(range(len(order)), heads, fontsize=8)
    axes.xaxis.tick_top()
    axes.set_xlim(-0.5, len(order) - 0.5)
    profiles.label_rows(axes, runs)
    axes.set_ylim(len(runs) - 0.5, -0.5)


def _say_not_measured(axes: Axes, why: str) -> None:
    _clear(axes)
    axes.text(0.0, 0.5, f"not measured: {profiles.cut_text(why, LONGEST_LINE)}", transform=axes.transAxes, va="center")
    axes.set_xticks([])
    axes.set_yticks([])


def _clear(axes: Axes) -> None:
    """Reduce the axes to the elements of a table."""
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(visible=False)


def _say(column: str, row: Mapping[Hashable, Any]) -> str:
    """Return a value, with its coverage of the category's time if that is not nearly all."""
    value, counted = float(row[column]), float(row.get("counted_ratio", np.nan))
    words = f"{value:.2f}" if column == "instructions_per_cycle" else say_rate(value)
    return f"{words}\n(of {say_share(counted)})" if counted < NEARLY_ALL else words
