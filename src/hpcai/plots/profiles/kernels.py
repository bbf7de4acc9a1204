"""Kernels that take the time (HPC AI500 V2.0, Fig. 10), and their use of processor and memory."""

from collections.abc import Hashable, Mapping
from dataclasses import replace
from functools import partial
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
    HPC_AI500_CATEGORIES,
    MEMCPY,
    OTHER,
    POOLING,
    name_category,
)
from hpcai.metrics.scores.declared_checks import complete_shares
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
"""Width of the legend, in inches."""
NEARLY_ALL = 0.95
"""A measure covering less of a category's time shows its coverage."""
NO_KERNELS = "no kernel profiler ran"
NO_COUNTERS = "it needs hardware counters of the processor"
MEASURES = {
    "instructions_per_cycle": "instructions per cycle",
    "dram_rate_bytes_per_s": "use of DRAM: bytes read and written per second of kernel time",
}
DRAM_LEVEL = {"dram_utilisation": "DRAM utilisation, from 0 to 10"}
SEEN_MEASURES = {
    **DRAM_LEVEL,
    "occupancy_ratio": "occupancy: active warps over the most that fit",
    "load_efficiency_ratio": "load efficiency: bytes asked for over bytes loaded",
    "store_efficiency_ratio": "store efficiency",
}
"""Shown where they were counted; that they were not is said once, by the measures above."""
MEASURED_OF_PUBLISHED = ("instructions_per_cycle", "dram_utilisation")


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
        seen = {column: words for column, words in SEEN_MEASURES.items() if _is_known(known, column)}
        why = profiles.say_why_not(captures, "counters", NO_COUNTERS)
        return _draw_runs(profiles.split_runs(known), {**MEASURES, **seen}, why)


@figure(
    "kernels_published",
    stage="scores",
    category="Kernels",
    title="Kernel time beside the published",
    tables=("kernels", "declared_breakdowns", "captures"),
    section="kernels",
    before="counters",
)
def plot_beside_published(kernels: pd.DataFrame, declared_breakdowns: pd.DataFrame, captures: pd.DataFrame) -> Figure:
    """Draw our profiled runs under published breakdowns, in the eight categories of these (HPC AI500 V2.0, Fig. 10).

    Parameters
    ----------
    kernels
        As `plot_kernels` has them. What has no place among the eight categories is part of "other".
    declared_breakdowns
        Published ones, those of kernels among them; the shares that a source leaves out are part of "other" as well.
    captures
        Why what was not captured was not.
    """
    with theme.house_style():
        known = kernels.dropna(subset=["share_ratio"]) if len(kernels) else kernels
        runs = [
            *_published_runs(declared_breakdowns),
            *map(_in_eight, profiles.split_runs(known) if len(known) else []),
        ]
        if not runs:
            return theme.empty_figure("Kernels", profiles.say_why_not(captures, "kernels", NO_KERNELS))
        why = profiles.say_why_not(captures, "counters", NO_COUNTERS)
        return _draw_runs(runs, {"instructions_per_cycle": MEASURES["instructions_per_cycle"], **DRAM_LEVEL}, why)


def _published_runs(breakdowns: pd.DataFrame) -> list[profiles.ProfiledRun]:
    """Return published breakdowns of kernel time as rows, the shares that they leave out as "other"."""
    rows = []
    for title, part in breakdowns.groupby("breakdown", sort=False) if len(breakdowns) else ():
        named = part.assign(category=part["part"].astype(str).map(name_category))
        if not named["category"].isin(HPC_AI500_CATEGORIES).all():
            continue
        shares = complete_shares(dict(zip(named["category"], named["share_ratio"], strict=True)))
        rest = pd.DataFrame([{"category": OTHER, "share_ratio": shares[OTHER]}])
        where = f"{part['origin'].iloc[0]}, {part['where'].iloc[0]}{_say_busy(part)}"
        name = str(title).partition(", ")[2] or str(title)
        whole = pd.concat([named[["category", "share_ratio", *MEASURED_OF_PUBLISHED]], rest], ignore_index=True)
        rows.append(profiles.ProfiledRun(name, where, str(title), whole))
    return rows


