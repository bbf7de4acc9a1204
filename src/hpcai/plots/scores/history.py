"""Headline scores over many results, in chronological order."""

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from hpcai.catalogue.figures import figure
from hpcai.core.messages import Message
from hpcai.plots import theme
from hpcai.plots.scores.comparison import why_undefined

NO_SCORES = Message("history.no_scores", "No result has a headline score.")
NO_HISTORY = Message("history.none", "No history was requested: compare_with names no earlier result.")
SHOWN = {
    "time_to_train_s": ("time to train", "s"),
    "vflops_flop_per_s": ("VFLOPS", "FLOP/s"),
    "train_rate_samples_per_s": ("throughput", "samples/s"),
}
"""The drawn scores and their units."""
MARKS = {"regression": "#b00020", "improvement": "#222222"}
POWERS = {18: "10¹⁸ ", 15: "10¹⁵ ", 12: "10¹² ", 9: "10⁹ ", 6: "10⁶ ", 0: ""}
"""Powers of ten that shorten axis numbers."""
MOST_TICKS = 4
"""Number of dates that fit below one panel."""
LOGARITHMIC = 4.0
"""Ratio of largest to smallest value above which an axis from zero would hide changes of the smallest."""


@figure(
    "history",
    stage="scores",
    category="Scores",
    title="Scores over studies",
    tables=("history",),
    section="comparison",
    before="history",
)
def plot_history(history: pd.DataFrame) -> Figure:
    """Draw each headline score over the results: one panel per benchmark and score, one line per variant and scale.

    Parameters
    ----------
    history
        The table of :func:`hpcai.compare.history.history_of`.
    """
    with theme.house_style():
        drawn = history[history["measure"].isin(SHOWN) & history["value"].notna()]
        if drawn.empty:
            return theme.sentence_figure("History", NO_HISTORY() if history.empty else NO_SCORES())
        measures = [name for name in SHOWN if name in set(drawn["measure"])]
        benchmarks = sorted(set(drawn["benchmark"]))
        figure, grid = theme.new_figure(len(benchmarks), len(measures), height=2.7)
        results = drawn.drop_duplicates("number").sort_values("number")
        palette = theme.colours(sorted(set(drawn["variant"])))
        scales = theme.scale_order(drawn.assign(nodes=0))
        markers = {scale: theme.MARKERS[number % len(theme.MARKERS)] for number, scale in enumerate(scales)}
        for line, benchmark in zip(grid, benchmarks, strict=True):
            for axes, measure in zip(line, measures, strict=True):
                words, unit = SHOWN[measure]
                axes.set_title(f"{benchmark}\n{words}", loc="left")
                part = drawn[(drawn["benchmark"] == benchmark) & (drawn["measure"] == measure)]
                if part.empty:
                    own = drawn[drawn["benchmark"] == benchmark]
                    theme.say_why_empty(axes, why_undefined(own, measure) or "no result has this score")
                    continue
                power = next((power for power in POWERS if part["value"].max() >= 10**power), 0)
                axes.set_ylabel(f"{words} [{POWERS[power]}{unit}]")
                _draw_panel(axes, part, 10.0**power, (palette, markers))
                _label_results(axes, results)
        _add_key(figure, palette, markers)
        return figure


def _draw_panel(
    axes: Axes, part: pd.DataFrame, unit: float, looks: tuple[dict[str, theme.Colour], dict[str, str]]
) -> None:
    palette, markers = looks
    series = list(part.groupby(["variant", "scale", "series"], sort=True))
    for number, ((variant, scale, _), rows) in enumerate(series):
        # Offset the series, so that no interval hides another.
        shift = 0.3 * ((number + 0.5) / len(series) - 0.5)
        _draw_series(axes, rows, unit, (palette[str(variant)], markers[str(scale)], shift))
    values = part["value"] / unit
    highest = max(values.max(), min((part["high"].fillna(0) / unit).max(), 1.5 * values.max()))
    if values.min() > 0 and values.max() > LOGARITHMIC * values.min():
        axes.set_yscale("log")
        axes.set_ylim(values.min() / 1.6, highest * 1.3)
        _label_logarithms(axes)
    else:
        axes.set_ylim(0, highest * 1.08)


def _draw_series(axes: Axes, rows: pd.DataFrame, unit: float, look: tuple[theme.Colour, str, float]) -> None:
    colour, marker, shift = look
    places = rows["number"].to_numpy(dtype=float) + shift
    values = rows["value"].to_numpy(dtype=float) / unit
    below = np.nan_to_num(values - rows["low"].to_numpy(dtype=float) / unit)
    above = np.nan_to_num(rows["high"].to_numpy(dtype=float) / unit - values)
    axes.errorbar(
        places, values, yerr=np.vstack([below, above]), fmt=f"{marker}-", color=colour, markersize=4, capsize=2,
        linewidth=1.0, gid="series",
    )  # fmt: skip
    for verdict, ring in MARKS.items():
        chosen = (rows["verdict"] == verdict).to_numpy()
        axes.plot(places[chosen], values[chosen], "o", color=ring, markerfacecolor="none", markersize=10, gid=verdict)
    for place in places[(rows["remark"] != "").to_numpy()]:
        axes.axvline(place - 0.5, color=colour, linestyle=":", linewidth=1.2, gid="shift")


def _label_logarithms(axes: Axes) -> None:
    """Label 1, 2 and 5 of each decade: below one decade matplotlib labels at most one value."""
    low, high = axes.get_ylim()
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1,) if high / low > 1e3 else (1, 2, 5)
    ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _label_results(axes: Axes, results: pd.DataFrame) -> None:
    """Label every result with number and date, or only as many as fit."""
    numbers = results["number"].astype(int).tolist()
    dates = results["started_utc"].astype(str).str[:10].tolist()
    step = math.ceil(len(numbers) / MOST_TICKS)
    axes.set_xticks(numbers[::step], [f"{n}\n{date}" for n, date in zip(numbers, dates, strict=True)][::step])
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlim(numbers[0] - 0.6, numbers[-1] + 0.6)
    axes.set_xlabel("result (number, first run)")


def _add_key(figure: Figure, palette: dict[str, theme.Colour], markers: dict[str, str]) -> None:
    entries: dict[str, Artist] = {variant: theme.key_line(colour) for variant, colour in palette.items()}
    entries |= {scale: theme.key_line("#222222", marker, "") for scale, marker in markers.items()}
    for verdict, colour in MARKS.items():
        entries[f"{verdict} against\nthe one before"] = _ring(colour)
    entries["level shift\n(significant)"] = theme.key_line("#222222", style=":")
    theme.add_legend(figure, entries)


def _ring(colour: str) -> Line2D:
    line: Any = theme.key_line(colour, "o", "")
    line.set_markerfacecolor("none")
    line.set_markersize(9)
    return line  # type: ignore[no-any-return]
