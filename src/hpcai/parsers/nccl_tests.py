"""Tables of nccl-tests, old and new layouts (doc/PERFORMANCE.md and src/util.cu of NVIDIA/nccl-tests)."""

import math
import re
from pathlib import Path
from statistics import fmean, median, mode
from typing import Any

from hpcai.core.messages import Message
from hpcai.parsers.findings import (
    Findings,
    half_unit,
    in_order,
    read_whole_lines,
    to_count,
    to_number,
    without_label,
)
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

NOT_CHECKED = Message("nccl_tests.not_checked", "results were not checked (error column N/A)")
NO_SUMMARY = Message("nccl_tests.no_summary", "the closing summary is missing: the run was aborted or the file was cut")
OUT_OF_BOUNDS = Message(
    "nccl_tests.out_of_bounds", "{values} values out of bounds: the data was wrong, so no row is valid"
)

TOOL = "output of nccl-tests"
ADVICE = "run for example `all_reduce_perf -b 8 -e 4G -f 2` and keep its standard output"
COLUMNS = (
    "bytes", "count", "datatype", "operation", "root", "place", "time_s", "algorithm_bandwidth_bytes_per_s",
    "bus_bandwidth_bytes_per_s", "wrong", "is_valid",
)  # fmt: skip
WIDTHS = {
    "int8": 1, "uint8": 1, "char": 1, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "half": 2, "float16": 2,
    "bfloat16": 2, "float": 4, "float32": 4, "int32": 4, "uint32": 4, "int": 4, "double": 8, "float64": 8, "int64": 8,
    "uint64": 8,
}  # fmt: skip
"""Size of an element [byte]."""
CELLS = r"\d{1,18}(?:\.\d{1,9})?(?:e[+-]?\d{1,2})?"
LARGE = 1.0
"""From 1 GB/s on, printed bandwidths have the three digits needed to distinguish the factors."""


