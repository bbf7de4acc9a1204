"""Rows of nvprof's GPU trace: one per launch or copy, checked against their throughput, order and stream."""

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

import pandas as pd

from hpcai.parsers.nvprof.tables import Recording, Table, device_tables
from hpcai.parsers.nvprof.text import Row
from hpcai.parsers.nvprof.values import Kind, Problems, Value, kind_of, read_time, read_value

COLUMNS = ("name", "kind", "device", "stream", "start_s", "duration_s", "bytes")
KILOBYTES = (1000, 1024)
CORRELATION = re.compile(r" \[\d+\]$", re.ASCII)
RARE = 0.01
"""Share of rows that may break a rule before the rule is taken not to hold for the file."""


@dataclass(frozen=True)
class TraceRow:
    """One launch or copy, times in seconds."""

    line: int
    name: str
    kind: Kind
    device: str
    context: str
    stream: str
    start: Value
    duration: Value
    size: Value | None
    throughput: Value | None


def read_traces(
    recording: Recording, problems: Problems, kilobyte: int | None
) -> tuple[pd.DataFrame, dict[str, int | None]]:
    """Return the kernel trace, and what K means in it with the numbers of rows that are no device time."""
    rows: list[TraceRow] = []
    others: Counter[str] = Counter()
    for table in device_tables(recording, "trace"):
        found = _read_table(table, problems, others)
        rows += _keep_streams(_keep_order(found, problems), problems)
    kilobyte = settle_kilobyte(rows) or kilobyte or _kilobyte_of_columns(recording)
    rows = [row for row in rows if _keeps_throughput(row, kilobyte, problems)]
    if kilobyte is None and any(row.size and row.size.power for row in rows):
        problems.note("no size is read: no copy says by its throughput whether 1 KB is 1000 or 1024 byte")
    frame = pd.DataFrame([_record(row, kilobyte) for row in rows], columns=list(COLUMNS))
    facts: dict[str, int | None] = {f"{kind}_rows": count for kind, count in sorted(others.items())}
    return frame.astype({"bytes": float}), facts | {"kilobyte_bytes": kilobyte}


def _record(row: TraceRow, kilobyte: int | None) -> tuple[object, ...]:
    is_known = row.size is not None and (kilobyte is not None or row.size.power == 0)
    # Sizes are whole bytes, printed with six decimals of their unit.
    size_bytes = float(round(row.size.in_bytes(kilobyte or 1).number)) if row.size and is_known else float("nan")
    return row.name, row.kind, row.device, row.stream, row.start.number, row.duration.number, size_bytes


def _read_table(table: Table, problems: Problems, others: Counter[str]) -> list[TraceRow]:
    rows = []
    for line, why in table.damaged:
        problems.leave_out(line, why)
    for line, cells in table.rows:
        if cells["Name"].startswith("[Unified Memory"):
            others["unified_memory"] += 1
        elif not cells["Device"]:
            others["api"] += 1
        elif isinstance(row := _read_row(line, cells), TraceRow):
            rows.append(row)
        else:
            problems.leave_out(line, row)
    return rows


def _read_row(line: int, cells: Row) -> TraceRow | str:
    start, duration = read_time(cells["Start"]), read_time(cells["Duration"])
    size, throughput = (_read_amount(cells.get(column, ""), unit) for column, unit in _AMOUNTS)
    if start is None or duration is None or isinstance(size, str) or isinstance(throughput, str):
        return "a number or its unit is damaged"
    name, kind = CORRELATION.sub("", cells["Name"]), kind_of(cells["Name"])
    has_grid = bool(cells.get("Grid X") or cells.get("Grid Size"))
    shows_grid = "Grid X" in cells or "Grid Size" in cells
    if kind is None or (shows_grid and has_grid != (kind == "kernel")) or (kind == "kernel" and size is not None):
        return "its name is none of a kernel or copy of its kind"
    place = cells["Device"], cells.get("Context", ""), cells.get("Stream", "")
    return TraceRow(line, name, kind, *place, start, duration, size, throughput)


