"""The house theme: fonts, colours, panels, empty figures, and output formats."""

import io
import itertools
import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from hpcai.core.limits import MOST_PANELS
from hpcai.core.messages import Message
from hpcai.core.text import say_name

Colour = str | tuple[float, float, float]
LineStyle = Literal["-", "--", ":", ""]
SENTENCE = 42
"""Length of text that fits on one line of a panel [characters]."""
LINE, LINE_HEIGHT = 88, 0.18
"""Length of text that fits on one line of a figure of one panel [characters], and its height [inch]."""

HOUSE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.labelsize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.4,
    "figure.facecolor": "white",
    "figure.constrained_layout.h_pad": 0.09,
    "figure.constrained_layout.w_pad": 0.09,
    "savefig.facecolor": "white",
    # Keep text as text, so that figures are searchable; a fixed salt makes equal figures byte-identical.
    "svg.fonttype": "none",
    "svg.hashsalt": "hpcai",
}
MARKERS = "osD^vP*X<>"
DARKER = 0.5
"""Share of a colour's light that its darker variant keeps."""
OUTCOME_MARKERS = {"converged": "o", "not_converged": "s", "diverged": "X", "failed": "x", "timed_out": "+"}
OUTCOME_WORDS = {
    "converged": "converged",
    "not_converged": "not converged",
    "diverged": "diverged",
    "failed": "failed",
    "timed_out": "timed out",
}
TARGET_COLOUR = "#222222"
IDEAL_COLOUR = "#777777"
WIDTH = 7.2
"""Width of one panel with its legend [inch]: the text width of a printed page."""
TITLE = 34
"""Longest title that fits above one panel [characters]."""
SLOT = 0.85
"""Width of one scale's tick label [inch]."""
NOTHING_MEASURED = Message("theme.nothing_measured", "Nothing was measured: {why}")


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save in the house theme, regardless of the user's matplotlib settings."""
    with mpl.rc_context():
        mpl.rcdefaults()
        for name, value in HOUSE.items():
            mpl.rcParams[name] = value  # type: ignore[index]
        yield


def colours(names: list[str]) -> dict[str, Colour]:
    """Return one colour per name, distinguishable by colour-blind readers; equal lists give equal colours.

    From the eleventh name on, the same colours come darker: up to 20 names differ.
    """
    plain = sns.color_palette("colorblind")
    darker = [tuple(DARKER * part for part in colour) for colour in plain]
    return dict(zip(names, itertools.cycle([*plain, *darker]), strict=False))


def new_figure(rows: int, columns: int, height: float = 3.1, slots: int = 0) -> tuple[Figure, list[list[Axes]]]:
    """Return a figure with a grid of axes.

    ``height``: height of one row [inch]. ``slots``: largest number of tick labels side by side, which may widen the
    axes.
    """
    width = max(WIDTH if columns == 1 else 4.9 * columns, (SLOT * slots + 0.8) * columns + 2.0)
    figure = Figure(figsize=(width, height * rows + 0.3), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(line) for line in grid]


