"""Cells of the page's tables: numbers with prefix and exact value, intervals with n, reasons, links to raw files."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from hpcai.catalogue.definitions import Definition
from hpcai.catalogue.points import engine_words
from hpcai.catalogue.tables import Column
from hpcai.core.text import (
    NOT_DEFINED,
    NOT_MEASURED,
    choose_scale,
    say_beside,
    say_exactly,
    say_interval,
    say_name,
    say_number,
)
from hpcai.report.material import Link, Material
from hpcai.report.values import is_blank, is_number, is_truth

POINT, RAW = "point", "raw_files"
"""Columns made by the page: benchmark with variant, scale and ranks; links to a run's record and logs."""
LOGS = ("output.log", "stderr.log", "mllog.txt")
"""Files of a run in its folder ``raw``."""
ROW = "row"
"""Unit of a definition whose rows name their own unit."""
SHORT, LONG = 90, 140
"""Characters shown of a long reason or text, and minimum length of a long text."""
FILE = re.compile(r"results/[^\s,;]+")
NEED_EXPONENT = (
    "vflops_flop_per_s", "vflops_capped_flop_per_s", "vflops_variation_ratio", "vflops_flop_per_j",
    "quality_coefficient_ratio",
)  # fmt: skip
"""Columns undefined for results without an exponent."""
TARGET = "quality_target"
QUALITIES = ("quality", "best_quality", "last_quality", TARGET)
"""Columns that stand beside the target of a quality; the target itself has all its digits."""
NAMES = ("outcome", "status", "measure", "scope", "kind")
"""Columns of names whose underscores are shown as blanks."""
UNITS = ("", "_flop_per_s", "_samples_per_s", "_s")
"""Ends of the columns that the names of measures stand for."""
Values = Mapping[Any, Any]


@dataclass(frozen=True)
class Cell:
    """Content of one cell.

    Attributes
    ----------
    words, unit, note
        Its text with the unit, and a second line.
    hint
        Its tooltip: the exact value, or the whole reason.
    links
        Linked files.
    kind
        Head, number, text, prose, or none for an empty cell.
    whole
        The complete text if the words are only its beginning.
    """

    words: str = ""
    unit: str = ""
    note: str = ""
    hint: str = ""
    links: tuple[Link, ...] = ()
    kind: str = ""
    whole: str = ""


@dataclass(frozen=True)
class Place:
    """A column in the page: its definition and key, and whether it holds heads, numbers or texts."""

    column: Column
    key: str
    entry: Definition
    kind: str


def make_cell(material: Material, place: Place, row: Values) -> Cell:
    """Return the cell of a column for a row."""
    key, kind = place.column.key, place.kind
    if key == POINT:
        return _point(row, kind)
    if key == RAW:
        return Cell(links=run_links(material, str(row.get("record_path", ""))), kind="text")
    value = row[key]
    if is_blank(value):
        return _blank(place, row)
    if is_truth(value):
        return Cell("yes" if value else "no", kind=kind)
    return _number(place, row, float(value)) if is_number(value) else _text(material, place, row, str(value))


def run_links(material: Material, record_path: str) -> tuple[Link, ...]:
    """Return links to a run's record and output files."""
    folder = PurePosixPath(record_path).parent
    found = [material.link_file(record_path, "record")]
    found += [material.link_file(str(folder / "raw" / name), name.partition(".")[0]) for name in LOGS]
    return tuple(link for link in found if link)


def file_links(material: Material, text: str, most: int = 2) -> tuple[tuple[Link, ...], str]:
    """Return links to the files named in a cell, and the remaining text: missing files, or too many."""
    paths = list(dict.fromkeys(FILE.findall(text)))
    links = [material.link_file(path) for path in paths]
    found = tuple(link for link in links if link)
    lost = [path for path, link in zip(paths, links, strict=True) if link is None]
    more = [f"and {len(found) - most} more"] if len(found) > most else []
    return found[:most], ", ".join([*lost, *more])


