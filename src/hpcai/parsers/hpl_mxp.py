"""Results of HPL-MxP (HPL-AI) in the layout of NVIDIA's benchmark."""

import math
import re
from pathlib import Path
from typing import Any

from hpcai.parsers.findings import NUMBER, Findings, half_unit, read_whole_lines, to_number, without_label
from hpcai.parsers.hpl import operations
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

TOOL = "output of NVIDIA HPL-MxP"
ADVICE = "keep the standard output of xhpl-mxp until `test ... done`"
COLUMNS = (
    "order", "block", "process_rows", "process_columns", "precision", "time_s", "factorisation_time_s",
    "refinement_time_s", "rate_flop_per_s", "rate_per_process_flop_per_s", "factorisation_rate_flop_per_s", "residual",
    "threshold", "verdict",
)  # fmt: skip
PATTERNS = {
    "factorisation_time": rf"LU seconds: AVG = ({NUMBER}), .*",
    "refinement_time": rf"Iterative Solver seconds: AVG = ({NUMBER}), .*",
    "threshold": rf"\s*Threshold [ .]*=\s*({NUMBER})\s*",
    "residual": rf"\s*\|\|Ax-b\|\|_oo / \(.*=\s*({NUMBER}|[-+]?nan|[-+]?inf) \.{{6}} (PASSED|FAILED)\s*",
    "size": r"\s*N = (\d{1,12}), NB = (\d{1,9}), NPROW = (\d{1,9}), NPCOL = (\d{1,9})(?:, SLOPPY-TYPE = (\w+))?\s*",
    "rate": rf"\s*GFLOPS = ({NUMBER}), per GPU =\s*({NUMBER})\b.*",
    "factorisation_rate": rf"\s*LU GFLOPS = ({NUMBER}), per GPU =\s*({NUMBER})\b.*",
}
ALLOWANCE = 0.003


def read_hpl_mxp(path: Path) -> Reading:
    """Read the results of HPL-MxP, one row per test loop.

    The score is (2/3 N^3 + 3/2 N^2) over the time of factorisation and refinement, whatever precision did the work; the
    rate of the factorisation alone is not a score. A row is omitted if rate, time and rate per process contradict each
    other. Progress lines (TF=) are not results.

    Raises
    ------
    ParseError
        If no test loop finished.
    """
    findings = Findings(path, TOOL)
    lines, _ = read_whole_lines(path, TOOL)
    announced = _read_parameters(lines)
    parts: dict[str, re.Match[str]] = {}
    for number, line in enumerate(map(without_label, lines), 1):
        if "test loop" in line and "starts" in line:
            _close(findings, number, parts, announced)
            parts = {}
        for name, pattern in PATTERNS.items():
            if match := re.fullmatch(pattern, line):
                parts[name] = match
    _close(findings, len(lines), parts, announced)
    done = [match for line in lines if (match := re.search(r"\btest (\d+) of (\d+) done\b", line))]
    if not done or done[-1][1] != done[-1][2]:
        findings.note("aborted: not all tests are done")
    return findings.reading(COLUMNS, ADVICE)


def _read_parameters(lines: list[str]) -> dict[str, set[int]]:
    """Return the announced values of order, block size and process grid."""
    found: dict[str, set[int]] = {}
    for line in lines:
        if match := re.fullmatch(r"\s*(n|nb|nprow|npcol)\s+=\s+(\d{1,12})\s*", line):
            found.setdefault(match[1], set()).add(int(match[2]))
    return found


def _close(findings: Findings, number: int, parts: dict[str, re.Match[str]], announced: dict[str, set[int]]) -> None:
    if not parts:
        return
    missing = [name.replace("_", " ") for name in PATTERNS if name not in parts]
    if missing:
        findings.leave_out(number, f"a result without {', '.join(missing)}")
        return
    row = _row(parts)
    names = {"n": "order", "nb": "block", "nprow": "process_rows", "npcol": "process_columns"}
    known = all(row[column] in announced.get(name, {row[column]}) for name, column in names.items())
    why = _contradiction(row, parts) if known else "N, NB, NPROW or NPCOL was not announced"
    if why:
        findings.leave_out(number, why)
    else:
        findings.records.append(row)


def _row(parts: dict[str, re.Match[str]]) -> dict[str, Any]:
    order, block, rows, columns = (int(parts["size"][place]) for place in (1, 2, 3, 4))
    factorisation_s, refinement_s = (float(parts[name][1]) for name in ("factorisation_time", "refinement_time"))
    return {
        "order": order,
        "block": block,
        "process_rows": rows,
        "process_columns": columns,
        "precision": parts["size"][5] or "",
        "time_s": factorisation_s + refinement_s,
        "factorisation_time_s": factorisation_s,
        "refinement_time_s": refinement_s,
        "rate_flop_per_s": float(parts["rate"][1]) * 1e9,
        "rate_per_process_flop_per_s": float(parts["rate"][2]) * 1e9,
        "factorisation_rate_flop_per_s": float(parts["factorisation_rate"][1]) * 1e9,
        "residual": to_number(parts["residual"][1]),
        "threshold": to_number(parts["threshold"][1]),
        "verdict": parts["residual"][2].lower(),
    }


def _contradiction(row: dict[str, Any], parts: dict[str, re.Match[str]]) -> str:
    work = operations(row["order"])
    processes = row["process_rows"] * row["process_columns"]
    if not (work > 0 and processes > 0 and row["rate_flop_per_s"] > 0):
        return "no work or no rate"
    if row["rate_flop_per_s"] > row["factorisation_rate_flop_per_s"]:
        return "the rate to report is above the rate of the factorisation"
    for rate, time, digits in (
        ("rate", "time_s", half_unit(parts["factorisation_time"][1]) + half_unit(parts["refinement_time"][1])),
        ("factorisation_rate", "factorisation_time_s", half_unit(parts["factorisation_time"][1])),
    ):
        slack = ALLOWANCE + digits / row[time] if row[time] > 0 else math.inf
        if abs(row[f"{rate}_flop_per_s"] * row[time] / work - 1) > slack:
            return f"{rate.replace('_', ' ')} is not (2/3 N^3 + 3/2 N^2) / time"
        shares = float(parts[rate][2]) * processes * 1e9
        if abs(shares / row[f"{rate}_flop_per_s"] - 1) > ALLOWANCE / 10:
            return f"{rate.replace('_', ' ')} is not that per GPU x {processes}"
    passes = not math.isnan(row["residual"]) and row["residual"] < row["threshold"]
    return "" if passes == (row["verdict"] == "passed") else "its verdict contradicts residual and threshold"


READER = Reader("hpl-mxp", "output of HPL-MxP", read_hpl_mxp, looks=("output of HPL-MxP",))
