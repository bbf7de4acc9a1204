"""Shared parts of profile figures: rows and labels, reasons for missing data, axes with units."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from hpcai.core.text import say_bytes, say_rate, say_time
from hpcai.plots import theme

MOST_REASONS = 3
"""Maximum number of reasons in an empty figure; the table of captures has all."""
LONGEST_REASON = 220
"""Length at which a reason is truncated [characters]: a figure is not a log file."""
MOST_TICKS = 4
NARROW = 0.05
"""A share below this is too narrow for its number."""
WIDE = 9.2
"""Width of two panels and a legend side by side without row labels [inch]."""
FEWEST_ROWS = 3
"""Minimum number of rows in a figure with a legend next to it."""
CHARACTER = 0.082
"""Width of a label character [inch]."""
BOX = {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
"""Background of a number on a coloured or hatched bar."""


@dataclass(frozen=True)
class ProfiledRun:
    """One row of a figure: a profiled run with its part of the table."""

    name: str
    """Benchmark and variant."""
    scale: str
    """Ranks and scale."""
    run_id: str
    part: pd.DataFrame

    @property
    def label(self) -> str:
        """Row label, one item per line."""
        return f"{self.name}\n{self.scale}"


def split_runs(frame: pd.DataFrame) -> list[ProfiledRun]:
    """Split a view into its profiled runs: by benchmark and variant, smallest scale first."""
    keys = ["benchmark", "variant", "ranks", "nodes", "scale", "run_id"]
    runs = []
    for values, part in frame.groupby(keys, sort=True):
        benchmark, variant, ranks, _, scale, run_id = (str(value) for value in values)
        words = f"{theme.count_word(int(float(ranks)), 'rank')} ({scale})"
        runs.append(ProfiledRun(_shorten(f"{benchmark}, {variant}"), words, run_id, part))
    return runs


def _shorten(name: str) -> str:
    """Break a long name after the benchmark."""
    return name if len(name) <= theme.TITLE else name.replace(", ", ",\n")


def say_why_not(captures: pd.DataFrame, profile: str, otherwise: str) -> str:
    """Return why there is nothing to draw: the reasons of this kind's captures.

    Parameters
    ----------
    captures
        The table of captures: ``profile`` and ``reason``.
    profile
        Kind of profile: timeline, kernels, counters, io or power.
    otherwise
        Text to use if no capture gives a reason.
    """
    if captures.empty or not {"profile", "reason"} <= set(captures.columns):
        return otherwise
    return _join_reasons(captures.loc[captures["profile"] == profile, "reason"]) or otherwise


def say_reasons(frame: pd.DataFrame, otherwise: str) -> str:
    """Return the reasons given in the rows of a view."""
    return _join_reasons(frame["reasons"]) or otherwise if "reasons" in frame else otherwise


def _join_reasons(reasons: pd.Series) -> str:
    said = reasons.dropna().astype(str).str.split().str.join(" ")
    texts = [text for text in dict.fromkeys(said) if text]
    shown = [cut_text(text) for text in texts[:MOST_REASONS]]
    more = len(texts) - len(shown)
    return "; ".join([*shown, *([f"and {theme.count_word(more, 'more reason')}"] if more else [])])


def cut_text(text: str, longest: int = LONGEST_REASON) -> str:
    """Shorten a text for a figure, and remove characters that matplotlib would read as a formula."""
    return theme.plain_text(text if len(text) <= longest else text[: longest - 1].rstrip() + "…")


def label_rows(axes: Axes, runs: list[ProfiledRun], *, named: bool = True) -> None:
    """Label one row per run, the first on top."""
    axes.set_yticks(range(len(runs)), [run.label for run in runs] if named else [])
    # With only one or two rows in a figure as high as its legend, bars would become blocks.
    spare = max(0.0, FEWEST_ROWS - len(runs)) / 2
    axes.set_ylim(len(runs) - 0.5 + spare, -0.5 - spare)
    axes.grid(visible=False, axis="y")


def draw_values(
    axes: Axes, runs: list[ProfiledRun], order: list[str], key: str, say: Callable[[Mapping[Hashable, Any]], str]
) -> None:
    """Write values as a table: a row for each run, a column for each part of it; a dash where a run has no such part.

    Parameters
    ----------
    axes
        Emptied of all else.
    runs
        Rows of their parts without a value are left out already.
    order
        The parts, from left to right.
    key
        Column that names the part.
    say
        Text of a row's value.
    """
    clear(axes)
    for place, run in enumerate(runs):
        own = {row[key]: row for row in run.part.drop_duplicates(key).to_dict("records")}
        if not own:
            axes.text(-0.4, place, "not measured", va="center", color="#666666", fontsize=8)
        for number, name in enumerate(order):
            if own:
                axes.text(number, place, say(own[name]) if name in own else "–", ha="center", va="center", fontsize=8)
    # Long words would touch their neighbours.
    heads = [name.replace(" ", "\n").replace("-", "-\n").replace("_", "_\n") for name in order]
    axes.set_xticks(range(len(order)), heads, fontsize=8)
    axes.xaxis.tick_top()
    axes.set_xlim(-0.5, len(order) - 0.5)
    label_rows(axes, runs)
    axes.set_ylim(len(runs) - 0.5, -0.5)


def clear(axes: Axes) -> None:
    """Leave of the axes only what a table has."""
    for side in ("left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=0)
    axes.grid(visible=False)


def draw_shares(
    axes: Axes, place: int, shares: Mapping[str, float], looks: Mapping[str, tuple[theme.Colour, str]]
) -> None:
    """Stack shares of a whole as one bar, in the order of their looks; wide ones carry their percentage."""
    left = 0.0
    for name, (colour, hatch) in looks.items():
        width = 100 * float(shares.get(name, 0.0))
        axes.barh(place, width, left=left, height=0.66, color=colour, hatch=hatch, edgecolor="white")
        if width >= 100 * NARROW:
            axes.text(left + width / 2, place, f"{width:.0f}", ha="center", va="center", fontsize=8, bbox=BOX)
        left += width


def label_width(runs: list[ProfiledRun]) -> float:
    """Return the width that the row labels need [inch]."""
    return CHARACTER * max(len(line) for run in runs for line in run.label.split("\n"))


def row_height(runs: list[ProfiledRun]) -> float:
    """Return the height that a row needs for its label [inch]."""
    return 0.2 + 0.16 * max(run.label.count("\n") + 1 for run in runs)


def byte_axis(axes: Axes, low: float, high: float) -> None:
    """Make the horizontal axis logarithmic in bytes, with powers of two as ticks."""
    first, last = int(np.floor(np.log2(low))), int(np.ceil(np.log2(high)))
    last = max(last, first + 2)
    step = max(1, int(np.ceil((last - first) / MOST_TICKS)))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator([2.0**power for power in range(first, last + 1, step)]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: say_bytes(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(2.0 ** (first - 0.3), 2.0 ** (last + 0.3))
    axes.set_xlabel("message size")


def log_axis(axes: Axes, which: str, low: float, high: float, say: Callable[[float], str]) -> None:
    """Make one axis logarithmic from ``low`` to ``high``, with ticks as text; at least two ticks are within it."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    first, last = np.log10(low) - 0.15, np.log10(high) + 0.15
    if last - first < 1.2:
        middle = (first + last) / 2
        first, last = middle - 0.6, middle + 0.6
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    (axes.set_xlim if which == "x" else axes.set_ylim)(10**first, 10**last)
    subs = (1.0, 3.0) if last - first < 2.2 else (1.0,)
    axis.set_major_locator(LogLocator(base=10, subs=subs, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: say(value)))
    axis.set_minor_formatter(NullFormatter())


def rate_axis(axes: Axes, which: str, low: float, high: float) -> None:
    """Make one axis logarithmic in bytes per second."""
    log_axis(axes, which, low, high, say_rate)


def time_axis(axes: Axes, which: str, low: float, high: float) -> None:
    """Make one axis logarithmic in seconds."""
    log_axis(axes, which, low, high, say_time)
