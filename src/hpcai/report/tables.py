"""Tables of the page: selected columns of a results table, headings with definitions, and links to all columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import Column, Shown, tables
from hpcai.core.limits import MOST_ROWS
from hpcai.core.messages import Message
from hpcai.report.captions import Caption, render_caption
from hpcai.report.cells import FILE, POINT, RAW, Cell, Place, Values, make_cell
from hpcai.report.definitions import anchor
from hpcai.report.material import Link, Material
from hpcai.report.rounds import GROUPS
from hpcai.report.values import is_blank

PROSE = 40
"""Length from which a text needs a wide column [characters]."""
BAD: Mapping[str, Callable[[object], bool]] = {
    "outcome": lambda value: value != "converged",
    "status": lambda value: value in {"refused", "failed"},
    "agrees": lambda value: value is False,
    "verdict": lambda value: value == "regression",
}
"""Columns that mark a row as a problem."""
MADE_FROM = {"answer": ("scales", "scores"), "failures": ("runs",)}
"""Tables that only the page has, and the files with all their rows."""
CHOSEN = Message("tables.chosen", "{shown} of {total} rows: {which}")
NOT_MADE = Message("tables.not_made", "The table {table} is not in this folder: its workflow step has not run.")


@dataclass(frozen=True)
class TableSpec:
    """One table of the page.

    Attributes
    ----------
    name, title, columns
        Name of its file, heading, and displayed columns.
    profile
        Kind of profile whose captures explain an empty table.
    first
        Column, and its value whose rows come first.
    order
        Column, and which of its values come first, ``highest`` or ``lowest``, if the table is too long for the page.
    part
        Displayed part of the file, if several tables share it; part of its id.
    group
        Function that groups the file's rows into its own, if one row summarises several.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    profile: str = ""
    first: tuple[str, str] = ("", "")
    order: tuple[str, str] = ("", "")
    part: str = ""
    group: Callable[[pd.DataFrame], pd.DataFrame] | None = None


def spec_of(name: str, shown: Shown | None = None) -> TableSpec:
    """Return the specification of a table on the page.

    Parameters
    ----------
    name
        A table of the catalogue.
    shown
        A part of it; defaults to the first one.
    """
    part = shown or tables()[name].shown[0]
    group = GROUPS[part.group] if part.group else None
    return TableSpec(name, part.title, part.columns, part.profile, part.first, part.order, part.part, group)


@dataclass(frozen=True)
class Heading:
    """A column's heading and the location of its definition."""

    words: str
    anchor: str
    hint: str
    kind: str


@dataclass(frozen=True)
class Row:
    """Cells of one row; ``bad`` rows are marked as problems."""

    cells: tuple[Cell, ...]
    bad: bool = False


@dataclass(frozen=True)
class Table:
    """Template data of one table.

    Attributes
    ----------
    rows, total
        The displayed rows, and the number of all.
    files
        Links to its files.
    chosen, everything
        Which rows of a long table these are, and links to the files with all; empty if the page shows all.
    missing
        Why it has no rows.
    """

    name: str
    title: str
    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    total: int
    files: tuple[Link, ...]
    caption: Caption | None = None
    chosen: str = ""
    everything: tuple[Link, ...] = ()
    missing: str = ""


def make_table(
    material: Material, spec: TableSpec, frame: pd.DataFrame | None = None, *, captioned: bool = True
) -> Table:
    """Return one table.

    Parameters
    ----------
    spec
        What to show; columns missing in the table are ignored.
    frame
        Rows to show instead of the file's.
    captioned
        Whether it has its own caption instead of sharing that of the figure with the same name.
    """
    rows = material.table(spec.name) if frame is None else frame
    if spec.group and len(rows):
        rows = spec.group(rows)
    column, value = spec.first
    if column in rows:
        rows = rows.sort_values(column, key=lambda values: values.ne(value), kind="stable")
    total, (rows, chosen) = len(rows), choose_rows(material, spec, rows)
    shown = [column for column in spec.columns if column.key in (POINT, RAW) or column.key in rows]
    places = _place(material, spec.name, rows, shown)
    return Table(
        name=f"{spec.name}_{spec.part}" if spec.part else spec.name,
        title=spec.title,
        headings=tuple(
            Heading(place.entry.title, anchor(place.key), place.entry.definition, place.kind) for place in places
        ),
        rows=tuple(_row(material, places, row) for row in rows.to_dict("records")),
        total=total,
        files=tuple(material.link_table(spec.name)),
        caption=render_caption(material, spec.name) if captioned and not spec.part else None,
        chosen=chosen,
        everything=_link_everything(material, spec.name) if chosen else (),
        missing="" if len(rows) else say_missing(material, spec),
    )