def panels(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split a table into titled panels, one per benchmark and variant; `batch_64` comes before `batch_128`.

    The last of `MOST_PANELS` says how many there are beside them.
    """
    parts = [
        (str(benchmark), str(variant), part) for (benchmark, variant), part in frame.groupby(["benchmark", "variant"])
    ]
    parts.sort(key=lambda one: (_by_number(one[0]), _by_number(one[1])))
    titled = [(f"{benchmark}, {variant}", part) for benchmark, variant, part in parts]
    if left := len(titled[MOST_PANELS:]):
        last, part = titled[MOST_PANELS - 1]
        titled = [*titled[: MOST_PANELS - 1], (f"{last}, {left:,} more in the tables", part)]
    return titled


def _by_number(name: str) -> list[tuple[str, int]]:
    """Return a key that sorts the numbers in names by value."""
    return [(words, int(number or -1)) for words, number in re.findall(r"(\D*)(\d*)", name)]


def set_title(axes: Axes, *words: str) -> None:
    """Write a panel's title on as few lines as hold it, broken behind commas."""
    lines = [""]
    for part in ", ".join(words).split(", "):
        longer = f"{lines[-1]}, {part}" if lines[-1] else part
        if len(longer) <= TITLE or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(part)
    axes.set_title(",\n".join(lines), loc="left")


def panel_grid(count: int, height: float = 3.1, slots: int = 0) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``count`` axes, at most two per row."""
    columns = min(count, 2)
    figure, grid = new_figure(math.ceil(count / columns), columns, height, slots)
    flat = [axes for line in grid for axes in line]
    for axes in flat[count:]:
        axes.set_axis_off()
    return figure, flat[:count]


def scale_order(frame: pd.DataFrame) -> list[str]:
    """Return the names of all scales, smallest first."""
    ordered = frame.sort_values(["ranks", "nodes"], kind="stable")
    return list(dict.fromkeys(ordered["scale"].astype(str)))


def scale_words(frame: pd.DataFrame) -> dict[str, str]:
    """Return each scale's legend text."""
    pairs = dict(zip(frame["scale"].astype(str), frame["ranks"].astype(int), strict=True))
    return {scale: f"{count_word(ranks, 'rank')} ({scale})" for scale, ranks in pairs.items()}


def empty_figure(title: str, sentence: str) -> Figure:
    """Return a figure that states why nothing was measured."""
    return sentence_figure(title, NOTHING_MEASURED(why=sentence))


def sentence_figure(title: str, sentence: str) -> Figure:
    """Return a figure of a title and a sentence, as high as they need, in place of one without data."""
    lines = textwrap.wrap(sentence, LINE)
    figure, grid = new_figure(1, 1, height=LINE_HEIGHT * (len(lines) + 1))
    axes = grid[0][0]
    axes.set(xticks=[], yticks=[])
    axes.set_axis_off()
    axes.set_title(title, loc="left")
    axes.text(0.0, 1.0, "\n".join(lines), transform=axes.transAxes, va="top")
    return figure


def say_empty(axes: Axes, sentence: str) -> None:
    """Write into a panel why it has no data, and remove its meaningless scales."""
    axes.text(0.5, 0.5, f"nothing was measured:\n{sentence}", transform=axes.transAxes, ha="center", va="center")
    axes.set_xticks([])
    axes.set_yticks([])


def say_why_empty(axes: Axes, sentence: str) -> None:
    """Write into a panel why it is empty; unlike :func:`say_empty` it does not add "nothing was measured"."""
    words = "\n".join(textwrap.wrap(sentence, SENTENCE))
    axes.text(0.5, 0.5, words, transform=axes.transAxes, va="center", ha="center", linespacing=1.0)
    axes.set_xticks([])
    axes.set_yticks([])


def add_legend(figure: Figure, entries: Mapping[str, Artist], title: str = "") -> None:
    """Put one legend next to all panels, where it covers no data."""
    if entries:
        figure.legend(
            list(entries.values()), list(entries), loc="outside right upper", title=title or None, alignment="left"
        )


def key_line(colour: Colour, marker: str = "", style: LineStyle = "-") -> Line2D:
    """Return a legend key."""
    return Line2D([], [], color=colour, marker=marker or None, linestyle=style, markersize=5)


def plain_text(name: str) -> str:
    """Make a foreign name safe to show: no formula between two $, no control characters."""
    shown = "".join(sign if sign.isprintable() else " " if sign.isspace() else "\ufffd" for sign in name)
    # Legends omit entries that begin with an underscore.
    return f"{' ' * shown.startswith('_')}{shown}".replace("$", r"\$")


def from_zero(axes: Axes) -> None:
    """Start the vertical axis at zero and leave room above the highest mark."""
    axes.set_ylim(0, axes.get_ylim()[1] * 1.05)


def most_scales(parts: list[tuple[str, pd.DataFrame]]) -> int:
    """Return the largest number of scales in one panel."""
    return max(part["scale"].nunique() for _, part in parts)


def count_word(count: int, word: str) -> str:
    """Return "1 run" or "4 runs"."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def quality_label(runs: pd.DataFrame) -> str:
    """Return the quality metric of runs with its unit; a run that failed early has none."""
    known = runs[runs["quality_metric"] != ""]
    metric, unit = known[["quality_metric", "quality_unit"]].iloc[0] if len(known) else ("quality", "")
    return f"{say_name(metric)} [{unit or 'no unit'}]"


def epoch_axis(axes: Axes) -> None:
    """Label whole epochs; the first one is 1."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.set_xlim(left=max(axes.get_xlim()[0], 0.5))


def rank_axis(axes: Axes, ranks: list[int]) -> None:
    """Label exactly the measured numbers of ranks; logarithmic if they span more than a factor of four."""
    if max(ranks) > 4 * min(ranks):
        axes.set_xscale("log", base=2)
    else:
        axes.set_xlim(min(ranks) - 0.5, max(ranks) + 0.5)
    axes.set_xticks(ranks, [str(count) for count in ranks])
    axes.minorticks_off()
    axes.set_xlabel("ranks")


def to_svg(figure: Figure) -> bytes:
    """Render a figure as SVG with real text; equal figures give equal bytes."""
    buffer = io.BytesIO()
    with house_style():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
