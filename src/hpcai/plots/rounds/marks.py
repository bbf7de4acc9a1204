"""Marks of MLPerf HPC results in figures: colour by origin, shape by machine, fill by division."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from hpcai.core.limits import MOST_MARKS
from hpcai.core.messages import Message
from hpcai.plots import theme

Row = Mapping[Any, Any]
SHAPES = {"accelerator": "o", "processor": "s"}
PANEL_KEYS = ["benchmark", "edition", "quality_target"]
"""Columns by which results are split into panels."""
MOST_TAGS = 20
"""Maximum number of numbered results per panel; more numbers would overlap."""
MOST_COLOURS = 10
"""Distinguishable colours; further origins share the last one."""
LONGEST = 46
"""Maximum length of a result's name in a figure [characters]; the table has the full name."""
TAG_OFFSETS = ((5, 4), (-5, 4), (5, -10), (-5, -10), (0, 7), (0, -13), (11, -3), (-11, -3), (14, 8), (-14, 8))
"""Candidate positions of a number around its point [typographic points]; the first free one is used."""
TAG_SIZE = (9.0, 7.5)
"""Size of a number [typographic points]."""
NO_ROUND = "no published round was given (study key rounds), and no own run of MLPerf HPC was recorded"
NONE_KEPT = "no strong-scaling result has counted runs with logged times: see the table mlperf_results"
TOO_MANY = Message("marks.too_many", "{results} results: too many for numbers,\nthe table mlperf_results names them")


def why_none(results: pd.DataFrame) -> str:
    """Return why a figure of strong-scaling results is empty: there are none, or none of their runs count."""
    return NO_ROUND if results.empty else NONE_KEPT


def strong_results(results: pd.DataFrame) -> pd.DataFrame:
    """Return strong-scaling results, each once, numbered from 1 in each panel."""
    kept = first_published(results[results["scaling"].eq("strong")])
    ordered = kept.sort_values([*PANEL_KEYS, "origin", "units", "submission"], kind="stable")
    return ordered.assign(tag=ordered.groupby(PANEL_KEYS, dropna=False).cumcount() + 1).reset_index(drop=True)


def thin_results(results: pd.DataFrame) -> pd.DataFrame:
    """Return at most ``MOST_MARKS`` results of each panel, evenly from its first to its last, and how many it lacks.

    Parameters
    ----------
    results
        As from :func:`strong_results`.

    Returns
    -------
    DataFrame
        The results, with the column ``left_out``: the number of results that their panel does not show.
    """
    panels = results.groupby(PANEL_KEYS, dropna=False)["tag"]
    count, place = panels.transform("size"), panels.cumcount()
    # Drawn are the results at whole multiples of a step, the last of which is the last result.
    step = np.maximum(count - 1, 1) / (MOST_MARKS - 1)
    drawn = (count <= MOST_MARKS) | (place == np.round(np.round(place / step) * step))
    return results[drawn].assign(left_out=(count - MOST_MARKS).clip(lower=0))


def first_published(results: pd.DataFrame) -> pd.DataFrame:
    """Return results without those that a later round republished: these are one result, not two."""
    return results[results["same_runs_as"].fillna("").eq("")]


def colour_origins(frame: pd.DataFrame) -> dict[str, theme.Colour]:
    """Return the colour of each origin."""
    names = sorted(frame["origin"].unique())
    palette = theme.colours(names[:MOST_COLOURS])
    return {name: palette[names[min(place, MOST_COLOURS - 1)]] for place, name in enumerate(names)}


def name_result(row: Row) -> str:
    """Return a result's name for a figure, with the middle of a long name omitted."""
    return shorten(str(row["label"]))


def shorten(label: str) -> str:
    """Shorten a long name for a figure by omitting its middle."""
    half = (LONGEST - 1) // 2
    return theme.plain_text(label if len(label) <= LONGEST else f"{label[:half]}…{label[-half:]}")


def point_style(row: Row, palette: Mapping[str, theme.Colour]) -> dict[str, Any]:
    """Return the style of a result's point."""
    colour = palette[row["origin"]]
    return {
        "color": colour,
        "marker": SHAPES.get(row["unit"], "D"),
        "markerfacecolor": "white" if row["division"] == "open" else colour,
        "markersize": 5,
        "linestyle": "",
    }


def key_entries(results: pd.DataFrame, palette: Mapping[str, theme.Colour]) -> dict[str, Artist]:
    """Return the legend: origins, and the shapes and fills that occur."""
    entries: dict[str, Artist] = {
        theme.plain_text(name): theme.key_line(colour, "o", "") for name, colour in palette.items()
    }
    plain = theme.IDEAL_COLOUR
    words = {"accelerator": "units: accelerators", "processor": "units: processors"}
    for unit in sorted(set(results["unit"]) & set(words)):
        entries[words[unit]] = theme.key_line(plain, SHAPES[unit], "")
    if results["division"].eq("open").any():
        hollow = theme.key_line(plain, "o", "")
        hollow.set_markerfacecolor("white")
        entries |= {"filled: closed division": theme.key_line(plain, "o", ""), "hollow: open division": hollow}
    return entries