def choose_rows(material: Material, spec: TableSpec, rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the rows of a table that the page shows, and which they are; all, and no words, of a short table.

    In a long one, rows with problems come first, or those of ``spec.first``; then those at one end of ``spec.order``
    within their benchmark, because values of different benchmarks do not compare, or those that come first in the file.
    """
    if len(rows) <= MOST_ROWS:
        return rows, ""
    lead, said = _lead(spec, rows)
    column, end = spec.order
    values = rows[column] if column in rows else pd.Series(np.nan, index=rows.index)
    if values.notna().any():
        benchmarks = rows["benchmark"] if "benchmark" in rows else pd.Series("", index=rows.index)
        place = values.groupby(benchmarks, dropna=False).rank(method="first", ascending=end == "lowest")
        title = material.definitions.find(spec.name, column)[1].title
        said.append(f"the {end} “{title}”{' of each benchmark' if 'benchmark' in rows else ''}")
    else:
        place = pd.Series(0.0, index=rows.index)
        said.append("the first ones of the file")
    order = np.lexsort((place.fillna(np.inf), ~lead))[:MOST_ROWS]
    return rows.iloc[order], CHOSEN(shown=MOST_ROWS, total=f"{len(rows):,}", which=", then ".join(said))


def _lead(spec: TableSpec, rows: pd.DataFrame) -> tuple["np.ndarray[Any, np.dtype[np.bool_]]", list[str]]:
    """Return which rows come first whatever their values, and what they are; no words if none does."""
    column, value = spec.first
    if column in rows:
        lead, words = rows[column].eq(value).to_numpy(), f"those with {column} {value}"
    else:
        lead, words = _find_bad(rows), "those with problems"
    return lead, [f"first {words} ({lead.sum():,})"] if lead.any() else []


def _find_bad(rows: pd.DataFrame) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    bad = np.zeros(len(rows), dtype=bool)
    for key in (key for key in BAD if key in rows):
        bad |= np.array([_is_bad(key, value) for value in rows[key]])
    return bad


def _is_bad(key: str, value: object) -> bool:
    return not is_blank(value) and BAD[key](value)


def _link_everything(material: Material, name: str) -> tuple[Link, ...]:
    """Return links to the files with all rows of a table."""
    paths = [f"{material.place}tables/{file}.csv" for file in MADE_FROM.get(name, (name,))]
    return tuple(link for path in paths if (link := material.link_file(path, path)))


def say_missing(material: Material, spec: TableSpec) -> str:
    """Return why a table has no rows: it was never made, or nothing was captured, with the reason."""
    if spec.name not in material.tables:
        path = f"{material.place}tables/{spec.name}.parquet"
        return NOT_MADE(table=path)
    captures = material.table("captures")
    if spec.profile and len(captures):
        own = captures[(captures["profile"] == spec.profile) & captures["reason"].fillna("").ne("")]
        reasons = list(dict.fromkeys(own["reason"]))
        if reasons:
            return "Not measured: " + "; ".join(reasons) + "."
    return "The table is empty."


def _place(material: Material, table: str, rows: pd.DataFrame, columns: Sequence[Column]) -> list[Place]:
    """Pair each column with its definition and kind."""
    places = []
    for number, column in enumerate(columns):
        key, entry = material.definitions.find(table, column.key)
        kind = "head" if number == 0 else _kind(rows, column.key, entry.unit)
        places.append(Place(column, key, entry, kind))
    return places


def _kind(rows: pd.DataFrame, name: str, unit: str) -> str:
    """Return whether a column holds numbers, texts or long texts."""
    if name not in rows:
        return "text"
    values = rows[name]
    if unit or (pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)):
        return "number"
    texts = values.astype(str)
    return "prose" if texts.str.len().max() > PROSE and not texts.str.contains(FILE).any() else "text"


def _row(material: Material, places: Sequence[Place], row: Values) -> Row:
    bad = any(key in row and _is_bad(key, row[key]) for key in BAD)
    return Row(tuple(make_cell(material, place, row) for place in places), bad)