def read_nccl_tests(path: Path) -> Reading:
    """Read one table of nccl-tests: two rows per size, out of place and in place.

    Times are in us, bandwidths in 1e9 byte/s. Rows are omitted unless size = count x element, algorithm bandwidth =
    size / time and bus bandwidth = algorithm bandwidth x factor, each within the printed digits. Collectives that count
    other bytes than their size (hypercube, alltoallv) are therefore not read.

    Rows with wrong elements have ``is_valid`` False and no bandwidth. If the closing summary reports values out of
    bounds, this holds for all rows, because the summary counts failures that no row shows. ``wrong`` is NaN if nothing
    was checked. Facts: ``ranks``, ``factor`` (bus over algorithm bandwidth), ``average_bus_bandwidth_bytes_per_s``.

    Raises
    ------
    ParseError
        If there is no table.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    bare = [without_label(line) for line in lines]
    columns: list[str] = []
    for number, line in enumerate(bare, 1):
        if re.match(r"#\s+size\s+count\s+type\b", line):
            columns = line[1:].split()
        elif columns and re.match(r"\s*\d+\s+\d+\s+[a-z]", line):
            _add(findings, number, line, columns)
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    _find_ranks(findings, bare)
    _check_sizes(findings)
    _check_bus_bandwidth(findings)
    _check_summary(findings, bare)
    return findings.reading(COLUMNS, ADVICE)


def _add(findings: Findings, number: int, line: str, columns: list[str]) -> None:
    times = [place for place, name in enumerate(columns) if name in ("time", "cputime")]
    fields = re.sub(r"\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", "", line.rstrip()).split()
    measured = len([name for name in columns[times[0] :] if name != "timestamp"]) if times else 0
    head, cells = fields[: len(fields) - measured], fields[len(fields) - measured :]
    named = columns[: times[0]] if times else []
    # The operation is blank for collectives that do not reduce (older alltoall); older versions lack the root.
    if len(times) != 2 or len(head) not in (len(named), len(named) - 1):
        findings.leave_out(number, f"{len(fields)} fields do not fit the header")
        return
    size, count = to_count(head[0]), to_count(head[1])
    operation = head[3] if len(head) == len(named) else ""
    root = int(head[-1]) if named[-1] == "root" and re.fullmatch(r"-?\d{1,9}", head[-1]) else math.nan
    shared = {"line": number, "bytes": size, "count": count, "datatype": head[2], "operation": operation, "root": root}
    half = measured // 2
    rows = [_row(shared, place, cells[start : start + 4]) for place, start in (("out", 0), ("in", half))]
    if size is None or count is None or None in rows:
        findings.leave_out(number, "fields that are not numbers")
    elif not all(_fits(row) for row in rows if row):
        findings.leave_out(number, "bandwidth is not size / time")
    else:
        findings.records += [row for row in rows if row]


def _row(shared: dict[str, Any], place: str, cells: list[str]) -> dict[str, Any] | None:
    if not all(re.fullmatch(CELLS, cell) for cell in cells[:3]) or not re.fullmatch(rf"N/A|{CELLS}", cells[3]):
        return None
    wrong = to_number(cells[3])
    return {
        **shared,
        "place": place,
        "time_s": float(cells[0]) * 1e-6,
        "algorithm_bandwidth_bytes_per_s": float(cells[1]) * 1e9,
        "bus_bandwidth_bytes_per_s": float(cells[2]) * 1e9,
        "wrong": wrong,
        "is_valid": not wrong > 0,
        "cells": cells,
    }


def _fits(row: dict[str, Any]) -> bool:
    """Return whether size / time equals the bandwidth within the printed digits."""
    time, bandwidth, _, _ = row["cells"]
    most = (float(time) + half_unit(time)) * (float(bandwidth) + half_unit(bandwidth)) * 1e3
    least = (float(time) - half_unit(time)) * (float(bandwidth) - half_unit(bandwidth)) * 1e3
    return bool(least * 0.9999 <= row["bytes"] <= most * 1.0001)


def _find_ranks(findings: Findings, lines: list[str]) -> None:
    named = [int(match[1]) for line in lines if (match := re.match(r"#\s+Rank\s+(\d{1,9})\b", line))]
    if named and sorted(named) == list(range(len(named))):
        findings.facts["ranks"] = len(named)
    else:
        findings.note("the list of ranks is missing or damaged")
    concluded = [match[1] for line in lines if (match := re.match(r"# Collective test concluded: (\w+)", line))]
    if concluded:
        findings.facts["program"] = concluded[-1]


def _check_sizes(findings: Findings) -> None:
    """Check size = count x element (times the number of ranks for gathering collectives) and increasing sizes."""
    elements = [row["count"] * WIDTHS.get(row["datatype"], 0) for row in findings.records]
    parts = [row["bytes"] / size if size else math.nan for row, size in zip(findings.records, elements, strict=True)]
    known = [part for part in parts if math.isfinite(part)]
    usual = mode(known) if known else math.nan
    good = [part == usual or math.isnan(part) for part in parts]
    findings.keep(good, "size is not count x element")
    zero = [row["count"] == 0 and row["bytes"] > 0 for row in findings.records]
    findings.keep([not is_zero for is_zero in zero], "a size without elements")
    findings.keep(in_order([row["bytes"] for row in findings.records]), "the size decreases")


def _check_bus_bandwidth(findings: Findings) -> None:
    ratios = [
        row["bus_bandwidth_bytes_per_s"] / row["algorithm_bandwidth_bytes_per_s"]
        for row in findings.records
        if row["algorithm_bandwidth_bytes_per_s"] >= LARGE * 1e9
    ]
    if not ratios:
        findings.note("no bandwidth is large enough to check the factor of the collective")
        return
    factor = _nearest_factor(findings, median(ratios))
    findings.facts["factor"] = factor
    good = []
    for row in findings.records:
        _, algorithm, bus, _ = row["cells"]
        slack = half_unit(algorithm) * factor + half_unit(bus)
        good.append(abs(float(algorithm) * factor - float(bus)) <= slack * 1.01)
    findings.keep(good, "bus bandwidth is not algorithm bandwidth x factor")


def _nearest_factor(findings: Findings, measured: float) -> float:
    """Return 2(n-1)/n (allreduce), (n-1)/n (allgather, reduce-scatter, alltoall) or 1 (broadcast, reduce)."""
    ranks = findings.facts.get("ranks")
    if isinstance(ranks, int) and ranks > 0:
        factors = (2 * (ranks - 1) / ranks, (ranks - 1) / ranks, 1.0)
        nearest = min(factors, key=lambda factor: abs(factor - measured))
        if abs(nearest - measured) <= 0.01 * measured:
            return nearest
        findings.note(f"bus / algorithm bandwidth {measured:.4g} belongs to no collective over {ranks} ranks")
    return measured


def _check_summary(findings: Findings, lines: list[str]) -> None:
    bounds = next(
        (m for line in lines if (m := re.match(r"# Out of bounds values\s+: (\d{1,18}) (OK|FAILED)", line))), None
    )
    average = next((m for line in lines if (m := re.match(rf"# Avg bus bandwidth\s+: ({CELLS})\b", line))), None)
    if bounds is None or average is None:
        findings.note(NO_SUMMARY())
    if average and findings.records:
        _check_average(findings, average[1])
    if average and bounds and bounds[2] == "OK":
        findings.facts["average_bus_bandwidth_bytes_per_s"] = float(average[1]) * 1e9
    if bounds and (bounds[2] == "FAILED" or int(bounds[1])):
        findings.note(OUT_OF_BOUNDS(values=bounds[1]))
        for row in findings.records:
            row["is_valid"] = False
    wrong = sorted({row["bytes"] for row in findings.records if row["wrong"] > 0})
    if wrong:
        findings.note(f"wrong elements at {', '.join(map(str, wrong))} bytes: no bandwidth there")
    if findings.records and all(math.isnan(row["wrong"]) for row in findings.records):
        findings.note(NOT_CHECKED())
    for row in findings.records:
        if not row["is_valid"]:
            row["algorithm_bandwidth_bytes_per_s"] = row["bus_bandwidth_bytes_per_s"] = math.nan


def _check_average(findings: Findings, printed: str) -> None:
    if findings.left_out:
        return
    cells = [row["cells"][2] for row in findings.records]
    mean = fmean(float(cell) for cell in cells)
    slack = fmean(half_unit(cell) for cell in cells) + half_unit(printed)
    if abs(mean - float(printed)) > slack:
        findings.note(f"average bus bandwidth {printed} GB/s, but the cells give {mean:.6g}: one of them is damaged")


READER = Reader("nccl-tests", "output of nccl-tests", read_nccl_tests, looks=("output of nccl-tests",))
