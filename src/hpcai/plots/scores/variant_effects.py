"""Effect of each variant: its throughput, time to train and VFLOPS relative to a simpler variant."""

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, Locator, LogLocator, MaxNLocator

from hpcai.catalogue.figures import figure
from hpcai.metrics.scores.variant_effects import NO_VARIANTS
from hpcai.plots import theme
from hpcai.plots.thinning import most_of

COLUMNS = {
    "train_rate": "throughput [ratio]\nright is better",
    "time_to_train": "time to train [ratio]\nleft is better",
    "vflops": "VFLOPS [ratio]\nright is better",
}
"""The drawn measures; FLOP/s change like the throughput and are only in the table."""
EVALUATION = {"evaluation_rate": "evaluation [ratio]\nright is better"}
"""Also drawn if variants differ in their evaluation."""
SIGNIFICANT = ("better", "worse")
"""Conclusions whose marks are filled."""
LINE = 0.17
"""Height of one effect [inch]: three pairs of variants at six scales stay apart."""
SINGLE = 2.8
"""Size of a mark without an interval; other marks have 4.5."""
SPREAD = 0.7
"""Share of a scale's slot that its effects occupy."""
LONG = 55
"""Legend text length above which two entries do not fit side by side [characters]."""
BEYOND = 1.5
"""Intervals are drawn up to this multiple of the effects' range; the table has their full length."""


@figure(
    "variant_effects",
    stage="scores",
    category="Scaling",
    title="Effect of variants",
    tables=("variant_effects",),
    section="scaling",
    before="variant_effects",
)
def plot_variant_effects(effects: pd.DataFrame) -> Figure:
    """Draw the effect of every variant on throughput, time to train and VFLOPS at each scale, with its interval.

    Parameters
    ----------
    effects
        Table ``variant_effects`` (:func:`hpcai.metrics.scores.variant_effects.compare_variants`).
    """
    with theme.house_style():
        if effects.empty:
            return theme.sentence_figure("Effect of variants", NO_VARIANTS)
        named, left_out = most_of(effects.assign(pair=_pairs(effects)), "pair", "p_corrected")
        pairs = list(dict.fromkeys(named.sort_values(["reference_variant", "variant"], kind="stable")["pair"]))
        palette = theme.colours(pairs)
        parts = [(str(name), part) for name, part in named.groupby("benchmark", sort=True)]
        tallest = max(part["scale"].nunique() * part["pair"].nunique() for _, part in parts)
        columns = {**COLUMNS, **(EVALUATION if effects["measure"].isin(EVALUATION).any() else {})}
        figure, grid = theme.new_figure(len(parts), len(columns), height=max(1.9, 1.1 + LINE * tallest))
        figure.set_figwidth(3.5 * len(columns))
        for line, (name, part) in zip(grid, parts, strict=True):
            line[0].set_title(name, loc="left")
            for axes, measure in zip(line, columns, strict=True):
                _draw_effects(axes, part, measure, palette)
                if axes is not line[0]:
                    axes.set_yticklabels([])
        entries = {
            pair: theme.key_line(palette[pair], theme.MARKERS[place % len(theme.MARKERS)], "")
            for place, pair in enumerate(pairs)
        }
        hollow = theme.key_line(theme.IDEAL_COLOUR, "o", "")
        hollow.set_markerfacecolor("white")
        entries["hollow: not significant, or too few runs"] = hollow
        single = theme.key_line(theme.IDEAL_COLOUR, "o", "")
        single.set_markerfacecolor("white")
        single.set_markersize(SINGLE)
        entries["small: no interval (one run on a side, or no spread)"] = single
        entries["interval goes on"] = theme.key_line(theme.IDEAL_COLOUR, ">", "")
        entries["no effect"] = theme.key_line(theme.IDEAL_COLOUR, style="--")
        if left_out:
            entries[f"{left_out:,} more pairs in the table, none more certain"] = theme.key_line("none")
        legend_columns = 2 if max(map(len, entries)) < LONG else 1
        # The legend must not take its place from the panels.
        figure.set_figheight(figure.get_figheight() + LINE * math.ceil(len(entries) / legend_columns))
        figure.legend(list(entries.values()), list(entries), loc="outside upper left", ncols=legend_columns)
        return figure


