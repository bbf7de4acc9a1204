"""Charts of the list: records over the years, scaling of everything, predictions beside later results."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hpcai.core.messages import Message
from hpcai.listing.entries import NOT_VALID
from hpcai.listing.units import ACCELERATOR, name_device, say_units
from hpcai.plots.interactive import CONFIG, MUTED, spec_to_svg
from hpcai.report.embedding import read_size

WIDTH, HEIGHT = 620, 260
"""Size of a panel [pixel]."""
AXIS = {"labelOverlap": "greedy", "labelSeparation": 8}
EDGE = 10
"""Room between the outermost mark and the edge of a panel [pixel]."""
LEGEND_LIMIT = 24
SIGN_WIDTH, SYMBOL_WIDTH = 6.6, 34
"""Mean width of a sign of a legend, and width of its symbol with the gaps [pixel]."""
MOST_POINTS = 1500
"""Points per panel; a picture with more is neither read nor loaded with pleasure."""
LONGEST, LONGEST_TITLE = 60, 200
"""Length of a name in a legend, and above the numbers of a mark [characters]; tables have the whole names."""
IN_TIPS = ("round", "verdict")
"""What a mark of the scaling chart tells under its own name, besides its model."""
ALT = Message("charts.alt", "{title}: {points} points; the table below has the numbers.")

STYLE = {
    **CONFIG,
    "legend": {
        **CONFIG["legend"],
        "layout": {"bottom": {"direction": "vertical", "anchor": "start"}},
        "symbolBaseFillColor": MUTED,
        "symbolBaseStrokeColor": MUTED,
    },
}
"""Legends stand below each other, and the symbols of shapes are readable on dark paper as well."""
Rows = Sequence[Mapping[str, Any]]
Spec = dict[str, Any]
"""Vega-Lite, or a part of it. It is written as it is: every build would pay for importing Altair."""


@dataclass(frozen=True)
class Drawing:
    """An SVG, which ends with the digest of what it was drawn from, and its natural size [pixel]."""

    svg: str
    width: int
    height: int
    alt: str


@dataclass(frozen=True)
class Sketch:
    """A chart: its specification, and the text in its place. Its picture may have been drawn before."""

    spec: Spec
    alt: str

    def draw(self, earlier: Path) -> Drawing:
        """Return the picture: an earlier file if it was drawn from the same specification by the same renderer."""
        text = json.dumps(self.spec, sort_keys=True) + version("vl-convert-python")
        seal = f"<!-- {hashlib.sha256(text.encode()).hexdigest()} -->"
        svg = earlier.read_text("utf-8") if earlier.is_file() else ""
        if not svg.endswith(seal):
            svg = spec_to_svg(self.spec) + seal
        width, height = read_size(svg)
        return Drawing(svg, width, height, self.alt)


def draw_records(rows: Rows, title: str, unit: str) -> Sketch:
    """Draw how the best value of each kind of rules moved over the years.

    Parameters
    ----------
    rows
        One per record, with ``year``, ``value`` [unit], ``rules``: each better than the one before; and for the reader
        ``title``, ``said``, ``round``, ``href`` of the result.
    title, unit
        Of the vertical axis.
    """
    years = [int(row["year"]) for row in rows]
    every = list(range(min(years), max(years) + 1))
    encoding = {
        "x": {**_of("year", "year", "ordinal"), "axis": {"labelAngle": 0}, "scale": {"domain": every}},
        "y": _logarithmic("value", f"{title} [{unit}]"),
        "color": _colour(rows, "rules"),
        "opacity": _fading(),
    }
    tips = [("said", title), ("round", "round"), ("year", "year"), ("rules", "rules")]
    point = {"mark": _mark("point", size=70), "params": [_choice("rules")], "encoding": _answering(tips)}
    line = {"mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2}}
    return _finish({"layer": [line, point], "encoding": encoding}, rows, title)


def draw_scaling(rows: Rows, title: str, unit: str, counted: str = ACCELERATOR) -> Sketch:
    """Draw the throughput per accelerator of every result against the number of accelerators, one colour per model.

    Parameters
    ----------
    rows
        One per result, with ``scale`` [counted], ``value`` [unit per counted], ``accelerator``, ``rules``,
        ``verdict``; and for the reader ``title``, ``said``, ``round``, ``href``. Those that are not valid are hollow.
    title, unit
        Of the vertical axis.
    counted
        What stands for accelerators on machines without any, such as node.
    """
    units, device = say_units(counted), name_device(counted)
    encoding = {
        "x": _logarithmic("scale", units, base=2),
        "y": _logarithmic("value", f"{title} [{unit}]"),
        "color": {**_colour(rows, "accelerator"), "title": device},
        "shape": {**_of("rules", "rules", "nominal"), "legend": _legend(rows, "rules")},
        "opacity": _fading(),
        **_answering([("said", title), ("scale", units), ("accelerator", device), *((one, one) for one in IN_TIPS)]),
    }
    broken = {"field": "verdict", "equal": NOT_VALID}
    filled = {"mark": _mark("point", size=45), "transform": [{"filter": {"not": broken}}]}
    hollow = {"mark": {**_mark("point", size=45), "filled": False}, "transform": [{"filter": broken}]}
    # Only layers with marks: an empty one has no extent, of which Vega warns.
    drawn = {row["verdict"] == NOT_VALID for row in rows}
    layers = [layer for layer, is_broken in ((filled, False), (hollow, True)) if is_broken in drawn]
    layers[0] = {**layers[0], "params": [_choice("accelerator")]}
    return _finish({"layer": layers, "encoding": encoding}, rows, title)


def draw_predictions(rows: Rows, unit: str) -> Sketch:
    """Draw what was measured against what was predicted, with the line on which both are equal.

    Parameters
    ----------
    rows
        One per prediction with a result: ``predicted``, ``measured`` [unit], ``benchmark``; and for the reader
        ``title``, ``foretold``, ``said``, ``href``.
    unit
        Of both axes.
    """
    values = [float(row[key]) for row in rows for key in ("predicted", "measured")]
    ends = [{"predicted": edge, "measured": edge} for edge in (min(values), max(values))]
    axes = {
        "x": _logarithmic("predicted", f"predicted [{unit}]"),
        "y": _logarithmic("measured", f"measured [{unit}]"),
    }
    line = {"data": {"values": ends}, "mark": {"type": "line", "color": MUTED, "strokeDash": [4, 4]}, "encoding": axes}
    seen = _answering([("foretold", "predicted"), ("said", "measured"), ("benchmark", "benchmark")])
    points = {
        "mark": _mark("point", size=60),
        "params": [_choice("benchmark")],
        "encoding": {**axes, "color": _colour(rows, "benchmark"), "opacity": _fading(), **seen},
    }
    return _finish({"layer": [line, points]}, rows, "Predicted and measured")


def thin_out(rows: Rows) -> Rows:
    """Return all rows or, of too many, the best of each kind of accelerator, rules, scale and verdict.

    Parameters
    ----------
    rows
        As of :func:`draw_scaling`.
    """
    if len(rows) <= MOST_POINTS:
        return rows
    best: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        key = (row["accelerator"], row["rules"], row["scale"], row["verdict"])
        if key not in best or row["value"] > best[key]["value"]:
            best[key] = row
    return sorted(best.values(), key=lambda row: (row["verdict"] == NOT_VALID, -float(row["value"])))[:MOST_POINTS]


def _of(column: str, title: str, kind: str) -> Spec:
    return {"field": column, "title": title, "type": kind}


def _logarithmic(column: str, title: str, base: int = 10) -> Spec:
    return {**_of(column, title, "quantitative"), "scale": {"type": "log", "base": base, "padding": EDGE}, "axis": AXIS}


def _mark(kind: str, size: int) -> Spec:
    return {"type": kind, "filled": True, "size": size, "cursor": "pointer"}


def _colour(rows: Rows, column: str) -> Spec:
    return {**_of(column, column, "nominal"), "legend": _legend(rows, column)}


def _legend(rows: Rows, column: str) -> Spec:
    """Return a legend below the chart, with as many columns as its longest name leaves room for."""
    longest = max((len(str(_shorten(row[column]))) for row in rows), default=1)
    width = longest * SIGN_WIDTH + SYMBOL_WIDTH
    return {"orient": "bottom", "columns": max(1, int(WIDTH / width)), "symbolLimit": LEGEND_LIMIT, "labelLimit": WIDTH}


def _choice(column: str) -> Spec:
    """Return that a click on the legend chooses what is shown."""
    return {"name": "chosen", "select": {"type": "point", "fields": [column]}, "bind": "legend"}


def _fading() -> Spec:
    return {"condition": {"param": "chosen", "value": 0.85}, "value": 0.1}


def _answering(tips: Sequence[tuple[str, str]]) -> Spec:
    """Return what a mark tells under the mouse, headed by the name of the result, and that a click opens its page."""
    named = [("title", "title"), *tips]
    return {"tooltip": [_of(*tip, "nominal") for tip in named], "href": {"field": "href", "type": "nominal"}}


def _shortened(rows: Rows) -> list[Spec]:
    """Return rows with texts that fit a legend; unprintable characters have no glyph."""
    return [
        {
            key: value if key == "href" else _shorten(value, LONGEST_TITLE if key == "title" else LONGEST)
            for key, value in row.items()
        }
        for row in rows
    ]


def _shorten(value: object, most: int = LONGEST) -> object:
    if not isinstance(value, str):
        return value
    text = "".join(sign for sign in value if sign.isprintable())
    return text if len(text) <= most else text[: most - 1] + "…"


def _finish(chart: Spec, rows: Rows, title: str) -> Sketch:
    words = ALT(title=title, points=len(rows))
    frame = {"config": STYLE, "description": words, "width": WIDTH, "height": HEIGHT}
    return Sketch({**frame, "data": {"values": _shortened(rows)}, **chart}, words)
