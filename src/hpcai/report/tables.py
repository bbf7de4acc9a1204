"""Tables of the page: selected columns of a results table, headings with definitions, and links to all columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from hpcai.catalogue.tables import Column, Shown, tables
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
    return TableSpec(name, part.title, part.columns, part.profile, part.first, part.part, group)


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
    """Template data of one table; ``missing`` explains why it has no rows."""

    name: str
    title: str
    headings: tuple[Heading, ...]
    rows: tuple[Row, ...]
    files: tuple[Link, ...]
    caption: Caption | None = None
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
    shown = [column for column in spec.columns if column.key in (POINT, RAW) or column.key in rows]
    places = _place(material, spec.name, rows, shown)
    return Table(
        name=f"{spec.name}_{spec.part}" if spec.part else spec.name,
        title=spec.title,
        headings=tuple(
            Heading(place.entry.title, anchor(place.key), place.entry.definition, place.kind) for place in places
        ),
        rows=tuple(_row(material, places, row) for row in rows.to_dict("records")),
        files=tuple(material.link_table(spec.name)),
        caption=render_caption(material, spec.name) if captioned and not spec.part else None,
        missing="" if len(rows) else say_missing(material, spec),
    )


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
    bad = any(key in row and not is_blank(row[key]) and test(row[key]) for key, test in BAD.items())
    return Row(tuple(make_cell(material, place, row) for place in places), bad)
