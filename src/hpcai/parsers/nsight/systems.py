"""Kernel, copy and API call times from the summaries of ``nsys stats``. Formats: profilers.md, section 3."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, read_whole_lines
from hpcai.parsers.identify import looks_like
from hpcai.parsers.nsight.systems_reports import (
    API,
    KERNELS,
    MEMORY_SIZE,
    MEMORY_TIME,
    OS_RUNTIME,
    Report,
    find_reports,
    titles,
)
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading, nothing_read
from hpcai.parsers.units_text import STYLES, NumberStyle, decide_style

ROWS_MISSING = Message(
    "systems.rows_missing",
    "by their percentages, rows with at least {missing_percent:.1f} % of the time of {kind} are missing",
)
HALF_OF_COPIES = Message(
    "systems.half_of_copies",
    "some copies have only their times or only their sizes here: the other report is missing or damaged",
)
NOTHING_OF_KIND = Message("systems.nothing_of_kind", "no {kinds}: {found}")

FACTORS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
FACTORS |= {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
SPREAD = ("mean", "minimum", "maximum", "median", "deviation")
SLACK_RATIO = 1e-6
DEVIATION_SLACK_RATIO = 1e-3


@dataclass(frozen=True)
class Row:
    """Numbers of one row in the unit of its report; NaN for columns that the report lacks.

    Attributes
    ----------
    name
        Name of the kernel, copy or function.
    calls
        Number of calls.
    total
        Total time or size over all calls.
    spread
        Mean, minimum, maximum, median and standard deviation over the calls.
    share
        Share of the report's time [%].
    """

    name: str
    calls: int
    total: float
    spread: dict[str, float]
    share: float


def read_row(cells: dict[str, str], style: NumberStyle) -> Row:
    """Return the numbers of a row.

    Raises
    ------
    ValueError
        If a cell is not a number, or the row contradicts itself.
    """
    amount = cells["size" if "size" in cells else "total"]
    values = {column: style.read(cells[column]) if column in cells else math.nan for column in (*SPREAD, "share")}
    calls, total = style.read(cells["calls"]), style.read(amount)
    halves = {column: _half_step(cells.get(column, ""), style) for column in SPREAD}
    if not (cells["name"] and calls >= 1 and calls.is_integer() and total >= 0):
        raise ValueError(cells["name"])
    if not _is_consistent(values, halves, int(calls), (total, _half_step(amount, style))):
        raise ValueError(cells["name"])
    return Row(cells["name"], int(calls), total, {column: values[column] for column in SPREAD}, values["share"])


def _half_step(text: str, style: NumberStyle) -> float:
    """Return the largest rounding error of a printed number."""
    return 0.5 * 10.0 ** -style.decimals(text)


def _is_consistent(
    values: dict[str, float], halves: dict[str, float], calls: int, total_and_half: tuple[float, float]
) -> bool:
    """Return whether one set of calls can produce the row's columns; a missing value contradicts nothing."""
    total, half = total_and_half
    mean, low, high, median = (values[column] for column in ("mean", "minimum", "maximum", "median"))
    slack = half + calls * max(halves[column] for column in SPREAD) + SLACK_RATIO * total
    step = max(halves.values()) * 2 + SLACK_RATIO * abs(mean)
    contradictions = (
        abs(calls * mean - total) > half + calls * halves["mean"] + SLACK_RATIO * total,
        low > mean + step or mean > high + step,
        low > median + step or median > high + step,
        total < (calls - 1) * low + high - slack,
        total > low + (calls - 1) * high + slack,
    )
    return not any(contradictions) and _is_possible_deviation(values, calls, step)


def _is_possible_deviation(values: dict[str, float], calls: int, step: float) -> bool:
    """Return whether minimum, maximum and mean allow the deviation (of a sample: divided by calls - 1).

    The sum of squares is at least that of the two extremes, and at most calls x (maximum - mean) x (mean - minimum)
    (Bhatia and Davis, A better bound on the variance, 2000).
    """
    deviation, mean = values["deviation"], values["mean"]
    above, below = values["maximum"] - mean, mean - values["minimum"]
    if calls == 1:
        return not (deviation > step or above > step or below > step)
    squares = deviation**2 * (calls - 1)
    slack = DEVIATION_SLACK_RATIO * squares + 2 * step * calls * (abs(above) + abs(below) + deviation + step)
    return not (squares < above**2 + below**2 - slack or squares > calls * above * below + slack)


