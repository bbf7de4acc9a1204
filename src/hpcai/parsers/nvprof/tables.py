"""Find tables in nvprof output, CSV or text, by their headers; handle sections, messages and damage between them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hpcai.parsers.nvprof.cells import (
    COUNTER,
    DEVICE,
    KERNEL,
    Row,
    TextState,
    read_counter_row,
    read_summary_row,
    read_trace_row,
    split_columns,
)
from hpcai.parsers.text import read_lines, split_csv

_SUMMARY = frozenset({"Time(%)", "Time", "Calls", "Avg", "Min", "Max", "Name"})
_TRACE = frozenset({"Start", "Duration", "Device", "Name"})
_COUNTS = frozenset({"Invocations", "Min", "Max", "Avg"})
_OWNERS = frozenset({"Device", "Kernel"})
REQUIRED = {
    "summary": _SUMMARY,
    "trace": _TRACE,
    "metric": _COUNTS | {"Metric Name"},
    "event": _COUNTS | {"Event Name"},
}
"""Columns that identify a table (CUDA Profiler User's Guide, nvprof)."""
OPTIONAL = {
    "summary": frozenset({"Type"}),
    "trace": frozenset({f"{of} {axis}" for of in ("Grid", "Block") for axis in ("X", "Y", "Z", "Size")})
    | {"Size", "Throughput", "SrcMemType", "DstMemType", "Context", "Stream", "Correlation_ID", "Unified Memory"}
    | {"Registers Per Thread", "Static SMem", "Dynamic SMem"},
    "metric": frozenset({"Metric Description", "Total"}) | _OWNERS,
    "event": frozenset({"Total"}) | _OWNERS,
}
UNITS = {
    **dict.fromkeys(("Time", "Avg", "Min", "Max", "Start", "Duration"), re.compile(r"[mun]?s")),
    "Time(%)": re.compile("%"),
    "Size": re.compile(r"([KMGT]?B)?"),
    "Throughput": re.compile(r"([KMGT]?B/s)?"),
}
"""Possible units of the used columns in the second line of a CSV table."""
BARE_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]\d+)?", re.ASCII)

MESSAGE = re.compile(r"==(\d+)==(?: (.*)|$)|^======== (.*)")
NVTX = re.compile(r'NVTX result:|\s*(Thread|Domain|Range) "')
OTHER_RESULT = re.compile(r"(Unified Memory|OpenACC|OpenMP|CPU) .*result.*:|Dependency Analysis:")
NOTHING = re.compile(r"No (.+?) were profiled(.*)\.")
TROUBLE = re.compile(
    r"Error:|not supported on devices|not recorded|dropped|invalid timestamps|[Nn]o CUDA application was profiled"
)


@dataclass
class Table:
    """A table of nvprof and its unreadable lines.

    Attributes
    ----------
    kind
        ``summary``, ``trace``, ``metric`` or ``event``.
    columns
        Names in the header.
    line
        Line of the header, from 1.
    section
        ``device``, or ``api``, ``nvtx``, ``other`` for tables without device time of their own.
    device
        Named before the table (``--print-summary-per-gpu``), else None.
    rows
        Line and cells of each row that has as many cells as the header; every value has its unit.
    damaged
        Line, and why it is not a row.
    """

    kind: str
    columns: tuple[str, ...]
    line: int
    section: str
    device: str | None = None
    is_text: bool = False
    is_readable: bool = True
    units: tuple[str, ...] | None = None
    rows: list[tuple[int, Row]] = field(default_factory=list)
    damaged: list[tuple[int, str]] = field(default_factory=list)
    state: TextState = field(default_factory=TextState)

    @property
    def needs_units(self) -> bool:
        """Whether the next line must be the row of units."""
        return not self.is_text and self.kind in {"summary", "trace"} and self.units is None


@dataclass
class Recording:
    """All tables of a file, and the information between them."""

    tables: list[Table] = field(default_factory=list)
    processes: set[str] = field(default_factory=set)
    nothing: list[str] = field(default_factory=list)
    trouble: list[tuple[int, str]] = field(default_factory=list)
    command: str | None = None
    cut_line: int | None = None


