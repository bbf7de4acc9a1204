"""Data model of a report document: parts, items with their status, tables, and the verdict of the rules on the runs."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import Field, model_validator

from hpcai.config.base import Settings
from hpcai.records.files import read_part

RULES = "HPC AI500 V2.0"
Value = str | int | float
Status = Literal["present", "missing", "not_applicable"]
Method = Literal["measured", "declared", "collected", ""]


class Item(Settings):
    """One item of a complete report."""

    demand: str = Field(
        min_length=1, description="What the rules require, in the words of the part that it belongs to."
    )
    name: str = Field(min_length=1)
    status: Status
    value: Value | None = Field(default=None, description="In SI units; None unless present.")
    unit: str = ""
    method: Method = Field(
        default="",
        description="measured in runs, declared by the machine file or the settings, collected by the program.",
    )
    source: str = Field(default="", description="File that contains the value, relative to the document's folder.")
    note: str = Field(default="", description="Why it is missing or does not apply; a remark on a value.")
    action: str = Field(default="", description="What to do about it.")

    @model_validator(mode="after")
    def _says_what_its_status_needs(self) -> "Item":
        has_value = self.value is not None and self.value != ""
        _require(has_value == (self.status == "present"), f"{self.name}: a value if and only if it is present")
        if self.status == "present":
            _require(bool(self.method and self.source), f"{self.name}: a value has a method and a source")
        else:
            _require(bool(self.note), f"{self.name}: a reason why there is no value")
        _require(self.status != "missing" or bool(self.action), f"{self.name}: what to do if it is missing")
        return self


class Column(Settings):
    """Heading of a table: its text, and the unit of its numbers."""

    name: str
    unit: str = ""
    kind: Literal["value", "file"] = Field(default="value", description="file: cells are paths in the folder.")
    target: float | None = Field(default=None, description="Of the numbers; None without one.")


class Table(Settings):
    """Rows of values; an empty cell is None."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value | None, ...], ...]
    note: str = ""
    folded: bool = Field(default=False, description="A long list that is shown when it is asked for.")

    @model_validator(mode="after")
    def _rows_fit(self) -> "Table":
        _require(all(len(row) == len(self.columns) for row in self.rows), f"{self.title}: one cell for each column")
        return self


class Part(Settings):
    """One of the four parts required by section 6.3.3."""

    title: str
    rule: str = Field(description="What the rules require.")
    section: str = Field(description="Where they do.")
    items: tuple[Item, ...]
    tables: tuple[Table, ...] = ()


class Level(Settings):
    """The verdict at one level of the rules."""

    level: str
    verdict: str
    findings: tuple[str, ...] = Field(description="Deviations and flags, each with its count of runs and its section.")


class Document(Settings):
    """The report document of one benchmark."""

    schema_version: Literal[1] = 1
    rules: Literal["HPC AI500 V2.0"] = "HPC AI500 V2.0"
    study: str
    benchmark: str
    title: str
    workload: str
    machine: str
    runs: int
    failed_runs: int
    parts: tuple[Part, ...]
    results: tuple[str, ...] = Field(
        description="For each variant and scale: how many runs, and how many are asked for."
    )
    levels: tuple[Level, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        """All items, in their order."""
        return tuple(item for part in self.parts for item in part.items)

    @property
    def missing(self) -> tuple[Item, ...]:
        """The items that the document lacks."""
        return tuple(item for item in self.items if item.status == "missing")

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return not self.missing

    @property
    def headline(self) -> str:
        """Whether the document is complete, how many items it has, and which are missing."""
        applicable = [item for item in self.items if item.status != "not_applicable"]
        there, apart = len(applicable) - len(self.missing), len(self.items) - len(applicable)
        names = "; ".join(dict.fromkeys(item.name for item in self.missing))
        without = f" {apart} more do not apply." if apart else ""
        lacks = f" Missing: {names}." if names else ""
        return f"Complete: {'yes' if self.complete else 'no'}. {there} of {len(applicable)} items.{without}{lacks}"


def read_document(path: Path) -> Document:
    """Read a ``report.json``.

    Raises
    ------
    RecordError
        If the file is missing or is not a report document.
    """
    return read_part(Document, path)


def present(  # noqa: PLR0913  one for each thing that a value needs beside it
    demand: str, name: str, value: Value, *, method: Method, source: str, unit: str = "", note: str = ""
) -> Item:
    """Return an item that is present."""
    return Item(
        demand=demand, name=name, status="present", value=value, unit=unit, method=method, source=source, note=note
    )


def missing(demand: str, name: str, reason: str, action: str) -> Item:
    """Return an item that the document lacks, with the reason and the remedy."""
    return Item(demand=demand, name=name, status="missing", note=reason, action=action)


def not_applicable(demand: str, name: str, reason: str, action: str = "") -> Item:
    """Return an item that does not apply to this system or document."""
    return Item(demand=demand, name=name, status="not_applicable", note=reason, action=action)


def cell(value: object) -> Value | None:
    """Return a value of a frame as a cell: NaN and blanks become empty."""
    number = getattr(value, "item", None)
    plain = number() if callable(number) else value
    if plain is None or plain is pd.NA or plain == "" or (isinstance(plain, float) and not math.isfinite(plain)):
        return None
    return plain if isinstance(plain, str | int | float) else str(plain)


def agreed(values: Iterable[object]) -> Value | None:
    """Return the shared value; if values differ, each with its count; None if there is none."""
    known = [plain for plain in map(cell, values) if plain is not None]
    different = list(dict.fromkeys(known))
    if len(different) < 2:
        return different[0] if different else None
    return "; ".join(f"{value} ({known.count(value)} of {len(known)} runs)" for value in different)


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise ValueError(sentence)
