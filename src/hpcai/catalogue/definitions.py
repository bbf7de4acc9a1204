"""Definitions of columns: ``columns.yaml``, or the table's own declaration where its meaning differs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

Kind = Literal["number", "count", "text", "truth"]
"""Type of a column; any cell may be empty."""


@dataclass(frozen=True)
class Definition:
    """One entry.

    Attributes
    ----------
    definition
        Meaning, in one or two sentences.
    title
        Its heading; blank if it is never shown.
    unit
        Unit in which it is stored; empty for names, texts and counts, "row" if the row names it.
    type
        What the column holds: "number", "count", "text" or "truth" (yes or no).
    equation, source, method
        Computation, defining document and section, and whether it is measured, modelled or declared.
    blank
        Text of an empty cell; "not measured" if this is empty.
    covers
        Further columns that the entry defines.
    """

    definition: str
    title: str = ""
    unit: str = ""
    type: Kind | Literal[""] = ""
    equation: str = ""
    source: str = ""
    method: str = ""
    blank: str = ""
    covers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", self.type or ("number" if self.unit else "text"))
        object.__setattr__(self, "covers", tuple(self.covers))
        if self.type not in get_args(Kind):
            raise ValueError(f"type: found {self.type!r}, expected one of {', '.join(get_args(Kind))}")


@dataclass(frozen=True)
class Definitions:
    """Entries by key: a column, or ``table.column`` for a table-specific meaning."""

    entries: Mapping[str, Definition]

    def find(self, table: str, column: str) -> tuple[str, Definition]:
        """Return key and entry of a column.

        Raises
        ------
        LookupError
            If the column is not defined.
        """
        for name in (f"{table}.{column}", column):
            if name in self.entries:
                return name, self.entries[name]
            if name in self._covered:
                return self._covered[name], self.entries[self._covered[name]]
        raise LookupError(
            f"no definition of column {column!r} of table {table!r}; add one to src/hpcai/catalogue/columns.yaml"
        )

    def only(self, columns: Iterable[tuple[str, str]]) -> "Definitions":
        """Return the entries of selected columns, each given as table and column."""
        found = {self.find(*one)[0] for one in columns}
        return Definitions({key: entry for key, entry in self.entries.items() if key in found})

    @cached_property
    def _covered(self) -> dict[str, str]:
        return {name: key for key, entry in self.entries.items() for name in entry.covers}