def scan(path: Path, tool: str) -> Recording:
    """Return the tables of an output of nvprof.

    Parameters
    ----------
    path
        The artefact.
    tool
        The expected tool, for error messages.

    Raises
    ------
    ParseError
        If the file is not text.
    """
    lines = read_lines(path, tool)
    scanner = _Scanner(starts_anywhere=not any("Profiling result:" in line for line in lines))
    if not _ends_whole(path):
        scanner.recording.cut_line = len(lines)
    for number, line in enumerate(lines, 1):
        scanner.take(number, line)
    return scanner.recording


def _ends_whole(path: Path) -> bool:
    with path.open("rb") as stream:
        stream.seek(-min(4, path.stat().st_size), 2)
        return stream.read().rstrip(b"\0").endswith((b"\n", b"\r"))


def find_header(line: str) -> tuple[str, tuple[str, ...], bool] | None:
    """Return kind, columns and whether it is text mode, or None if the line is not a header."""
    for cells, is_text in ((split_csv(line), False), (split_columns(line), True)):
        for kind, required in REQUIRED.items():
            owners = frozenset() if is_text or kind in {"summary", "trace"} else _OWNERS
            if required | owners <= set(cells) and not any(_is_misspelt(cell, kind) for cell in cells):
                return kind, tuple(cells), is_text
    return None


def _is_misspelt(cell: str, kind: str) -> bool:
    """Return whether one character of a known column was changed: a table must not lose its types silently."""
    known = REQUIRED[kind] | OPTIONAL[kind]
    return cell not in known and any(
        len(cell) == len(name) and sum(a != b for a, b in zip(cell, name, strict=True)) == 1 for name in known
    )


def find_damaged_header(line: str) -> str | None:
    """Return the kind of table whose damaged header this line is, or None."""
    cells = {*re.findall(r'"([^"]*)"', line), *split_columns(line)}
    shares = {kind: len(required & cells) / len(required) for kind, required in REQUIRED.items()}
    likeliest = max(shares, key=lambda kind: shares[kind])
    return likeliest if shares[likeliest] > 0.5 and len(REQUIRED[likeliest] & cells) >= 3 else None


