"""Tables of the OSU Micro-Benchmarks: latency, bandwidth and collectives (OMB 5 to 7, README of the suite)."""

import math
import re
from pathlib import Path
from typing import Any

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, in_order, read_whole_lines, to_count, to_number, without_label
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

AVERAGE_OUTSIDE = Message("osu.average_outside", "the average is not between minimum and maximum")

TOOL = "output of OSU Micro-Benchmarks"
ADVICE = "run for example `mpirun -n 2 osu_allreduce -f` and keep its standard output"
COLUMNS = (
    "bytes", "latency_s", "latency_min_s", "latency_max_s", "iterations", "bandwidth_bytes_per_s", "is_valid",
)  # fmt: skip
NAMES = (
    (r"Size", "bytes", 1.0),
    (r"Min Lat(ency)? ?\(us\)", "latency_min_s", 1e-6),
    (r"Max Lat(ency)? ?\(us\)", "latency_max_s", 1e-6),
    (r"(Avg )?Lat(ency)? ?\(us\)", "latency_s", 1e-6),
    (r"(Bandwidth \(MB/s\)|MB/s)", "bandwidth_bytes_per_s", 1e6),
    (r"Iterations", "iterations", 1.0),
    (r"Validation", "validation", 1.0),
)
"""Headers, columns and factors to SI; other columns (percentiles, messages per second) are skipped."""


def read_osu(path: Path) -> Reading:
    """Read the table of one OSU benchmark.

    Sizes are bytes per rank; NaN where the benchmark prints no such column. ``is_valid`` is False for rows that failed
    the benchmark's own validation; OMB stops there. The format has no end mark, so lines lost after a line end go
    unnoticed. Facts: ``title`` (benchmark and version), ``datatype``.

    Raises
    ------
    ParseError
        If there is no table.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    header: list[str] = []
    for number, line in enumerate(map(without_label, lines), 1):
        if re.match(r"#\s*Size\b", line):
            header = re.split(r"\s{2,}", line[1:].strip())
        elif match := re.match(r"# (OSU MPI.*\S)|# Datatype: (\w+)", line):
            findings.facts["title" if match[1] else "datatype"] = match[1] or match[2]
        elif "DATA VALIDATION ERROR" in line:
            findings.note(f"the benchmark stopped: {line.strip()[:120]}")
        elif header and re.match(r"\s*(\d|\S+\s+[\d.]+(\s|$))", line):
            _add(findings, number, line.split(), header)
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    if "title" not in findings.facts:
        findings.note("no title of a benchmark")
    _check_sizes(findings)
    invalid = [row["bytes"] for row in findings.records if not row["is_valid"]]
    if invalid:
        findings.note(f"results failed validation at {', '.join(map(str, invalid))} bytes")
    return findings.reading(COLUMNS, ADVICE)


def _add(findings: Findings, number: int, fields: list[str], header: list[str]) -> None:
    if len(fields) != len(header):
        findings.leave_out(number, f"{len(fields)} fields under {len(header)} headers")
        return
    row: dict[str, Any] = {"line": number, "is_valid": True, "bytes": None, **dict.fromkeys(COLUMNS[1:-1], math.nan)}
    for title, text in zip(header, fields, strict=True):
        column, factor = next(((name, by) for like, name, by in NAMES if re.fullmatch(like, title)), ("", 1.0))
        if column == "validation":
            row["is_valid"] = {"Pass": True, "Fail": False}.get(text)
        elif column in ("bytes", "iterations"):
            row[column] = to_count(text)
        elif column:
            row[column] = to_number(text) * factor
            if math.isnan(row[column]):
                row[column] = None
    if None in row.values() or math.isnan(row["latency_s"]) == math.isnan(row["bandwidth_bytes_per_s"]):
        findings.leave_out(number, "fields that are not numbers")
    elif row["latency_min_s"] > row["latency_s"] or row["latency_s"] > row["latency_max_s"]:
        findings.leave_out(number, AVERAGE_OUTSIDE())
    else:
        findings.records.append(row)


def _check_sizes(findings: Findings) -> None:
    """Check that sizes grow; if nearly all are powers of two, any other is damage."""
    findings.keep(in_order([row["bytes"] for row in findings.records]), "the size decreases")
    powers = [row["bytes"] & (row["bytes"] - 1) == 0 for row in findings.records]
    if sum(powers) >= 0.75 * len(powers):
        findings.keep(powers, "the size is not a power of two, unlike the others")
    sizes = [row["bytes"] for row in findings.records]
    findings.keep([size not in sizes[:place] for place, size in enumerate(sizes)], "a size that came before")


READER = Reader("osu", "output of OSU Micro-Benchmarks", read_osu, looks=("output of OSU Micro-Benchmarks",))