TOOL = "a table of nsys stats"
COLUMNS = (
    *("name", "kind", "device", "calls", "total_s", "mean_s", "min_s", "max_s", "median_s", "deviation_s"),
    "bytes",
)
SHORT = {"minimum": "min", "maximum": "max"}
HALF_SHARE_STEP = 0.05
"""Rounding of percentages, which are printed to one decimal."""
ROUNDING_RATIO = 1e-6
CUT_MARKS = ("…", "...")
ADVICE = "write it with `nsys stats --format csv --report cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_api_sum`"


def read_nsys_kernels(path: Path) -> Reading:
    """Return one row per kernel name.

    Columns: ``name``, ``kind`` ("kernel"), ``device`` (missing: nsys does not report it), ``calls``, ``total_s``,
    ``mean_s``, ``min_s``, ``max_s``, ``median_s``, ``deviation_s``, ``bytes`` (missing). Text output truncates long
    names, so several rows can share a name. Checks per row: calls × mean = total, and the bounds among minimum, maximum
    and deviation. Check over all rows: their percentages. A CSV file that lost rows of less than 0.05 % each at its end
    looks like a complete one.

    Raises
    ------
    ParseError
        If the report is missing (skipped by nsys, or a foreign file), occurs twice, or has no whole row.
    """
    return _read(path, [KERNELS], "kernel")


def read_nsys_memory(path: Path) -> Reading:
    """Return one row per kind of copy: columns as `read_nsys_kernels`, ``kind`` ("memcpy" or "memset"), ``bytes``.

    Times and bytes come from two reports; a value is missing if its report lacks the copy.

    Raises
    ------
    ParseError
        As `read_nsys_kernels`.
    """
    return _read(path, [MEMORY_TIME, MEMORY_SIZE], "memcpy")


def read_nsys_api(path: Path) -> Reading:
    """Return one row per CUDA API function: columns as in `read_nsys_kernels`, ``kind`` ("api"); host time.

    Raises
    ------
    ParseError
        As `read_nsys_kernels`.
    """
    return _read(path, [API], "api")


def read_nsys_os_runtime(path: Path) -> Reading:
    """Return one row per operating system function: as `read_nsys_api`, ``kind`` ("os runtime").

    Raises
    ------
    ParseError
        As `read_nsys_kernels`.
    """
    return _read(path, [OS_RUNTIME], "os runtime")


def _read(path: Path, kinds: Sequence[str], row_kind: str) -> Reading:
    lines, rest = read_whole_lines(path, TOOL)
    reports, skipped = find_reports(lines, path.name)
    if rest.strip() and reports and not reports[-1].has_end:
        reports[-1].damaged.append(len(lines) + 1)
    findings = Findings(path, TOOL)
    for report in _wanted(path, kinds, reports, skipped):
        _collect(findings, report, STYLES[0] if not report.is_text else _style_of_text(path, reports))
    findings.facts = {"reports": ", ".join(titles(reports)), "skipped": "; ".join(skipped.values()) or None}
    names_cut = sum(str(record["name"]).endswith(CUT_MARKS) for record in findings.records)
    if names_cut:
        findings.note(f"{names_cut} names are cut, so that they may be of another category: write CSV")
    if row_kind == "memcpy":
        _join_copies(findings, times_alone=[report.kind for report in reports] == [MEMORY_TIME])
    for record in findings.records:
        record["kind"] = "memset" if "memset" in str(record["name"]) and row_kind == "memcpy" else row_kind
    reading = findings.reading(COLUMNS, ADVICE)
    return replace(reading, table=reading.table.astype({"device": "string"}))


