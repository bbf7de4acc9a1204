"""All tables: their columns in order, the meaning of each, and which of them the report shows.

A table is declared once, under its name in a YAML file of this folder; ``columns.yaml`` in the parent folder defines
each column once for all tables that have it. The files are read on first use.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hpcai.catalogue.definitions import Definition, Definitions, Kind
from hpcai.core.yaml_loader import SafeLoader

FOLDER = Path(__file__).parent
ALL = ".*"
"""Suffix of an entry in ``columns`` that includes all columns of another table."""
ENDS = ("highest", "lowest")
"""Which values of a column come first."""


@dataclass(frozen=True)
class Column:
    """One column that the report shows.

    Attributes
    ----------
    key
        Column of the table; its definition gives heading and unit.
    low, high, n
        Columns with the bounds of its interval and the number of runs behind it.
    reason
        Column that explains an empty cell.
    note
        Column with text shown below the value.
    link
        Column with the file or folder that the value leads to.
    """

    key: str
    low: str = ""
    high: str = ""
    n: str = ""
    reason: str = ""
    note: str = ""
    link: str = ""


@dataclass(frozen=True)
class Shown:
    """How the report shows a table, or a part of it.

    Attributes
    ----------
    columns
        Columns that the page shows, in this order; the files have all columns.
    section, title
        Section of the report and heading; without a section, the page has a dedicated place for it.
    profile
        Kind of profile whose captures explain that it is empty.
    first
        Column, and the value of it whose rows come first.
    order
        Column, and ``highest`` or ``lowest``: the rows that come first if the table is too long for the page.
    part
        Displayed part of the file, if several tables share it; part of its id.
    group
        Function of :mod:`hpcai.report.rounds` that groups the file's rows into its own, if one row summarises several.
    """

    columns: tuple[Column, ...]
    section: str = ""
    title: str = ""
    profile: str = ""
    first: tuple[str, str] = ("", "")
    order: tuple[str, str] = ("", "")
    part: str = ""
    group: str = ""

    def __post_init__(self) -> None:
        """Refuse an end of the order that does not exist."""
        if self.order[1] not in ("", *ENDS):
            raise ValueError(f"order: found {self.order[1]!r}, expected one of {', '.join(ENDS)}")


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes
    ----------
    rows
        Meaning of a row.
    columns
        All columns in their order.
    shown
        Where and how the report shows it.
    own
        Columns with a different meaning in this table: their definition, or the key of one (``column``,
        ``table.column``).
    file
        Whether it is written to a file; otherwise it only appears on the page.
    """

    rows: str
    columns: tuple[str, ...]
    shown: tuple[Shown, ...] = ()
    own: Mapping[str, Definition | str] | None = None
    file: bool = True


@cache
def tables() -> Mapping[str, Table]:
    """Return all tables by name, in the order of the files and within them.

    Raises
    ------
    ValueError
        If a declaration is invalid; names file, table and defect.
    """
    found: dict[str, Table] = {}
    for file in sorted(FOLDER.glob("*.yaml")):
        for name, facts in _read(file).items():
            if name in found:
                raise ValueError(f"{file}: table {name} is declared in another file as well; keep one of them")
            found[name] = _declared(_table, facts, f"{file}: {name}")
    return {name: replace(one, columns=tuple(_expanded(name, found))) for name, one in found.items()}


def columns_of(table: str, *kinds: Kind) -> tuple[str, ...]:
    """Return the columns of a table in their order.

    Parameters
    ----------
    table
        Its name.
    kinds
        Only columns of these types; defaults to all.

    Raises
    ------
    LookupError
        If the catalogue has no such table.
    """
    known = tables()
    if table not in known:
        raise LookupError(f"no table {table!r} in {FOLDER}; declare it there. Known: {', '.join(known)}")
    return tuple(name for name in known[table].columns if not kinds or kind_of(table, name) in kinds)


@cache
def definitions() -> Definitions:
    """Return the meaning of every column of every table.

    Raises
    ------
    ValueError
        If a definition is invalid; names file, column and defect.
    """
    file = FOLDER.parent / "columns.yaml"
    entries = {name: _declared(Definition, facts, f"{file}: {name}") for name, facts in _read(file).items()}
    references: list[tuple[str, str]] = []
    for table, one in tables().items():
        for column, meaning in (one.own or {}).items():
            if isinstance(meaning, Definition):
                entries[f"{table}.{column}"] = meaning
            else:
                references.append((f"{table}.{column}", meaning))
    for column, key in references:
        if key not in entries:
            raise ValueError(f"{column}: found {key!r}, expected a key of {file.name} or table.column")
        entries[key] = replace(entries[key], covers=(*entries[key].covers, column))
    return Definitions(entries)


def kind_of(table: str, column: str) -> Kind:
    """Return the type of a column."""
    kind = definitions().find(table, column)[1].type
    assert kind  # __post_init__ has filled it
    return kind


def common_columns(table: str, other: str, *but: str) -> tuple[str, ...]:
    """Return the columns that a table shares with another, in the order of the first, except some."""
    others = set(columns_of(other)) - set(but)
    return tuple(name for name in columns_of(table) if name in others)


def shown_in(section: str) -> list[tuple[str, Shown]]:
    """Return the contents of a section of the report with the tables' names, in order."""
    return [(name, shown) for name, one in tables().items() for shown in one.shown if shown.section == section]


def all_shown() -> list[tuple[str, str]]:
    """Return every table and column that the report shows."""
    pairs = ((name, column.key) for name, one in tables().items() for shown in one.shown for column in shown.columns)
    return list(dict.fromkeys(pairs))


class _UniqueKeys(SafeLoader):  # type: ignore[misc]
    """PyYAML silently lets the last of two equal keys win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Refuse a duplicate key."""
        keys = [key.value for key, _ in node.value]
        if len(keys) > len(set(keys)):
            twice = Counter(keys).most_common(1)[0]
            raise ValueError(f"line {node.start_mark.line + 1}: found {twice[0]!r} twice, expected each key once")
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def _read(file: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        read: Mapping[str, Mapping[str, Any]] = yaml.load(file.read_text(encoding="utf-8"), _UniqueKeys)  # noqa: S506
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{file}: {error}") from error
    return read


def _declared(make: Any, facts: Mapping[str, Any], place: str) -> Any:  # noqa: ANN401  a class of this catalogue
    try:
        return make(**facts)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from error


def _table(rows: str, columns: list[str], file: bool = True, **more: Any) -> Table:  # noqa: ANN401  YAML
    """Build a table from its declaration."""
    shown, own = more.pop("shown", ()), more.pop("own", {})
    if more:
        raise ValueError(f"found the key {next(iter(more))!r}, expected rows, columns, own, shown or file")
    meanings = {name: one if isinstance(one, str) else _declared(Definition, one, name) for name, one in own.items()}
    return Table(rows, tuple(columns), tuple(_shown(**one) for one in shown), meanings, file)


def _shown(
    columns: list[Any], first: Mapping[str, str] | None = None, order: Mapping[str, str] | None = None, **facts: str
) -> Shown:
    """Build one displayed part: a column is a name, or a name with companions."""
    listed = [(one, {}) if isinstance(one, str) else next(iter(one.items())) for one in columns]
    ahead, by = (next(iter((pair or {"": ""}).items())) for pair in (first, order))
    return Shown(tuple(Column(key, **beside) for key, beside in listed), first=ahead, order=by, **facts)


def _expanded(name: str, found: Mapping[str, Table]) -> Iterator[str]:
    for column in found[name].columns:
        if column.endswith(ALL):
            yield from _expanded(column.removesuffix(ALL), found)
        else:
            yield column
