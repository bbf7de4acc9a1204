"""Find the reports in the output of ``nsys stats`` or ``nsys profile --stats``, and split their rows into text cells.

Handles CSV and text output, and several reports per stream; report and column names differ by version.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpcai.parsers.text import split_csv

KERNELS, MEMORY_TIME, MEMORY_SIZE, API, OS_RUNTIME = "kernels", "memory times", "memory sizes", "CUDA API", "OS runtime"
TITLES = {
    "cuda_gpu_kern_sum": KERNELS,
    "gpukernsum": KERNELS,
    "cuda_gpu_mem_time_sum": MEMORY_TIME,
    "gpumemtimesum": MEMORY_TIME,
    "cuda_gpu_mem_size_sum": MEMORY_SIZE,
    "gpumemsizesum": MEMORY_SIZE,
    "cuda_api_sum": API,
    "cudaapisum": API,
    "osrt_sum": OS_RUNTIME,
    "osrtsum": OS_RUNTIME,
}
_COLUMNS = (
    ("share", r"Time ?\(%\)"),
    ("total", r"Total Time \((?P<unit>[num]?s)\)"),
    ("size", r"Total \((?P<unit>[KMG]?i?B)\)"),
    ("calls", r"Instances|Num Calls|Count|Operations"),
    ("mean", r"(?:Avg|Average)(?: \(\w+\))?"),
    ("median", r"(?:Med|Median)(?: \(\w+\))?"),
    ("minimum", r"(?:Min|Minimum)(?: \(\w+\))?"),
    ("maximum", r"(?:Max|Maximum)(?: \(\w+\))?"),
    ("deviation", r"StdDev(?: \(\w+\))?"),
    ("name", r"Name|Operation"),
)
_TITLE = re.compile(r"Executing '(\w+)'|\((\w+sum)\):|/(\w+sum)\.py\b|\[(\w+sum)\]")
_RULE = re.compile(r"\s*-{3,}(?:\s+-{3,}){3,}\s*")
_API_NAME = re.compile(r"cu(?:da)?[A-Z]\w+")
_FEWEST_COLUMNS = 4


@dataclass
class Report:
    """One table of the stream: its subject, its unit, and its rows as text by column."""

    kind: str
    unit: str
    is_text: bool
    rows: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    has_end: bool = False


def find_reports(lines: list[str], title: str) -> tuple[list[Report], dict[str, str]]:
    """Return the reports of a stream, and nsys's messages about skipped reports, by title.

    Parameters
    ----------
    lines
        The lines of the stream.
    title
        The file name, which ends in the report's name if each report has its own file.
    """
    current = next((name for name in TITLES if name in title), "")
    reports: list[Report] = []
    skipped: dict[str, str] = {}
    columns: list[str] = []
    for number, line in enumerate(lines, start=1):
        found = _TITLE.search(line)
        if found and not columns:
            current = next(filter(None, found.groups()))
        elif line.startswith("SKIPPED:"):
            skipped[current] = line.removeprefix("SKIPPED:").strip()
        elif header := _header(line, lines[number] if number < len(lines) else ""):
            columns, unit, is_text = header
            reports.append(Report(_kind(columns, line, current), unit, is_text))
        elif columns and not line.strip():
            reports[-1].has_end = True
            columns, current = [], ""
        elif columns and not _RULE.fullmatch(line):
            _add_row(reports[-1], columns, number, line)
    for report in reports:
        _tell_apart(report)
    return reports, skipped


def _header(line: str, next_line: str) -> tuple[list[str], str, bool] | None:
    """Return the columns ("" for unused ones), the unit, and whether the table is text rather than CSV."""
    is_text = bool(_RULE.fullmatch(next_line))
    cells = re.split(r"\s{2,}", line.strip()) if is_text else [cell.strip() for cell in line.strip('"').split(",")]
    matches = [_column(cell.strip('"')) for cell in cells]
    columns = [name for name, _ in matches]
    unit = next((unit for name, unit in matches if name in {"total", "size"}), "")
    if len(cells) < _FEWEST_COLUMNS or not {"calls", "name"} <= set(columns) or not unit:
        return None
    return columns, unit, is_text


def _column(cell: str) -> tuple[str, str]:
    for name, pattern in _COLUMNS:
        if match := re.fullmatch(pattern, cell):
            return name, match.groupdict().get("unit", "")
    return "", ""


def _kind(columns: list[str], header: str, title: str) -> str:
    """Return the subject of a table: from its columns, or from its title where these are ambiguous."""
    if "" in columns:
        return f"{title or 'an unknown report'} (columns {header.strip()[:80]!r})"
    if "Operation" in header.replace("Operations", ""):
        return MEMORY_SIZE if "size" in columns else MEMORY_TIME
    if "Instances" in header:
        return KERNELS
    return TITLES.get(title, "")


def _tell_apart(report: Report) -> None:
    """Distinguish CUDA API calls from operating system calls: the columns are equal, the function names differ."""
    if not report.kind:
        calls = [bool(_API_NAME.fullmatch(row["name"])) for _, row in report.rows]
        report.kind = API if sum(calls) > len(calls) / 2 else OS_RUNTIME


def _add_row(report: Report, columns: list[str], number: int, line: str) -> None:
    cells = line.split(maxsplit=len(columns) - 1) if report.is_text else split_csv(line)
    if len(cells) != len(columns):
        report.damaged.append(number)
    else:
        report.rows.append((number, dict(zip(columns, (cell.strip() for cell in cells), strict=True))))


def titles(reports: list[Report]) -> Iterator[str]:
    """Yield the subjects of the reports, for messages."""
    for report in reports:
        yield f"{report.kind} ({len(report.rows)} rows)"