def _wanted(path: Path, kinds: Sequence[str], reports: list[Report], skipped: dict[str, str]) -> list[Report]:
    wanted = [report for report in reports if report.kind in kinds]
    if not wanted:
        instead = ", ".join(titles(reports)) or f"{looks_like(path)}, without a table"
        said = f"; nsys printed {'; '.join(skipped.values())!r}" if skipped else ""
        raise nothing_read(path, TOOL, NOTHING_OF_KIND(kinds=" or ".join(kinds), found=instead) + said, ADVICE)
    if len({report.kind for report in wanted}) != len(wanted):
        found = f"the report of {wanted[0].kind} more than once"
        raise nothing_read(path, TOOL, found, "write each profile to its own file")
    return wanted


def _style_of_text(path: Path, reports: list[Report]) -> NumberStyle:
    """Return the number format of a stream; CSV has no thousands separators and always a decimal point."""
    rows = (row for report in reports if report.is_text for _, row in report.rows)
    try:
        return decide_style(text for row in rows for column, text in row.items() if column != "name")
    except ValueError as error:
        raise nothing_read(path, TOOL, f"numbers with {error}", "the file is damaged: copy it again") from error


def _collect(findings: Findings, report: Report, style: NumberStyle) -> None:
    """Add the consistent rows of a report."""
    rows = []
    for line, cells_of_row in report.rows:
        try:
            rows.append(read_row(cells_of_row, style))
        except ValueError:
            findings.leave_out(line, f"a row of {report.kind} that is damaged or contradicts itself")
            continue
        findings.records.append({"line": line, **_record(rows[-1], report)})
    for line in report.damaged:
        findings.leave_out(line, f"no whole row of {report.kind}")
    if report.is_text and not report.has_end:
        findings.note(f"the report of {report.kind} ends without its blank line: rows may be missing")
    _compare_shares(findings, report.kind, rows)


def _record(row: Row, report: Report) -> dict[str, object]:
    factor = FACTORS[report.unit]
    if report.kind == MEMORY_SIZE:
        return {"name": row.name, "calls": row.calls, "bytes": row.total * factor}
    times = {f"{SHORT.get(column, column)}_s": value * factor for column, value in row.spread.items()}
    return {"name": row.name, "calls": row.calls, "total_s": row.total * factor, **times}


def _compare_shares(findings: Findings, kind: str, rows: list[Row]) -> None:
    """Note missing rows: the largest row's percentage implies the total of the report."""
    largest = max(rows, key=lambda row: row.total, default=None)
    if largest is None or not largest.share > 0:
        return
    total = sum(row.total for row in rows)
    least = 100 * largest.total / (largest.share + HALF_SHARE_STEP)
    most = 100 * largest.total / max(largest.share - HALF_SHARE_STEP, HALF_SHARE_STEP)
    if total < least * (1 - ROUNDING_RATIO):
        missing = 100 * (1 - total / least)
        findings.note(ROWS_MISSING(missing_percent=missing, kind=kind))
    if total > most * (1 + ROUNDING_RATIO):
        findings.note(f"the rows of {kind} contradict their percentages: they sum up to more")


def _join_copies(findings: Findings, *, times_alone: bool) -> None:
    """Join the rows of the two copy reports by name; both count the same copies.

    A file with the report of times alone is whole: nobody asked for sizes.
    """
    joined: dict[object, dict[str, object]] = {}
    for record in findings.records:
        other = joined.setdefault(record["name"], record)
        if other["calls"] != record["calls"]:
            findings.leave_out(
                int(str(record["line"])), f"{record['calls']} copies, but another report has {other['calls']}"
            )
            other["calls"] = None
        elif other is not record:
            joined[record["name"]] = {**other, **record}
    findings.records = [record for record in joined.values() if record["calls"] is not None]
    if not times_alone and any("bytes" not in record or "total_s" not in record for record in findings.records):
        findings.note(HALF_OF_COPIES())


READERS = (
    Reader("nsys-kernels", "kernels in `nsys stats`", read_nsys_kernels),
    Reader("nsys-memory", "copies in `nsys stats`", read_nsys_memory),
    Reader("nsys-api", "calls of CUDA in `nsys stats`", read_nsys_api),
    Reader("nsys-os-runtime", "calls of the operating system in `nsys stats`", read_nsys_os_runtime),
)
