"""Split Nsight Compute's CSV output into text cells: details page, raw page and summary per kernel."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from hpcai.parsers.identify import looks_like
from hpcai.parsers.reading import nothing_read
from hpcai.parsers.text import split_csv

TOOL = "a table of Nsight Compute (ncu --csv)"
IDENTITY = {
    "Process ID": "process",
    "ID": "launch",
    "Kernel Name": "name",
    "Device": "device",
    "CC": "compute_capability",
    "Block Size": "block_size",
    "Grid Size": "grid_size",
    "Context": "context",
    "Stream": "stream",
    "Host Name": "host",
    "Process Name": "program",
    "Kernel Time": "started",
}
"""Columns that identify a row's launch; older versions lack some."""
VALUES = {"Metric Name": "metric", "Metric Unit": "unit"}
FURTHER = {
    "Section Name": "section",
    "Invocations": "launches",
    "Metric Value": "mean",
    "Minimum": "minimum",
    "Maximum": "maximum",
    "Average": "mean",
}
CELLS = ("line", *IDENTITY.values(), *VALUES.values(), *dict.fromkeys(FURTHER.values()))
"""Cell columns common to all pages; a page's absent columns are missing."""
RULES = {"Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"}
_HEADER = re.compile(r'"(?:ID|Process ID)","')
_ROW = re.compile(r'(?:"(?:[^"]|"")*+",)*+(?:"(?:[^"]|"")*+")?')
_RANGE = re.compile(r"Range:PL_Type")
_RAW_METRIC = re.compile(r"(?:breakdown:)?[A-Za-z]\w*?__[\w.]+")
_FEWEST_QUOTES = 3
ADVICE = "profile again with `LC_ALL=C ncu --csv --print-units base`, and keep what ncu itself prints about its failure"


@dataclass
class Page:
    """Contents of one file, as text.

    Attributes
    ----------
    kind
        ``details``, ``raw`` or ``summary``.
    cells
        One row per launch (summary: per kernel) and metric, with the columns of `IDENTITY`, ``metric``, ``unit``,
        ``minimum``, ``maximum``, ``mean``, ``launches`` and ``line``.
    damaged
        Lines that begin like a row but are not rows.
    notes
        Further messages of the tool or the header.
    """

    kind: str
    cells: pd.DataFrame
    damaged: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_page(path: Path, lines: list[str]) -> Page:
    """Return the table of one file, ignoring anything before, between and after its rows.

    Raises
    ------
    ParseError
        If there is no header (no kernel was profiled), a required column is missing, or no row follows.
    """
    begin = next((number for number, line in enumerate(lines) if _is_header(line)), None)
    if begin is None:
        raise nothing_read(path, TOOL, f"no kernels: {_failure(path, lines)}", ADVICE)
    header = split_csv(lines[begin])
    kind = _kind(path, header)
    page = Page(kind, pd.DataFrame(), notes=[*_messages(lines), *_unknown_columns(kind, header)])
    rows = _whole_rows(path, lines, begin, page)
    cells = _raw_cells(path, header, rows, page) if kind == "raw" else _long_cells(header, rows, page)
    # A raw page has hundreds of cells per launch: tuples take a fifth of the memory of dictionaries.
    page.cells = pd.DataFrame.from_records([tuple(map(cell.get, CELLS)) for cell in cells], columns=list(CELLS))
    if page.cells.empty:
        raise nothing_read(path, TOOL, "a header without a whole row (no kernels)", ADVICE)
    return page


def _whole_rows(path: Path, lines: list[str], begin: int, page: Page) -> list[tuple[int, list[str]]]:
    """Return line numbers and fields of all rows after the header; note partial rows."""
    rows = []
    for number, line in enumerate(lines[begin + 1 :], start=begin + 2):
        if line == lines[begin] or not line:
            continue
        if _is_header(line):
            found = f"a second table with other columns (line {number})"
            raise nothing_read(path, TOOL, found, "write each run of ncu to its own file")
        if _ROW.fullmatch(line) and (cells := split_csv(line)):
            rows.append((number, cells))
        elif line.startswith('"') or line.count('","') >= _FEWEST_QUOTES:
            page.damaged.append(number)
    return rows


