"""Charts of the list: records over the years, scaling of everything, predictions beside later results."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import altair as alt

from hpcai.core.messages import Message
from hpcai.plots.interactive import MUTED, spec_to_svg, to_spec
from hpcai.report.figures import read_size

WIDTH, HEIGHT = 620, 260
"""Size of a panel [pixel]."""
LEGEND_COLUMNS, LEGEND_LIMIT = 3, 24
MOST_POINTS = 1500
"""Points per panel; a picture with more is neither read nor loaded with pleasure."""
LONGEST = 60
"""Length of a name in a legend [characters]; the table below a chart has the whole name."""
ALT = Message("charts.alt", "{title}: {points} points; the table below has the numbers.")

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Drawing:
    """An SVG, which ends with the digest of what it was drawn from, and its natural size [pixel]."""

    svg: str
    width: int
    height: int
    alt: str


@dataclass(frozen=True)
class Sketch:
    """A chart that is not drawn yet: its specification, and the text in its place."""

    spec: Mapping[str, Any]
    alt: str

    def draw(self, earlier: Path) -> Drawing:
        """Return the picture: an earlier file if it was drawn from the same specification by the same renderer."""
        text = json.dumps(self.spec, sort_keys=True) + version("vl-convert-python")
        seal = f"<!-- {hashlib.sha256(text.encode()).hexdigest()} -->"
        svg = earlier.read_text("utf-8") if earlier.is_file() else ""
        if not svg.endswith(seal):
            svg = spec_to_svg(dict(self.spec)) + seal
        width, height = read_size(svg)
        return Drawing(svg, width, height, self.alt)


def draw_records(rows: Rows, title: str, unit: str) -> Sketch:
    """Draw how the best value of each kind of rules moved over the years.

    Parameters
    ----------
    rows
        One per record, with ``year``, ``value`` [unit], ``rules``: each better than the one before.
    title, unit
        Of the vertical axis.
    """
    years = [int(row["year"]) for row in rows]
    domain = list(range(min(years), max(years) + 1))
    base = alt.Chart(alt.InlineData(values=_shortened(rows))).encode(
        x=alt.X("year:O", title="year", axis=alt.Axis(labelAngle=0), scale=alt.Scale(domain=domain)),
        y=alt.Y("value:Q", title=f"{title} [{unit}]", scale=alt.Scale(type="log", nice=True)),
        color=_colour("rules", "rules"),
    )
    line = base.mark_line(interpolate="step-after", strokeWidth=2)
    return _finish(line + base.mark_point(filled=True, size=70), title, len(rows))


def draw_scaling(rows: Rows, title: str, unit: str) -> Sketch:
    """Draw the throughput per accelerator of every result against the number of accelerators, one colour per kind.

    Parameters
    ----------
    rows
        One per result, with ``scale`` [accelerators], ``value`` [unit per accelerator], ``accelerator``.
    title, unit
        Of the vertical axis.
    """
    shown = thin_out(rows)
    points = (
        alt.Chart(alt.InlineData(values=_shortened(shown)))
        .mark_point(filled=True, size=45, opacity=0.75)
        .encode(
            x=alt.X("scale:Q", title="accelerators", scale=alt.Scale(type="log", base=2)),
            y=alt.Y("value:Q", title=f"{title} [{unit}]", scale=alt.Scale(type="log", nice=True)),
            color=_colour("accelerator", "accelerator"),
            shape=alt.Shape("rules:N", legend=_legend("rules")),
        )
    )
    return _finish(points, title, len(shown))


def draw_predictions(rows: Rows, unit: str) -> Sketch:
    """Draw what was measured later against what was predicted, with the line on which both are equal.

    Parameters
    ----------
    rows
        One per prediction with a later result: ``predicted``, ``measured`` [unit], ``benchmark``.
    unit
        Of both axes.
    """
    values = [float(row[key]) for row in rows for key in ("predicted", "measured")]
    ends = [{"predicted": edge, "measured": edge} for edge in (min(values), max(values))]
    logarithmic = alt.Scale(type="log", nice=True)
    line = (
        alt.Chart(alt.InlineData(values=ends))
        .mark_line(color=MUTED, strokeDash=[4, 4])
        .encode(x="predicted:Q", y="measured:Q")
    )
    points = (
        alt.Chart(alt.InlineData(values=_shortened(rows)))
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X("predicted:Q", title=f"predicted [{unit}]", scale=logarithmic),
            y=alt.Y("measured:Q", title=f"measured later [{unit}]", scale=logarithmic),
            color=_colour("benchmark", "benchmark"),
        )
    )
    return _finish(line + points, "Predicted and measured", len(rows))


def thin_out(rows: Rows) -> Rows:
    """Return all rows or, of too many, the best of each kind of accelerator, rules and scale.

    Parameters
    ----------
    rows
        As of :func:`draw_scaling`.
    """
    if len(rows) <= MOST_POINTS:
        return rows
    best: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        key = (row["accelerator"], row["rules"], row["scale"])
        if key not in best or row["value"] > best[key]["value"]:
            best[key] = row
    return sorted(best.values(), key=lambda row: float(row["value"]), reverse=True)[:MOST_POINTS]


def _colour(column: str, title: str) -> alt.Color:
    return alt.Color(f"{column}:N", legend=_legend(title))


def _legend(title: str) -> alt.Legend:
    return alt.Legend(title=title, orient="bottom", columns=LEGEND_COLUMNS, symbolLimit=LEGEND_LIMIT, labelLimit=190)


def _shortened(rows: Rows) -> list[dict[str, Any]]:
    """Return rows with texts that fit a legend; unprintable characters have no glyph."""
    return [{key: _shorten(value) for key, value in row.items()} for row in rows]


def _shorten(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = "".join(sign for sign in value if sign.isprintable())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _finish(chart: alt.LayerChart | alt.Chart, title: str, points: int) -> Sketch:
    return Sketch(to_spec(chart.properties(width=WIDTH, height=HEIGHT)), ALT(title=title, points=points))