_AMOUNTS = (("Size", "byte"), ("Throughput", "byte/s"))


def _read_amount(text: str, unit: str) -> Value | str | None:
    """Return a size or throughput, None if the cell is empty, or the text itself if it is neither."""
    if not text:
        return None
    value = read_value(text)
    return value if value and value.unit == unit else text


def _keep_order(rows: list[TraceRow], problems: Problems) -> list[TraceRow]:
    """Leave out the few rows that start out of order, nvprof having sorted them by start."""
    ordered = set(_longest_ordered([row.start.number for row in rows]))
    return _leave_out_few(
        rows, [place not in ordered for place in range(len(rows))], "its start is out of order", problems
    )


def _longest_ordered(numbers: list[float]) -> list[int]:
    """Return the places of a longest sequence that does not decrease."""
    ends: list[float] = []
    end_places: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        length = bisect_right(ends, number)
        before.append(end_places[length - 1] if length else -1)
        ends[length : length + 1], end_places[length : length + 1] = [number], [place]
    places, place = [], end_places[-1] if end_places else -1
    while place >= 0:
        places.append(place)
        place = before[place]
    return places[::-1]


def _keep_streams(rows: list[TraceRow], problems: Problems) -> list[TraceRow]:
    """Leave out the few rows that last beyond the start of the next of their stream."""
    next_start: dict[tuple[str, str, str], Value] = {}
    overlaps = [False] * len(rows)
    for place in reversed(range(len(rows))):
        row = rows[place]
        stream = row.device, row.context, row.stream
        following = next_start.get(stream)
        if following is not None:
            tolerance = following.step + row.start.step + row.duration.step
            overlaps[place] = row.start.number + row.duration.number > following.number + tolerance
        next_start[stream] = row.start
    return _leave_out_few(rows, overlaps, "it lasts beyond the start of the next of its stream", problems)


def _leave_out_few(rows: list[TraceRow], wrong: list[bool], why: str, problems: Problems) -> list[TraceRow]:
    if sum(wrong) > max(1, RARE * len(rows)):
        return rows
    for row, is_wrong in zip(rows, wrong, strict=True):
        if is_wrong:
            problems.leave_out(row.line, why)
    return [row for row, is_wrong in zip(rows, wrong, strict=True) if not is_wrong]


def settle_kilobyte(rows: list[TraceRow]) -> int | None:
    """Return 1000 or 1024, whichever makes Size / Duration = Throughput in more rows, or None if neither does."""
    votes = dict.fromkeys(KILOBYTES, 0)
    for row in rows:
        if row.size and row.throughput and row.size.power != row.throughput.power:
            for kilobyte in KILOBYTES:
                votes[kilobyte] += _agrees(row, kilobyte)
    fewest, most = sorted(votes, key=lambda kilobyte: votes[kilobyte])
    return most if votes[most] > votes[fewest] else None


def _kilobyte_of_columns(recording: Recording) -> int | None:
    """Return 1024 for versions that print memory types: so did all of 827 published files that settle it."""
    shows_memory = any("SrcMemType" in table.columns for table in device_tables(recording, "trace"))
    return 1024 if shows_memory else None


def _agrees(row: TraceRow, kilobyte: int) -> bool:
    if not row.size or not row.throughput or not row.duration.number:
        return True
    size, throughput = row.size.in_bytes(kilobyte), row.throughput.in_bytes(kilobyte)
    expected = size.number / row.duration.number
    relative = sum(value.step / value.number for value in (size, row.duration, throughput) if value.number)
    return abs(expected - throughput.number) <= relative * max(expected, throughput.number) + throughput.step


def _keeps_throughput(row: TraceRow, kilobyte: int | None, problems: Problems) -> bool:
    is_settled = kilobyte is not None or not (row.size and row.throughput and row.size.power != row.throughput.power)
    if is_settled and not _agrees(row, kilobyte or 1000):
        problems.leave_out(row.line, "size / duration is not its throughput")
        return False
    return True
