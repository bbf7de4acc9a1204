"""Rows of nvprof's summary: device time by kernel and copy, each checked against itself and against its share."""

import re
from collections import Counter
from dataclasses import dataclass

import pandas as pd

from hpcai.parsers.nvprof.tables import Recording, Table, device_tables
from hpcai.parsers.nvprof.text import Row
from hpcai.parsers.nvprof.values import Kind, Problems, Value, kind_of, read_count, read_time, read_value

COLUMNS = ("name", "kind", "device", "calls", "total_s", "mean_s", "min_s", "max_s")
OTHER_TYPES = re.compile(r"API calls|Range|NVTX.*|Unified Memory.*|(OpenACC|OpenMP)( \((excl|incl)\))?")
API_NAME = re.compile(r"cu(da)?[A-Z]\w*")
SLACK = 1.01
"""Of rounding, for sums of floating-point numbers."""


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
    """Return the kernels table and the numbers of rows that are no device time, by type."""
    rows: list[SummaryRow] = []
    others: Counter[str] = Counter()
    for table in recording.tables:
        if table.kind == "summary" and table.section != "device":
            others[table.section] += len(table.rows)
    for table in device_tables(recording, "summary"):
        rows += _check_shares(_read_table(table, problems, others), table, problems)
    frame = pd.DataFrame([_record(row) for row in rows], columns=list(COLUMNS))
    return _merge(frame), {f"{kind}_rows": count for kind, count in sorted(others.items())}


def _record(row: SummaryRow) -> tuple[object, ...]:
    times = (value.number for value in (row.total, row.mean, row.minimum, row.maximum))
    return row.name, row.kind, row.device, row.calls, *times


def _read_table(table: Table, problems: Problems, others: Counter[str]) -> list[SummaryRow]:
    rows = []
    for line, why in table.damaged:
        problems.leave_out(line, why)
    for line, cells in table.rows:
        activity = cells.get("Type", "GPU activities")
        if OTHER_TYPES.fullmatch(activity):
            others["api" if activity == "API calls" else activity.split()[0].lower()] += 1
            continue
        row = _read_row(line, cells, table.device) if activity == "GPU activities" else "its type is unknown"
        if isinstance(row, str):
            problems.leave_out(line, row)
        elif contradiction := _contradiction(row):
            problems.leave_out(line, contradiction)
        else:
            rows.append(row)
    return rows


def _read_row(line: int, cells: Row, device: str | None) -> SummaryRow | str:
    times = [read_time(cells[column]) for column in ("Time", "Avg", "Min", "Max")]
    share, calls, kind = read_value(cells["Time(%)"]), read_count(cells["Calls"]), kind_of(cells["Name"])
    total, mean, minimum, maximum = times
    if not (total and mean and minimum and maximum and calls and share and share.unit == "%"):
        return "a number or its unit is damaged"
    if kind is None or API_NAME.fullmatch(cells["Name"]):
        return "its name is none of a kernel or copy"
    return SummaryRow(line, cells["Name"], kind, device, calls, total, mean, minimum, maximum, share)


def _contradiction(row: SummaryRow) -> str | None:
    """Return what is wrong with a row: its numbers determine each other up to the places printed."""
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
    """Leave out rows whose percentage contradicts their time, and say which share of the time is missing."""
    whole = _settle_whole(rows)
    agreeing = []
    for row in rows:
        if _agrees(row, whole):
            agreeing.append(row)
        else:
            problems.leave_out(row.line, "its percentage is not its share of the time")
    shares = sum(row.share.number for row in agreeing)
    rounding = SLACK * sum(row.share.step for row in agreeing)
    if agreeing and abs(100 - shares) > rounding:
        problems.note(f"the rows read of the table in line {table.line} hold {shares:.6g} % of its time, not 100 %")
    return agreeing


def _settle_whole(rows: list[SummaryRow]) -> Value:
    """Return the time of the whole table by which most rows agree with their percentages.

    The sum of all rows is exact, but not with a row missing or damaged; the time of a row by its percentage always
    is the whole, but as coarse as the percentage: the three greatest can outvote a damaged one.
    """
    guesses = [Value(sum(row.total.number for row in rows), 0.0, "s")]
    for row in sorted(rows, key=lambda row: -row.share.number)[:3]:
        if row.share.number > 0:
            whole_s = 100 * row.total.number / row.share.number
            guesses.append(Value(whole_s, whole_s * row.share.step / row.share.number, "s"))
    return max(guesses, key=lambda guess: sum(_agrees(row, guess) for row in rows))


def _agrees(row: SummaryRow, whole: Value) -> bool:
    share = row.share.number / 100
    tolerance_s = row.share.step / 100 * whole.number + share * whole.step + row.total.step
    return abs(share * whole.number - row.total.number) <= SLACK * tolerance_s


def _merge(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per name and device where the tables of several processes repeat them."""
    keys = ["name", "kind", "device"]
    if not frame.duplicated(keys).any():
        return frame
    merged = frame.groupby(keys, sort=False, dropna=False, as_index=False).agg(
        calls=("calls", "sum"), total_s=("total_s", "sum"), min_s=("min_s", "min"), max_s=("max_s", "max")
    )
    merged["mean_s"] = merged["total_s"] / merged["calls"]
    return merged[list(COLUMNS)]