def _pairs(effects: pd.DataFrame) -> list[str]:
    return [
        f"{row['variant']} over {row['reference_variant']}" + (" (joint)" if row["joint"] else "")
        for row in effects.to_dict("records")
    ]


def _draw_effects(axes: Axes, part: pd.DataFrame, measure: str, palette: dict[str, theme.Colour]) -> None:
    own = part[part["measure"] == measure]
    known = own.dropna(subset=["effect_ratio"])
    axes.set_xlabel({**COLUMNS, **EVALUATION}[measure])
    if known.empty:
        theme.say_why_empty(axes, _why(own))
        return
    order = theme.scale_order(part)
    ranks = dict(zip(part["scale"], part["ranks"], strict=True))
    pairs = [pair for pair in palette if (part["pair"] == pair).any()]
    axes.axvline(1.0, linestyle="--", color=theme.IDEAL_COLOUR, linewidth=1.0)
    _ratio_axis(axes, known)
    for place, pair in enumerate(pairs):
        shift = SPREAD * ((place + 0.5) / len(pairs) - 0.5)
        marker = theme.MARKERS[list(palette).index(pair) % len(theme.MARKERS)]
        heights = {scale: order.index(scale) + shift for scale in order}
        significant, single = known["reading"].isin(SIGNIFICANT), known["effect_low_ratio"].isna()
        for shown, fill in ((significant, palette[pair]), (~significant, "white")):
            for part_of_it, size in ((~single, 4.5), (single, SINGLE)):
                chosen = known[shown & part_of_it & (known["pair"] == pair)]
                if len(chosen):
                    _draw_pair(axes, chosen, heights, (palette[pair], marker, fill, size))
    axes.set_yticks(range(len(order)), [f"{scale}, {theme.count_word(int(ranks[scale]), 'rank')}" for scale in order])
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")


def _draw_pair(
    axes: Axes, known: pd.DataFrame, heights: dict[str, float], look: tuple[theme.Colour, str, theme.Colour, float]
) -> None:
    values, low, high = (
        known[name].to_numpy(dtype=float) for name in ("effect_ratio", "effect_low_ratio", "effect_high_ratio")
    )
    # A missing interval has zero length, so the marker hides its bar.
    lengths = np.vstack([np.nan_to_num(values - low), np.nan_to_num(high - values)])
    colour, marker, fill, size = look
    places = [heights[scale] for scale in known["scale"]]
    axes.errorbar(
        values,
        places,
        xerr=lengths,
        fmt=marker,
        color=colour,
        markerfacecolor=fill,
        markersize=size,
        capsize=2,
        linewidth=1.2,
    )
    first, last = axes.get_xlim()
    # Just inside the frame: the interval continues.
    for beyond, edge, arrow in ((low < first, 0.012, "<"), (high > last, 0.988, ">")):
        for place in np.asarray(places)[beyond]:
            axes.plot([edge], [place], arrow, color=colour, markersize=4, transform=axes.get_yaxis_transform())


def _ratio_axis(axes: Axes, known: pd.DataFrame) -> None:
    """Make the axis logarithmic, so that twice and half are equally far from 1, and include all effects."""
    values = [*known["effect_ratio"], 1.0]
    reach = BEYOND * max(abs(np.log(values)).max(), np.log(1.05))
    bounds = [*known["effect_low_ratio"].dropna(), *known["effect_high_ratio"].dropna(), *values]
    low, high = max(np.log(min(bounds)), -reach), min(np.log(max(bounds)), reach)
    margin = 0.06 * (high - low)
    axes.set_xscale("log")
    axes.set_xlim(np.exp(low - margin), np.exp(high + margin))
    axes.xaxis.set_major_locator(_locator(high - low))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axes.minorticks_off()


def _locator(span: float) -> Locator:
    """Return the tick positions: even over short logarithmic spans, at 1, 2 and 5 of each decade over long ones."""
    if span < np.log(4):
        return MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
    return LogLocator(base=10, subs=(1.0, 2.0, 5.0) if span < np.log(100) else (1.0,))


def _why(own: pd.DataFrame) -> str:
    """Return briefly why a measure has no effects."""
    notes = [str(note) for note in own["note"] if note]
    if any(note.startswith("no VFLOPS") for note in notes):
        return "no VFLOPS defined here"
    return "no values on both sides"