def _in_eight(run: profiles.ProfiledRun) -> profiles.ProfiledRun:
    """Return a run of ours in the eight categories and "other", of which no means of counters are made."""
    named = run.part.assign(category=run.part["category"].astype(str).map(name_category))
    inside = named["category"].isin(HPC_AI500_CATEGORIES)
    rest = pd.DataFrame([{"category": OTHER, "share_ratio": float(named.loc[~inside, "share_ratio"].sum())}])
    part = pd.concat([named[inside], rest], ignore_index=True)
    return replace(run, scale=run.scale + _say_busy(run.part), part=part)


def _say_busy(part: pd.DataFrame) -> str:
    busy = float(part["device_busy_ratio"].iloc[0]) if "device_busy_ratio" in part else np.nan
    return f", {say_share(busy)} busy" if np.isfinite(busy) else ""


def _draw_runs(runs: list[profiles.ProfiledRun], measures: Mapping[str, str], why: str) -> Figure:
    """Draw shares of runs, and below them a table for each measure; why there is none where there is none."""
    known = pd.concat([run.part for run in runs], ignore_index=True)
    order = order_categories(known["category"])
    height = profiles.row_height(runs) * len(runs)
    counted = {column: _counted(runs, column) for column in measures}
    heights = [
        max(height + 0.9, 1.9),
        *(profiles.row_height(own) * len(own) + 0.75 if own else 0.75 for own in counted.values()),
    ]
    width = profiles.label_width(runs) + max(7.0, COLUMN * len(order)) + LEGEND
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    top, *below = figure.subplots(len(heights), 1, gridspec_kw={"height_ratios": heights})
    looks = {name: look for name, look in _looks(order).items() if name in order}
    for place, run in enumerate(runs):
        shares = run.part.groupby("category")["share_ratio"].sum()
        profiles.draw_shares(top, place, {str(name): float(share) for name, share in shares.items()}, looks)
    profiles.label_rows(top, runs)
    top.set_title("share of kernel time by category", loc="left")
    top.set_xlabel("share of kernel time [%]")
    top.set_xlim(0, 100)
    for axes, (column, words) in zip(below, measures.items(), strict=True):
        own = counted[column]
        without = len(runs) - len(own)
        beside = f" (not measured in {theme.count_word(without, 'other run')})" if own and without else ""
        axes.set_title(words + beside, loc="left")
        if own:
            profiles.draw_values(axes, own, order, "category", partial(_say, column))
        else:
            _say_not_measured(axes, why)
    theme.add_legend(
        figure,
        {name: Patch(facecolor=colour, hatch=hatch, edgecolor="white") for name, (colour, hatch) in looks.items()},
    )
    return figure


def _counted(runs: list[profiles.ProfiledRun], column: str) -> list[profiles.ProfiledRun]:
    """Return the runs of which a measure was counted, each with the rows that have it."""
    return [replace(run, part=run.part.dropna(subset=[column])) for run in runs if _is_known(run.part, column)]


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


def _say_not_measured(axes: Axes, why: str) -> None:
    profiles.clear(axes)
    axes.text(0.0, 0.5, f"not measured: {profiles.cut_text(why, LONGEST_LINE)}", transform=axes.transAxes, va="center")
    axes.set_xticks([])
    axes.set_yticks([])


def _say(column: str, row: Mapping[Hashable, Any]) -> str:
    """Return a value, with its coverage of the category's time if that is not nearly all."""
    value, counted = float(row[column]), float(row.get("counted_ratio", np.nan))
    if column.endswith("_ratio"):
        words = say_share(value)
    else:
        words = say_rate(value) if column.endswith("_per_s") else f"{value:.2f}"
    return f"{words}\n(of {say_share(counted)})" if counted < NEARLY_ALL else words
