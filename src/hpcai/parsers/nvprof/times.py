"""Times of nvprof: summary and GPU trace rows, each checked for itself and against the others.

The summary has device time and shares per kernel and copy. The trace has one row per launch or copy, with checked
throughput, order and stream.
"""

import re
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass

import pandas as pd

from hpcai.parsers.nvprof.cells import Kind, Problems, Row, Value, kind_of, read_count, read_time, read_value
from hpcai.parsers.nvprof.tables import Recording, Table, device_tables

SUMMARY_COLUMNS = ("name", "kind", "device", "calls", "total_s", "mean_s", "min_s", "max_s")
OTHER_TYPES = re.compile(r"API calls|Range|NVTX.*|Unified Memory.*|(OpenACC|OpenMP)( \((excl|incl)\))?")
API_NAME = re.compile(r"cu(da)?[A-Z]\w*")
SLACK = 1.01
"""Rounding tolerance for sums of floating-point numbers."""


@dataclass(frozen=True)
class SummaryRow:
    """One kernel or copy, times in seconds; ``share`` is the printed percentage."""

    line: int
    name: str
    kind: Kind
    device: str | None
    calls: int
    total: Value
    mean: Value
    minimum: Value
    maximum: Value
    share: Value


def read_summaries(recording: Recording, problems: Problems) -> tuple[pd.DataFrame, dict[str, int]]:
    """Return the kernels table and the number of rows without device time, by type."""
    rows: list[SummaryRow] = []
    others: Counter[str] = Counter()
    for table in recording.tables:
        if table.kind == "summary" and table.section != "device":
            others[table.section] += len(table.rows)
    for table in device_tables(recording, "summary"):
        rows += _check_shares(_read_summary_table(table, problems, others), table, problems)
    frame = pd.DataFrame([_summary_record(row) for row in rows], columns=list(SUMMARY_COLUMNS))
    return _merge(frame), {f"{kind}_rows": count for kind, count in sorted(others.items())}


def _summary_record(row: SummaryRow) -> tuple[object, ...]:
    times = (value.number for value in (row.total, row.mean, row.minimum, row.maximum))
    return row.name, row.kind, row.device, row.calls, *times


def _read_summary_table(table: Table, problems: Problems, others: Counter[str]) -> list[SummaryRow]:
    rows = []
    for line, why in table.damaged:
        problems.leave_out(line, why)
    for line, cells in table.rows:
        activity = cells.get("Type", "GPU activities")
        if OTHER_TYPES.fullmatch(activity):
            others["api" if activity == "API calls" else activity.split()[0].lower()] += 1
            continue
        row = _read_summary_row(line, cells, table.device) if activity == "GPU activities" else "its type is unknown"
        if isinstance(row, str):
            problems.leave_out(line, row)
        elif contradiction := _contradiction(row):
            problems.leave_out(line, contradiction)
        else:
            rows.append(row)
    return rows


def _read_summary_row(line: int, cells: Row, device: str | None) -> SummaryRow | str:
    times = [read_time(cells[column]) for column in ("Time", "Avg", "Min", "Max")]
    share, calls, kind = read_value(cells["Time(%)"]), read_count(cells["Calls"]), kind_of(cells["Name"])
    total, mean, minimum, maximum = times
    if not (total and mean and minimum and maximum and calls and share and share.unit == "%"):
        return "a number or its unit is damaged"
    if kind is None or API_NAME.fullmatch(cells["Name"]):
        return "its name is none of a kernel or copy"
    return SummaryRow(line, cells["Name"], kind, device, calls, total, mean, minimum, maximum, share)


def _contradiction(row: SummaryRow) -> str | None:
    """Return what is wrong with a row: its numbers determine each other within the printed digits."""
    total, mean, least, most = row.total, row.mean, row.minimum, row.maximum
    others = row.calls - 1
    if abs(total.number - row.calls * mean.number) > SLACK * (total.step + row.calls * mean.step):
        return "calls x mean is not its time"
    if not least.number - least.step <= mean.number + mean.step <= most.number + most.step + 2 * mean.step:
        return "its mean is not between its least and its greatest"
    lowest = others * least.number + most.number - SLACK * (others * least.step + most.step + total.step)
    highest = least.number + others * most.number + SLACK * (least.step + others * most.step + total.step)
    return None if lowest <= total.number <= highest else "its least and its greatest do not allow its time"


def _check_shares(rows: list[SummaryRow], table: Table, problems: Problems) -> list[SummaryRow]:
    """Omit rows whose percentage contradicts their time, and note the share of time that is missing."""
    whole = _settle_whole(rows)
    agreeing = []
    for row in rows:
        if _summary_agrees(row, whole):
            agreeing.append(row)
        else:
            problems.leave_out(row.line, "its percentage is not its share of the time")
    shares = sum(row.share.number for row in agreeing)
    rounding = SLACK * sum(row.share.step for row in agreeing)
    if agreeing and abs(100 - shares) > rounding:
        problems.note(f"the rows read of the table in line {table.line} hold {shares:.6g} % of its time, not 100 %")
    return agreeing


def _settle_whole(rows: list[SummaryRow]) -> Value:
    """Return the total time of the table with which most rows' percentages agree.

    The sum of all rows is exact, unless a row is missing or damaged. One row's time over its percentage always gives
    the total, but only as precisely as the percentage: the three largest rows can outvote a damaged one.
    """
    guesses = [Value(sum(row.total.number for row in rows), 0.0, "s")]
    for row in sorted(rows, key=lambda row: -row.share.number)[:3]:
        if row.share.number > 0:
            whole_s = 100 * row.total.number / row.share.number
            guesses.append(Value(whole_s, whole_s * row.share.step / row.share.number, "s"))
    return max(guesses, key=lambda guess: sum(_summary_agrees(row, guess) for row in rows))


