"""What every column and metric of the report means: ``reports/definitions.yaml``."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from hpcai.config.base import Settings
from hpcai.config.reading import Problems, read_yaml, validate
from hpcai.core.messages import Message

FILE = "definitions.yaml"
NO_DEFINITION = Message(
    "definitions.no_definition",
    "reports/{file}: no definition of column {column!r} of table {table!r}; add one",
)


class Definition(Settings):
    """One entry.

    Attributes
    ----------
    title
        What headings call it.
    unit
        In which unit it is stored; empty for names, texts and counts.
    definition
        What it is, in one or two sentences.
    equation, source, method
        How it is computed, who defines it (document, section), and whether it is measured, modelled or declared.
    blank
        What an empty cell says; that it was not measured where this is empty.
    covers
        Columns that the entry defines besides its own name. A pattern may end with ``*``; it never begins with one,
        because the end of a name says only its unit.
    """

    title: str
    definition: str
    unit: str = ""
    equation: str = ""
    source: str = ""
    method: str = ""
    blank: str = ""
    covers: tuple[str, ...] = ()


class DefinitionFile(Settings):
    """All entries by their key: a column, ``table.column`` where one table means something of its own, or a metric."""

    definitions: dict[str, Definition]


@dataclass(frozen=True)
class Definitions:
    """All entries, and how a column finds its own."""

    entries: Mapping[str, Definition]

    def find(self, table: str, column: str) -> tuple[str, Definition]:
        """Return key and entry of a column.

        Raises
        ------
        LookupError
            If nobody defined the column.
        """
        for name in (f"{table}.{column}", column):
            if name in self.entries:
                return name, self.entries[name]
            if name in self._covered:
                return self._covered[name], self.entries[self._covered[name]]
        for pattern, key in self._patterns.items():
            if fnmatchcase(column, pattern):
                return key, self.entries[key]
        raise LookupError(NO_DEFINITION(file=FILE, column=column, table=table))

    @cached_property
    def _covered(self) -> dict[str, str]:
        return {name: key for key, entry in self.entries.items() for name in entry.covers if "*" not in name}

    @cached_property
    def _patterns(self) -> dict[str, str]:
        return {name: key for key, entry in self.entries.items() for name in entry.covers if "*" in name}


def read_definitions(sources: Path) -> Definitions:
    """Read the definitions in the project's ``reports/`` folder.

    Raises
    ------
    ConfigError
        If the file is missing or has an entry that is not complete.
    """
    problems = Problems()
    path = sources / FILE
    data = read_yaml(path, problems)
    checked = validate(DefinitionFile, {"definitions": data}, path.name, problems) if data is not None else None
    for key, entry in (checked.definitions if checked else {}).items():
        for pattern in entry.covers:
            if "*" in pattern.removesuffix("*"):
                problems.add(path.name, f"{key}.covers", pattern, "a column's name, or its beginning and then *")
    problems.raise_if_any()
    assert checked is not None
    return Definitions(checked.definitions)


def anchor(key: str) -> str:
    """Return the id of an entry on the page."""
    return "def-" + key.replace(".", "-").replace("_", "-")