def log_limits(values: Iterable[float], margin: float = 0.08) -> tuple[float, float]:
    """Return logarithmic axis limits around all positive finite values, at least a factor of two apart."""
    logs = np.log10([value for value in values if np.isfinite(value) and value > 0])
    if not len(logs):
        return 0.1, 10.0
    low, high = float(logs.min()), float(logs.max())
    wider = max(0.15 - (high - low) / 2, 0) + margin * max(high - low, 0.3)
    return float(10 ** (low - wider)), float(10 ** (high + wider))


def draw_tags(
    axes: Axes, points: Sequence[tuple[float, float]], tags: Sequence[object], size: tuple[float, float]
) -> None:
    """Write a number next to each point, clear of points and other numbers.

    Parameters
    ----------
    axes
        Axes with two logarithmic scales and final limits.
    points, tags
        Data coordinates, and the texts to write.
    size
        Approximate width and height of the panel [inch].
    """
    lows = np.log10([axes.get_xlim()[0], axes.get_ylim()[0]])
    highs = np.log10([axes.get_xlim()[1], axes.get_ylim()[1]])
    spots = (np.log10(np.asarray(points, dtype=float).reshape(-1, 2)) - lows) / (highs - lows) * np.asarray(size) * 72
    taken = [(x, y, 5.0, 5.0) for x, y in spots]
    for point, spot, tag in zip(points, spots, tags, strict=True):
        own = (spot[0], spot[1], 5.0, 5.0)
        others = [box for box in taken if box != own]
        boxes = [(spot[0] + dx, spot[1] + dy + 3, *TAG_SIZE) for dx, dy in TAG_OFFSETS]
        free = (place for place, box in enumerate(boxes) if not any(_overlap(box, other) for other in others))
        chosen = next(free, None)
        if chosen is None:
            continue
        taken.append(boxes[chosen])
        axes.annotate(
            str(tag), point, TAG_OFFSETS[chosen], textcoords="offset points", ha="center", fontsize=6.5, color="#333333"
        )


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(abs(one[axis] - other[axis]) < (one[axis + 2] + other[axis + 2]) / 2 for axis in (0, 1))


def write_key(axes: Axes, part: pd.DataFrame) -> None:
    """List the result of each number, with its ``remark`` if any, or state that there are too many."""
    axes.set_axis_off()
    rows = part.to_dict("records")
    if len(rows) > MOST_TAGS:
        words: str = TOO_MANY(results=len(rows))
    else:
        words = "\n".join(f"{row['tag']:>2} {name_result(row)}{row.get('remark', '')}" for row in rows)
    axes.text(0.0, 1.0, words, transform=axes.transAxes, va="top", fontsize=7, linespacing=1.35)


def parts_of(results: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Split results by benchmark, edition and target, which have no common number of epochs.

    The title includes the target if an edition was trained to several, and how many results are not drawn
    (:func:`thin_results`).
    """
    targets = results.groupby(["benchmark", "edition"], dropna=False)["quality_target"].transform("nunique")
    parts = []
    for (benchmark, edition, target), part in results.groupby(PANEL_KEYS, sort=True, dropna=False):
        several = targets[part.index[0]] > 1
        left = part["left_out"].iloc[0]
        words = f"{benchmark}, {edition}{f', target {target:g}' if several else ''}"
        words += f", {left:,} more in the tables" if left else ""
        parts.append((theme.plain_text(words), part))
    return parts


def spread_lines(
    limits: tuple[tuple[float, float], tuple[float, float]], slope: int
) -> list[list[tuple[float, float]]]:
    """Return lines of one slope for a log-log panel, at most a factor of ten apart, closer in a small panel."""
    (left, right), (bottom, top) = limits
    ends = [np.log10(y) - slope * np.log10(x) for x, y in itertools.product((left, right), (bottom, top))]
    low, high = min(ends), max(ends)
    step = 1.0 if high - low > 3 else float(np.log10(2)) if high - low > 0.8 else float(np.log10(1.25))
    starts = np.arange(np.ceil(low / step) * step, high, step)
    return [
        [(left, 10 ** (start + slope * np.log10(left))), (right, 10 ** (start + slope * np.log10(right)))]
        for start in starts
    ]


def label_axis(axis: Axis, limits: tuple[float, float]) -> None:
    """Label a logarithmic axis with plain numbers: decades, and intermediate values if a short axis has room."""
    decades = float(np.log10(limits[1] / limits[0]))
    steps = (1.0,) if decades > 2.5 else (1.0, 2.0, 5.0) if decades > 0.7 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    axis.set_major_locator(LogLocator(base=10, subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}" if value < 1000 else f"{value:,.0f}"))
    axis.set_minor_formatter(NullFormatter())