class _Scanner:
    """One pass over the lines; tracks the section and the open table."""

    def __init__(self, *, starts_anywhere: bool) -> None:
        self.recording = Recording()
        self.has_begun = starts_anywhere
        self.section = "device"
        self.device: str | None = None
        self.untyped_tables = 0
        self.table: Table | None = None

    def take(self, number: int, line: str) -> None:
        """Process the next line."""
        message = MESSAGE.search(line)
        if message:
            self._take_message(number, message[1], (message[2] or message[3] or "").rstrip())
        # Every header has two of these words: one survives any damage, and long traces need no further search.
        may_be_header = any(word in line for word in ("Name", "Avg", "Duration"))
        if header := find_header(line) if may_be_header and not message else None:
            self._open(number, *header)
        elif may_be_header and self.has_begun and (kind := find_damaged_header(line)):
            self._open(number, kind, (), is_text=False)
            self._last.is_readable = False
        elif message:
            pass
        elif not line.strip():
            self._close()
        elif nothing := NOTHING.fullmatch(line.strip()):
            self._take_nothing(nothing)
        elif self.table is None and self._continues_counters(line):
            self.table = self._last
            self._add(number, line)
        elif self.table is not None:
            self._add(number, line)

    @property
    def _last(self) -> Table:
        return self.recording.tables[-1]

    def _continues_counters(self, line: str) -> bool:
        is_part = DEVICE.fullmatch(line) or KERNEL.fullmatch(line) or COUNTER.match(line)
        known = self.recording.tables and self._last.is_text and self._last.kind in {"metric", "event"}
        return bool(is_part and known and self.section == "device")

    def _close(self) -> None:
        if self.table is not None:
            self.table.state.kernel = None
        self.table = None

    def _take_message(self, number: int, process: str | None, text: str) -> None:
        if process:
            self.recording.processes.add(process)
        if TROUBLE.search(text):
            self.recording.trouble.append((number, text))
        if text.startswith("NVPROF is profiling process") and self.recording.command is None:
            self.recording.command = text.partition(", command: ")[2] or None
        section = _section(text)
        if section == "result":
            self.has_begun = True
        elif section:
            self.section = section
            self.device = None
        if text.startswith("Profiling result:"):
            self.section, self.device, self.untyped_tables = "device", None, 0
        elif self.section == "device" and (device := DEVICE.fullmatch(text.strip())):
            self.device, self.untyped_tables, self.table = device[1], 0, None
        if section:
            self.table = None

    def _take_nothing(self, nothing: re.Match[str]) -> None:
        if not nothing[2] and self.section == "device" and nothing[1] != "API activities":
            self.recording.nothing.append(nothing[0])
            self.untyped_tables += 1  # an untyped table after this is that of API calls

    def _open(self, number: int, kind: str, columns: tuple[str, ...], is_text: bool) -> None:
        section = self.section
        if kind == "summary" and "Type" not in columns:
            # CUDA <= 8: the first table of a result is the device's; the next are API calls, with or without a title.
            section = "api" if section == "device" and self.untyped_tables else section
            self.untyped_tables += 1
        self.table = Table(kind, columns, number, section, self.device, is_text)
        self.recording.tables.append(self.table)

    def _add(self, number: int, line: str) -> None:
        table = self._last
        if not table.is_readable:
            table.damaged.append((number, f"the header of its table in line {table.line} is damaged"))
        elif number == self.recording.cut_line:
            table.damaged.append((number, "the file ends within it"))
        elif table.needs_units:
            table.units = tuple(split_csv(line))
            table.is_readable = _are_units(table)
            if not table.is_readable:
                table.damaged.append((number, "the row of units is damaged"))
        else:
            self._add_row(table, number, line)

    @staticmethod
    def _add_row(table: Table, number: int, line: str) -> None:
        row = _read_text_row(table, line) if table.is_text else _read_csv_row(table, line)
        if row is None:
            table.damaged.append((number, "no row of its table (damage, or output of the program)"))
        elif row:
            table.rows.append((number, row))
            if row.get("Type", "").startswith("Range"):
                table.section = "nvtx"  # a range repeats activities of the main table


def _section(text: str) -> str | None:
    """Return the section that a title opens, ``result`` for any device result, or None for a message."""
    if re.fullmatch(r"(Profiling|Event|Metric) result:", text):
        return "result"
    if text == "API calls:":
        return "api"
    if NVTX.match(text):
        return "nvtx"
    return "other" if OTHER_RESULT.match(text) else None


def _are_units(table: Table) -> bool:
    units = table.units or ()
    return len(units) == len(table.columns) and all(
        UNITS[column].fullmatch(unit) for column, unit in zip(table.columns, units, strict=True) if column in UNITS
    )


def _read_csv_row(table: Table, line: str) -> Row | None:
    cells = split_csv(line)
    if len(cells) != len(table.columns):
        return None
    row = dict(zip(table.columns, cells, strict=True))
    for column, unit in zip(table.columns, table.units or (), strict=False):
        if column in UNITS and row[column]:
            if not BARE_NUMBER.fullmatch(row[column]):
                return None
            row[column] += unit
    return row


def _read_text_row(table: Table, line: str) -> Row | None:
    if table.kind == "summary":
        return read_summary_row(table.columns, line, table.state)
    if table.kind == "trace":
        return read_trace_row(table.columns, line)
    return read_counter_row(table.columns, line, table.state)


def device_tables(recording: Recording, *kinds: str) -> Iterator[Table]:
    """Yield the tables of the given kinds that hold device activity."""
    return (table for table in recording.tables if table.kind in kinds and table.section == "device")
