"""Read nvprof's summary, GPU trace, metrics and events; headers distinguish CSV from text mode.

Formats: CUDA Profiler User's Guide (nvprof). None of them has an end mark. These reveal a truncated file: a last line
without a line end, percentages below 100 in total (summary), a kernel that lacks metrics of the others (counters). A
GPU trace, or counters of whole kernels, cut at a line end looks like a shorter file. A changed character stays
undetected where nothing else depends on it: names, a launch's start and duration within the neighbouring gaps, least
and greatest times, last digits, and counters within their least and greatest values.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.parsers.identify import looks_like
from hpcai.parsers.nvprof.cells import Problems, Row, Value, read_count, read_value
from hpcai.parsers.nvprof.tables import Recording, Table, device_tables, scan
from hpcai.parsers.nvprof.times import read_summaries, read_traces
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Fact, Reading, nothing_read

OTHER_TABLES = Message("reader.other_tables", "output of nvprof with {kinds}, but no row of what was expected")
TOO_NEW = Message(
    "reader.too_new", "run it again, on a GPU of compute capability below 7.5 for metrics and below 8.0 at all"
)
OVERFLOWED = Message("reader.overflowed", "{counters} counters overflowed or are no number: their values are missing")

COLUMNS = (
    "name", "device", "launch", "launches", "source", "metric", "unit", "minimum", "maximum", "mean", "total",
)  # fmt: skip
KILOBYTES = (1000, 1024)
UNIT_NAMES = {"decimal": "ratio", "%": "ratio"}
SUMS = {"": 1.0, "byte": 1.0}
"""Units whose values add up over launches; others do not."""
FLOATING_POINT = ("flop_count_sp", "flop_count_dp")
"""Counters that equal add + mul + 2 x fma (Profiler User's Guide); the half variant may count a packed fma as four."""
MEAN_ERROR = 1e-5
"""Relative error of mean rates: up to 4e-6 in published files, for single launches that are their own mean."""


@dataclass(frozen=True)
class CounterRow:
    """One metric or event of one kernel; ``table`` identifies the table within the file."""

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
        """Key shared by all rows of one kernel."""
        return self.table, self.device, self.name

    @property
    def values(self) -> tuple[Value, Value, Value]:
        """Least, greatest and mean."""
        return self.minimum, self.maximum, self.mean

    @property
    def unit(self) -> str:
        """Common unit of all values, ignoring prefixes; an overflowed value has none."""
        return next((value.unit for value in self.values if not math.isnan(value.number)), "")

    def in_bytes(self, kilobyte: int) -> "CounterRow":
        """Return the row with byte prefixes resolved."""
        minimum, maximum, mean = (value.in_bytes(kilobyte) for value in self.values)
        return replace(self, minimum=minimum, maximum=maximum, mean=mean)


def read_counters(
    recording: Recording, problems: Problems, kilobyte: int | None
) -> tuple[pd.DataFrame, dict[str, int | None]]:
    """Return the counters table, and the meaning of K in it."""
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
    """Return 1000 or 1024, or None if the file does not determine K in its throughputs.

    nvprof stores throughputs in whole bytes per second: a KB/s value, printed to six decimals, is whole in only one of
    the two. Also, least, mean and greatest of a row may have different prefixes and must keep their order.
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
    """Return what is wrong with a row: all launches lie between the least and the greatest."""
    least, most, mean = (value.number for value in row.values)
    others = row.launches - 1
    if any(map(math.isnan, (least, most, mean))):
        return None
    step = max(value.step for value in row.values)
    # The count of one launch is its mean; means of several are rounded or truncated to the last place.
    slack = step * others / row.launches if row.unit == "" else step + MEAN_ERROR * abs(mean)
    lowest, highest = (others * least + most) / row.launches, (least + others * most) / row.launches
    if least < 0 or not least <= most or not lowest - slack <= mean <= highest + slack:
        return f"its least, mean and greatest contradict each other in {row.launches} launches"
    total = row.printed_total
    if total and abs(total.number - row.launches * mean) > row.launches * step:
        return "launches x mean is not its total"
    return None


def _keep_launches(rows: list[CounterRow], problems: Problems) -> list[CounterRow]:
    """Omit the only row of a kernel whose launch count differs from all its others."""
    launches: defaultdict[tuple[int, str, str], Counter[int]] = defaultdict(Counter)
    for row in rows:
        launches[row.kernel][row.launches] += 1

    def is_alone(row: CounterRow) -> bool:
        counts = launches[row.kernel]
        return len(counts) == 2 and counts[row.launches] == 1 and counts.total() > 2

    return _keep(rows, is_alone, "its launches differ from those of all other rows of its kernel", problems)


def _keep_sums(rows: list[CounterRow], problems: Problems) -> list[CounterRow]:
    """Omit floating-point counts that are not the sum of their parts, and the parts."""
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
    """Note which metrics a kernel lacks: nvprof collects the same ones for every kernel."""
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
            f"{unsettled} throughputs are missing: the file does not determine whether 1 KB is 1000 or 1024 byte"
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


SUMMARY = "nvprof summary"
TRACE = "nvprof GPU trace"
COUNTERS = "nvprof metrics and events"
KINDS = {"summary": "a summary", "trace": "a GPU trace", "metric": "a table of metrics", "event": "a table of events"}


def read_nvprof_summary(path: Path) -> Reading:
    """Read the device time of each kernel and copy from nvprof's summary.

    API calls, OpenACC and NVTX rows are not device time; ``facts`` counts them. Rows of several processes in one file
    are added up by name.

    Parameters
    ----------
    path
        Output of ``nvprof [--csv] [--log-file FILE]``, of any version.

    Returns
    -------
    Reading
        A row per kernel or copy and device: ``name, kind, device, calls, total_s, mean_s, min_s, max_s``; ``device``
        is missing unless the summary was printed per GPU.

    Raises
    ------
    ParseError
        If the file holds no device time: foreign, empty, entirely damaged, or nothing was recorded.
    """
    recording, problems = scan(path, SUMMARY), Problems()
    table, facts = read_summaries(recording, problems)
    return _finish(path, SUMMARY, table, recording, problems, facts)


def read_nvprof_trace(path: Path, kilobyte_bytes: int | None = None) -> Reading:
    """Read every launch and copy from nvprof's GPU trace.

    Size / Duration = Throughput determines whether KB means 1000 byte (old versions) or 1024. Otherwise the columns of
    memory types do, which only versions with 1024 print.

    Parameters
    ----------
    path
        Output of ``nvprof --print-gpu-trace [--csv]``, of any version.
    kilobyte_bytes
        Meaning of KB, 1000 or 1024, for files that do not determine it; without it their sizes are missing.

    Returns
    -------
    Reading
        A row per launch: ``name`` (without correlation id), ``kind, device, stream, start_s, duration_s, bytes``.

    Raises
    ------
    ParseError
        If the file holds no launch: foreign, empty, entirely damaged, or nothing was recorded.
    """
    recording, problems = scan(path, TRACE), Problems()
    table, facts = read_traces(recording, problems, kilobyte_bytes)
    return _finish(path, TRACE, table, recording, problems, facts)


def read_nvprof_counters(path: Path, kilobyte_bytes: int | None = None) -> Reading:
    """Read the metrics and events of each kernel.

    A counter can be both an event and a metric: ``source`` distinguishes them; never add them up.

    Parameters
    ----------
    path
        Output of ``nvprof --metrics ... [--events ...] [--csv]``, of any version.
    kilobyte_bytes
        Meaning of KB in throughputs, 1000 (old versions) or 1024, for files that do not determine it, for example from
        the ``facts`` of a trace by the same nvprof; without it their throughputs are missing.

    Returns
    -------
    Reading
        A row per kernel and counter: ``name, device, launch`` (missing: nvprof aggregates), ``launches, source``
        (metric or event), ``metric, unit`` ('' = count, 'byte', 'byte/s', 'ratio', 'level' of 0 to 10), ``minimum,
        maximum, mean, total`` (launches x mean, missing unless counts or bytes).

    Raises
    ------
    ParseError
        If the file holds no counter: foreign, empty, entirely damaged, or nothing was recorded.
    """
    recording, problems = scan(path, COUNTERS), Problems()
    table, facts = read_counters(recording, problems, kilobyte_bytes)
    return _finish(path, COUNTERS, table, recording, problems, facts)


def _finish(
    path: Path, tool: str, table: pd.DataFrame, recording: Recording, problems: Problems, facts: Mapping[str, Fact]
) -> Reading:
    if table.empty:
        raise _nothing(path, tool, recording, problems)
    if recording.cut_line:
        problems.note(f"the file ends within line {recording.cut_line}: it was cut, and more may be missing")
    for line, text in recording.trouble:
        problems.note(f"nvprof printed in line {line}: {text}")
    general: dict[str, Fact] = {
        "command": recording.command,
        "processes": max(1, len(recording.processes)),
        "is_text_mode": any(found.is_text for found in recording.tables),
    }
    seen = len(table) + problems.rows
    return Reading(table, tool, path, len(table), seen, problems.sentences(), general | dict(facts))


def _nothing(path: Path, tool: str, recording: Recording, problems: Problems) -> ParseError:
    advice = TOO_NEW()
    if recording.trouble:
        return nothing_read(path, tool, f"nvprof's message {recording.trouble[0][1]!r}", advice)
    if recording.nothing:
        return nothing_read(path, tool, f"{recording.nothing[0]!r}: nvprof recorded no kernels", advice)
    if problems.rows:
        return nothing_read(path, tool, f"no whole row ({problems.sentences()[0]})", "copy the file again")
    kinds = sorted({table.kind for table in recording.tables})
    if not kinds:
        return nothing_read(path, tool, looks_like(path), "give the log of nvprof, or run it again")
    found = OTHER_TABLES(kinds=" and ".join(KINDS[kind] for kind in kinds))
    return nothing_read(path, tool, found, "choose the file of this kind, or run nvprof with the option that prints it")


READERS = (
    Reader("nvprof-summary", "summary of nvprof", read_nvprof_summary, looks=("an nvprof summary",)),
    Reader("nvprof-trace", "GPU trace of nvprof", read_nvprof_trace, looks=("an nvprof GPU trace",)),
    Reader(
        "nvprof-counters",
        "metrics and events of nvprof",
        read_nvprof_counters,
        looks=("an nvprof table of metrics", "an nvprof table of events"),
    ),
)