def _summary_agrees(row: SummaryRow, whole: Value) -> bool:
    share = row.share.number / 100
    tolerance_s = row.share.step / 100 * whole.number + share * whole.step + row.total.step
    return abs(share * whole.number - row.total.number) <= SLACK * tolerance_s


def _merge(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per name and device where tables of several processes repeat them."""
    keys = ["name", "kind", "device"]
    if not frame.duplicated(keys).any():
        return frame
    merged = frame.groupby(keys, sort=False, dropna=False, as_index=False).agg(
        calls=("calls", "sum"), total_s=("total_s", "sum"), min_s=("min_s", "min"), max_s=("max_s", "max")
    )
    merged["mean_s"] = merged["total_s"] / merged["calls"]
    return merged[list(SUMMARY_COLUMNS)]


TRACE_COLUMNS = ("name", "kind", "device", "stream", "start_s", "duration_s", "bytes")
KILOBYTES = (1000, 1024)
CORRELATION = re.compile(r" \[\d+\]$", re.ASCII)
RARE = 0.01
"""Share of rows that may break a rule; above it, the rule does not apply to the file."""


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
    """Return the kernel trace, the meaning of K in it, and the number of rows without device time."""
    rows: list[TraceRow] = []
    others: Counter[str] = Counter()
    for table in device_tables(recording, "trace"):
        found = _read_trace_table(table, problems, others)
        rows += _keep_streams(_keep_order(found, problems), problems)
    kilobyte = settle_kilobyte(rows) or kilobyte or _kilobyte_of_columns(recording)
    rows = [row for row in rows if _keeps_throughput(row, kilobyte, problems)]
    if kilobyte is None and any(row.size and row.size.power for row in rows):
        problems.note("no size is read: no copy's throughput determines whether 1 KB is 1000 or 1024 byte")
    frame = pd.DataFrame([_launch_record(row, kilobyte) for row in rows], columns=list(TRACE_COLUMNS))
    facts: dict[str, int | None] = {f"{kind}_rows": count for kind, count in sorted(others.items())}
    return frame.astype({"bytes": float}), facts | {"kilobyte_bytes": kilobyte}


def _launch_record(row: TraceRow, kilobyte: int | None) -> tuple[object, ...]:
    is_known = row.size is not None and (kilobyte is not None or row.size.power == 0)
    # Sizes are whole bytes, printed to six decimals of their unit.
    size_bytes = float(round(row.size.in_bytes(kilobyte or 1).number)) if row.size and is_known else float("nan")
    return row.name, row.kind, row.device, row.stream, row.start.number, row.duration.number, size_bytes


def _read_trace_table(table: Table, problems: Problems, others: Counter[str]) -> list[TraceRow]:
    rows = []
    for line, why in table.damaged:
        problems.leave_out(line, why)
    for line, cells in table.rows:
        if cells["Name"].startswith("[Unified Memory"):
            others["unified_memory"] += 1
        elif not cells["Device"]:
            others["api"] += 1
        elif isinstance(row := _read_launch(line, cells), TraceRow):
            rows.append(row)
        else:
            problems.leave_out(line, row)
    return rows


def _read_launch(line: int, cells: Row) -> TraceRow | str:
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
    """Omit the few rows that start out of order: nvprof sorts rows by start."""
    ordered = set(_longest_ordered([row.start.number for row in rows]))
    return _leave_out_few(
        rows, [place not in ordered for place in range(len(rows))], "its start is out of order", problems
    )


def _longest_ordered(numbers: list[float]) -> list[int]:
    """Return the indices of a longest non-decreasing sequence."""
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
    """Omit the few rows that end after the next row of their stream starts."""
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
    """Return 1000 or 1024, whichever satisfies Size / Duration = Throughput in more rows, or None if neither does."""
    votes = dict.fromkeys(KILOBYTES, 0)
    for row in rows:
        if row.size and row.throughput and row.size.power != row.throughput.power:
            for kilobyte in KILOBYTES:
                votes[kilobyte] += _launch_agrees(row, kilobyte)
    fewest, most = sorted(votes, key=lambda kilobyte: votes[kilobyte])
    return most if votes[most] > votes[fewest] else None


def _kilobyte_of_columns(recording: Recording) -> int | None:
    """Return 1024 for versions that print memory types, as in all 827 published files that determine it."""
    shows_memory = any("SrcMemType" in table.columns for table in device_tables(recording, "trace"))
    return 1024 if shows_memory else None


def _launch_agrees(row: TraceRow, kilobyte: int) -> bool:
    if not row.size or not row.throughput or not row.duration.number:
        return True
    size, throughput = row.size.in_bytes(kilobyte), row.throughput.in_bytes(kilobyte)
    expected = size.number / row.duration.number
    relative = sum(value.step / value.number for value in (size, row.duration, throughput) if value.number)
    return abs(expected - throughput.number) <= relative * max(expected, throughput.number) + throughput.step


def _keeps_throughput(row: TraceRow, kilobyte: int | None, problems: Problems) -> bool:
    is_settled = kilobyte is not None or not (row.size and row.throughput and row.size.power != row.throughput.power)
    if is_settled and not _launch_agrees(row, kilobyte or 1000):
        problems.leave_out(row.line, "size / duration is not its throughput")
        return False
    return True
