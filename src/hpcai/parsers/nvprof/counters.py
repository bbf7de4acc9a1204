"""Rows of nvprof's metrics and events: least, greatest and mean over the launches of a kernel, and their checks."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import pandas as pd

from hpcai.core.messages import Message
from hpcai.parsers.nvprof.tables import Recording, Table, device_tables
from hpcai.parsers.nvprof.text import Row
from hpcai.parsers.nvprof.values import Problems, Value, read_count, read_value

OVERFLOWED = Message("counters.overflowed", "{counters} counters overflowed or are no number: their values are missing")

COLUMNS = (
    "name", "device", "launch", "launches", "source", "metric", "unit", "minimum", "maximum", "mean", "total",
)  # fmt: skip
KILOBYTES = (1000, 1024)
UNIT_NAMES = {"decimal": "ratio", "%": "ratio"}
SUMS = {"": 1.0, "byte": 1.0}
"""Units whose values add up over launches; no other does."""
FLOATING_POINT = ("flop_count_sp", "flop_count_dp")
"""Counters that are add + mul + 2 x fma (Profiler User's Guide); the one of halves may count a packed fma as four."""
MEAN_ERROR = 1e-5
"""Relative error of means of rates: up to 4e-6 in published files, where a single launch is its own mean."""


@dataclass(frozen=True)
class CounterRow:
    """One metric or event of one kernel; ``table`` tells the tables of a file apart."""

    line: int
    table: int
    source: str
    name: str
    device: str
    metric: str
    launches: int
    minimum: Value
    maximum: Value
    mean: Value
    printed_total: Value | None

    @property
    def kernel(self) -> tuple[int, str, str]:
        """What the rows of one kernel share."""
        return self.table, self.device, self.name

    @property
    def values(self) -> tuple[Value, Value, Value]:
        """Least, greatest and mean."""
        return self.minimum, self.maximum, self.mean

    @property
    def unit(self) -> str:
        """The unit that all values share but for prefixes; a value that overflowed has none."""
        return next((value.unit for value in self.values if not math.isnan(value.number)), "")

    def in_bytes(self, kilobyte: int) -> "CounterRow":
        """Return the row without the prefixes of bytes."""
        minimum, maximum, mean = (value.in_bytes(kilobyte) for value in self.values)
        return replace(self, minimum=minimum, maximum=maximum, mean=mean)


def read_counters(
    recording: Recording, problems: Problems, kilobyte: int | None
) -> tuple[pd.DataFrame, dict[str, int | None]]:
    """Return the counters table, and what K means in it."""
    rows: list[CounterRow] = []
    for number, table in enumerate(device_tables(recording, "metric", "event")):
        rows += _read_table(number, table, problems)
    kilobyte = settle_kilobyte(rows) or kilobyte
    rows = [row for row in rows if _is_possible(row, kilobyte, problems)]
    rows = _keep_launches(rows, problems)
    rows = _keep_sums(rows, problems)
    _note_gaps(rows, problems)
    _note_missing(rows, kilobyte, problems)
    frame = pd.DataFrame([_record(row, kilobyte) for row in rows], columns=list(COLUMNS))
    facts: dict[str, int | None] = {f"{source}_rows": sum(row.source == source for row in rows) for source in _SOURCES}
    return frame.astype({"launch": "Int64"}), facts | {"kilobyte_bytes": kilobyte}


_SOURCES = ("metric", "event")


def _read_table(number: int, table: Table, problems: Problems) -> list[CounterRow]:
    rows = []
    for line, why in table.damaged:
        problems.leave_out(line, why)
    for line, cells in table.rows:
        row = _read_row(line, number, table.kind, cells)
        if row is None:
            problems.leave_out(line, "a number or its unit is damaged")
        else:
            rows.append(row)
    return rows


def _read_row(line: int, table: int, source: str, cells: Row) -> CounterRow | None:
    launches = read_count(cells["Invocations"])
    minimum, maximum, mean = (read_value(cells[column]) for column in ("Min", "Max", "Avg"))
    total = read_value(cells["Total"]) if cells.get("Total") else None
    metric = cells["Metric Name" if source == "metric" else "Event Name"]
    if not (launches and minimum and maximum and mean and metric) or (total is None and cells.get("Total")):
        return None
    row = CounterRow(
        line, table, source, cells["Kernel"], cells["Device"], metric, launches, minimum, maximum, mean, total
    )
    units = {value.unit for value in row.values if not math.isnan(value.number)}
    return row if len(units) <= 1 and "s" not in units else None


def settle_kilobyte(rows: Iterable[CounterRow]) -> int | None:
    """Return 1000 or 1024, or None if the file does not settle what K means in its throughputs.

    nvprof keeps throughputs in whole bytes per second: a value in KB/s, printed with six decimals, is whole in one
    of the two only; and least, mean and greatest of a row may carry different prefixes, which must keep their order.
    """
    votes = dict.fromkeys(KILOBYTES, 0)
    for row in rows:
        fits = {kilobyte: _is_whole(row, kilobyte) for kilobyte in KILOBYTES}
        if row.unit in {"byte", "byte/s"} and len(set(fits.values())) == 2:
            for kilobyte in KILOBYTES:
                votes[kilobyte] += fits[kilobyte]
    fewest, most = sorted(votes, key=lambda kilobyte: votes[kilobyte])
    return most if votes[most] > votes[fewest] else None


def _is_whole(row: CounterRow, kilobyte: int) -> bool:
    numbers = [value.in_bytes(kilobyte) for value in row.values if value.power == 1]
    are_whole = all(abs(value.number - round(value.number)) <= value.step for value in numbers if value.step < 0.1)
    return are_whole and _contradiction(row.in_bytes(kilobyte)) is None


def _is_possible(row: CounterRow, kilobyte: int | None, problems: Problems) -> bool:
    bases = (kilobyte,) if kilobyte else KILOBYTES
    why = [_contradiction(row.in_bytes(base)) for base in bases]
    if all(why):
        problems.leave_out(row.line, str(why[0]))
    return not all(why)


def _contradiction(row: CounterRow) -> str | None:
    """Return what is wrong with a row: all but the least and the greatest launch lie between these two."""
    least, most, mean = (value.number for value in row.values)
    others = row.launches - 1
    if any(map(math.isnan, (least, most, mean))):
        return None
    step = max(value.step for value in row.values)
    # The count of one launch is its mean; means of more are rounded or cut to the last place.
    slack = step * others / row.launches if row.unit == "" else step + MEAN_ERROR * abs(mean)
    lowest, highest = (others * least + most) / row.launches, (least + others * most) / row.launches
    if least < 0 or not least <= most or not lowest - slack <= mean <= highest + slack:
        return f"its least, mean and greatest contradict each other in {row.launches} launches"
    total = row.printed_total
    if total and abs(total.number - row.launches * mean) > row.launches * step:
        return "launches x mean is not its total"
    return None


def _keep_launches(rows: list[CounterRow], problems: Problems) -> list[CounterRow]:
    """Leave out the one row of a kernel whose launches differ from those of all its others."""
    launches: defaultdict[tuple[int, str, str], Counter[int]] = defaultdict(Counter)
    for row in rows:
        launches[row.kernel][row.launches] += 1

    def is_alone(row: CounterRow) -> bool:
        counts = launches[row.kernel]
        return len(counts) == 2 and counts[row.launches] == 1 and counts.total() > 2

    return _keep(rows, is_alone, "its launches differ from those of all other rows of its kernel", problems)


def _keep_sums(rows: list[CounterRow], problems: Problems) -> list[CounterRow]:
    """Leave out floating-point counts that are not the sum of their parts, and the parts."""
    means = {(row.kernel, row.metric): row.mean.number for row in rows}
    wrong = set()
    for kernel in {row.kernel for row in rows}:
        for counter in FLOATING_POINT:
            names = [counter, f"{counter}_add", f"{counter}_mul", f"{counter}_fma"]
            total, add, mul, fma = (means.get((kernel, name), math.nan) for name in names)
            if abs(total - (add + mul + 2 * fma)) > 4:  # four means, each rounded; NaN compares as false
                wrong |= {(kernel, name) for name in names}
    why = "add + mul + 2 x fma of its kernel is not their flop_count"
    return _keep(rows, lambda row: (row.kernel, row.metric) in wrong, why, problems)


def _keep(
    rows: list[CounterRow], is_wrong: Callable[[CounterRow], bool], why: str, problems: Problems
) -> list[CounterRow]:
    for row in rows:
        if is_wrong(row):
            problems.leave_out(row.line, why)
    return [row for row in rows if not is_wrong(row)]


def _note_gaps(rows: list[CounterRow], problems: Problems) -> None:
    """Say which metrics a kernel lacks: nvprof collects the same ones for every kernel."""
    metrics: defaultdict[int, set[str]] = defaultdict(set)
    kernels: defaultdict[tuple[int, str, str], set[str]] = defaultdict(set)
    for row in rows:
        metrics[row.table].add(row.metric)
        kernels[row.kernel].add(row.metric)
    for (table, device, name), found in kernels.items():
        lacking = sorted(metrics[table] - found)
        if lacking:
            listed = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
            problems.note(f"kernel {name[:80]} on {device} lacks {listed}")


def _note_missing(rows: list[CounterRow], kilobyte: int | None, problems: Problems) -> None:
    overflowed = sum(any(math.isnan(value.number) for value in row.values) for row in rows)
    unsettled = sum(_is_unsettled(row, kilobyte) for row in rows)
    if overflowed:
        problems.note(OVERFLOWED(counters=overflowed))
    if unsettled:
        problems.note(
            f"{unsettled} throughputs are missing: this file does not settle whether 1 KB is 1000 or 1024 byte"
        )


def _is_unsettled(row: CounterRow, kilobyte: int | None) -> bool:
    return kilobyte is None and any(value.power for value in row.values)


def _record(row: CounterRow, kilobyte: int | None) -> tuple[object, ...]:
    unit = UNIT_NAMES.get(row.unit, row.unit)
    scale = math.nan if _is_unsettled(row, kilobyte) else 0.01 if row.unit == "%" else 1.0
    numbers = [value.number * scale for value in row.in_bytes(kilobyte or 1).values]
    if row.metric.endswith("_bytes") and unit == "":
        unit = "byte"
    total = row.launches * numbers[2] * SUMS.get(unit, math.nan)
    if row.printed_total and unit in SUMS:
        total = row.printed_total.number
    return row.name, row.device, pd.NA, row.launches, row.source, row.metric, unit, *numbers, total