def _is_header(line: str) -> bool:
    return bool(_HEADER.match(line) and _ROW.fullmatch(line))


def _failure(path: Path, lines: list[str]) -> str:
    said = [line.split("==", 2)[-1].strip() for line in lines if line.startswith(("==ERROR==", "==WARNING=="))]
    return f"{looks_like(path)} without a table" + (f", with the message {'; '.join(said[:3])!r}" if said else "")


def _messages(lines: list[str]) -> list[str]:
    return [f"ncu printed: {line.removeprefix('==ERROR==').strip()}" for line in lines if line.startswith("==ERROR==")]


def _kind(path: Path, header: list[str]) -> str:
    columns = set(header)
    kind = "details" if "ID" in columns else "summary"
    needed = {"Process ID", "Kernel Name", *VALUES}
    needed |= {"ID", "Metric Value"} if kind == "details" else {"Invocations", "Minimum", "Maximum", "Average"}
    if needed <= columns:
        return kind
    if {"ID", "Process ID", "Kernel Name"} <= columns and not columns & {*VALUES, "Metric Value"}:
        return "raw"
    missing = ", ".join(sorted(needed - columns))
    raise nothing_read(path, TOOL, f"a header without the columns {missing}", "it is cut or damaged: copy it again")


def _unknown_columns(kind: str, header: list[str]) -> list[str]:
    known = {*IDENTITY, *VALUES, *FURTHER, *RULES}
    strange = [name for name in header if name not in known and not _RANGE.search(name)]
    if kind == "raw":
        strange = [name for name in strange if not _RAW_METRIC.fullmatch(name)]
    return [f"column {name!r} is unknown: skipped" for name in strange]


def _long_cells(header: list[str], rows: list[tuple[int, list[str]]], page: Page) -> Iterator[dict[str, object]]:
    columns = {name: index for index, name in enumerate(header) if name in {*IDENTITY, *VALUES, *FURTHER}}
    needed = 1 + max(index for name, index in columns.items())
    for number, fields in rows:
        if not needed <= len(fields) <= len(header):
            page.damaged.append(number)
            continue
        cell: dict[str, object] = {_short(name): fields[index] for name, index in columns.items()}
        if cell["metric"] and not cell["mean"]:
            page.damaged.append(number)
        elif cell["metric"]:
            yield {"line": number, "minimum": cell["mean"], "maximum": cell["mean"], "launches": "1", **cell}


def _short(name: str) -> str:
    return IDENTITY.get(name) or VALUES.get(name) or FURTHER[name]


def _raw_cells(
    path: Path, header: list[str], rows: list[tuple[int, list[str]]], page: Page
) -> Iterator[dict[str, object]]:
    columns = {name: index for index, name in enumerate(header) if name in IDENTITY}
    metrics = [
        (index, name) for index, name in enumerate(header) if name not in columns and _RAW_METRIC.fullmatch(name)
    ]
    if not rows or any(rows[0][1][index] for index in columns.values() if index < len(rows[0][1])):
        raise nothing_read(path, TOOL, "a raw page without its row of units", "it is damaged: copy it again")
    units = rows[0][1]
    for number, fields in rows[1:] if len(units) == len(header) else []:
        if len(fields) != len(header):
            page.damaged.append(number)
            continue
        identity = {IDENTITY[name]: fields[index] for name, index in columns.items()}
        for index, name in metrics:
            value = fields[index]
            numbers = {"mean": value, "minimum": value, "maximum": value, "launches": "1"}
            yield {"line": number, **identity, "metric": name, "unit": units[index], **numbers}