def _point(row: Values, kind: str) -> Cell:
    """Return benchmark over variant, scale and ranks."""
    ranks = row.get("ranks")
    said = [str(row["variant"]), *engine_words(row)] if not is_blank(row.get("variant")) else engine_words(row)
    said += [str(row["scale"])] if not is_blank(row.get("scale")) else []
    if is_number(ranks):
        said.append(f"{int(ranks)} rank{'' if ranks == 1 else 's'}")  # type: ignore[arg-type]
    # A published result has no benchmark of ours.
    name = row.get("result") if is_blank(row.get("benchmark")) else row["benchmark"]
    return Cell("–" if is_blank(name) else str(name), note=", ".join(said), kind=kind)


def _number(place: Place, row: Values, value: float) -> Cell:
    column = place.column
    # A ceiling is a rate or a bandwidth, as its row specifies.
    unit = _unit_of(row) if place.entry.unit == ROW else place.entry.unit
    scale = choose_scale(value, unit)
    low, high = row.get(column.low), row.get(column.high)
    notes = []
    if is_number(low) and is_number(high) and low != high:
        notes.append(say_interval(float(low), float(high), scale))  # type: ignore[arg-type]
    if column.n and is_number(row.get(column.n)):
        notes.append(f"n = {int(row[column.n])}")
    notes += filter(None, [_note(column, row)])
    exact, target = say_exactly(value, unit), row.get(TARGET)
    if column.key in QUALITIES and is_number(target):
        words = say_beside(value / scale.factor, float(target) / scale.factor)  # type: ignore[arg-type]
    else:
        words = say_number(value / scale.factor)
    return Cell(words, scale.unit, ", ".join(notes), exact, kind=place.kind)


def _text(material: Material, place: Place, row: Values, value: str) -> Cell:
    """Return a text with links to the files that it names."""
    column = place.column
    if FILE.match(value):
        links, words = file_links(material, value)
        return Cell(words, links=links, hint=value, kind=place.kind)
    link = material.link_file(str(row[column.link]), value) if column.link else None
    if link:
        return Cell(links=(link,), note=_note(column, row), kind=place.kind)
    words = _name(material, value, UNITS if column.key == "measure" else ("",)) if column.key in NAMES else value
    return Cell(words, kind=place.kind) if len(words) <= LONG else Cell(_cut(words), kind=place.kind, whole=words)


def _note(column: Column, row: Values) -> str:
    """Return the second line of a cell; blank without one."""
    return "" if is_blank(row.get(column.note)) else str(row[column.note])


def _name(material: Material, value: str, ends: tuple[str, ...]) -> str:
    """Return the display name: the title of the column that it is, with one of the ends; else its words."""
    for end in ends:
        entry = material.definitions.entries.get(f"{value}{end}")
        if entry:
            # Behind a comma stands which mean of the column it is.
            return entry.title.partition(",")[0] if end else entry.title
    return say_name(value)


def _cut(text: str) -> str:
    """Return the beginning of a text, cut at the end of a word."""
    return text if len(text) <= SHORT else text[: SHORT - 1].rsplit(" ", 1)[0] + " …"


def _unit_of(row: Values) -> str:
    """Return the unit that a row specifies for its value."""
    named = row.get("unit", row.get("score_unit"))
    return "" if is_blank(named) else str(named)


def _blank(place: Place, row: Values) -> Cell:
    """Return an empty cell: its definition's text for empty cells, or that it was not measured, and why."""
    column, kind = place.column, f"{place.kind} none"
    if place.kind != "number":
        return Cell("–", kind=kind)
    reason = row.get(column.reason)
    said = "" if is_blank(reason) else str(reason)
    if column.key in NEED_EXPONENT and "exponent" in row and is_blank(row["exponent"]):
        return Cell(NOT_DEFINED, hint=said, kind=kind)
    if place.entry.blank:
        return Cell(place.entry.blank, hint=said, kind=kind)
    return Cell(NOT_MEASURED, note=_cut(said), hint=said, kind=kind)
