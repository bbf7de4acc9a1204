"""Results of HPL: Netlib 2.x, NVIDIA, Intel and rocHPL layouts (HPL 2.3, testing/ptest/HPL_pdtest.c)."""

import math
import re
from pathlib import Path
from typing import Any

from hpcai.core.messages import Message
from hpcai.parsers.findings import NUMBER, Findings, half_unit, read_whole_lines, to_number, without_label
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading, nothing_read

ABORTED = Message("hpl.aborted", "aborted: no closing summary, tests may be missing")
NO_RESIDUAL = Message("hpl.no_residual", "a row has no residual, so it is not a score")
OTHER_COUNT = Message("hpl.other_count", "the closing summary counts {tests} tests, but there are {rows} rows")
LOST_RESIDUAL = Message("hpl.lost_residual", "a residual without its row of results")
OTHER_SHARE = Message("hpl.other_share", "{rate} Gflops is not {share} of each of the {processes} processes")
LONG_PART = Message("hpl.long_part", "a part takes {part_s:g} s, the whole {time_s:g} s: the parts are not used")

TOOL = "output of HPL"
ADVICE = "keep the standard output of xhpl until its `End of Tests.`"
COLUMNS = (
    "variant", "mapping", "depth", "broadcast", "recursive_factorisation", "divisions", "panel_factorisation",
    "smallest_panel", "order", "block", "process_rows", "process_columns", "time_s", "rate_flop_per_s", "residual",
    "threshold", "verdict", "panel_time_s", "update_time_s", "exchange_time_s", "substitution_time_s",
)  # fmt: skip
ROW = re.compile(
    r"W(?P<mapping>[RC])(?P<depth>\d)(?:(?P<broadcast>[0-9A-Z])(?P<recursive>[LCR])(?P<divisions>\d{1,9})"
    r"(?P<panel>[LCR])(?P<smallest>\d{1,9}))?"
    r"\s+(?P<N>\d{1,12})\s+(?P<NB>\d{1,9})\s+(?P<P>\d{1,9})\s+(?P<Q>\d{1,9})"
    rf"\s+(?P<time>\d+\.\d+)\s+(?P<rate>{NUMBER})(?:\s+\(\s*(?P<share>{NUMBER})\s*\))?\s*",
    re.ASCII,
)
"""NVIDIA's HPL of 2023 and later names mapping and depth alone (WC0), and adds the rate per GPU in parentheses."""
RESIDUAL = re.compile(rf"\|\|Ax-b\|\|_oo\s*/\s*\(.*=\s*({NUMBER}|[-+]?nan|[-+]?inf)\s*\.{{6}}\s*(PASSED|FAILED)\s*")
TIMER = re.compile(r"(?P<name>(?:\+ )*Max aggregated wall time [a-z ]+?)[ .]*:\s+(?P<time>\d{1,9}\.\d\d)\s*", re.ASCII)
TIMERS = {
    "Max aggregated wall time rfact": "panel_time_s",
    "Max aggregated wall time update": "update_time_s",
    "+ Max aggregated wall time laswp": "exchange_time_s",
    "Max aggregated wall time up tr sv": "substitution_time_s",
}
"""Netlib's own timers, with HPL_DETAILED_TIMING; + marks a part of the one before. rocHPL nests its parts otherwise."""
ALLOWANCE = 0.001
"""Slack of the rate beyond the printed digits of time and rate: the time is rounded before it is printed."""


def operations(order: int) -> float:
    """Return the operations that HPL credits [FLOP]: 2/3 N^3 + 3/2 N^2 (HPL_pdtest.c)."""
    return 2.0 / 3.0 * order**3 + 1.5 * order**2


def read_hpl(path: Path) -> Reading:
    """Read the results of HPL, one row per test.

    ``verdict`` is ``passed``, ``failed`` or ``unchecked``, taken from the residual lines after the row; only passed
    rows are scores. The printed rate is kept, never recomputed. Parts of the time (``panel_time_s`` and others; row
    exchanges belong to the update) are those of the process that has most of each, NaN unless HPL was compiled with
    ``HPL_DETAILED_TIMING``. NVIDIA's short labels (``WC0``) leave the columns of the algorithm blank. A row is omitted
    if its rate is not (2/3 N^3 + 3/2 N^2) / time within the printed digits (0.3 % and better from 1.7 s on), or not the
    rate of a process, where that is printed, times their number; if its parameters were not announced, or if its
    verdict contradicts residual and threshold. Progress lines (Prog=, Column=) are not results.
    Facts: ``finished`` (number of tests in the closing summary), ``threshold``.

    Raises
    ------
    ParseError
        If no test finished, or if the output is from HPL-MxP.
    """
    findings = Findings(path, TOOL)
    lines, _ = read_whole_lines(path, TOOL)
    bare = [without_label(line) for line in lines]
    if any(re.match(r"HPL-(MxP|AI)", line) for line in bare):
        raise nothing_read(
            path, TOOL, "output of HPL-MxP", "its mixed-precision rates are not HPL scores: read it as HPL-MxP"
        )
    parameters = _read_parameters(bare)
    threshold = _read_threshold(bare)
    row_of_test = False
    for number, line in enumerate(bare, 1):
        if re.match(r"T/V\s", line):
            row_of_test = False
        elif re.fullmatch(r"W\S+(\s+\S+){6}(\s+\(.*)?\s*", line):
            _add(findings, number, ROW.fullmatch(line), parameters)
            row_of_test = True
        elif row_of_test and (timer := TIMER.fullmatch(line)):
            findings.records[-1]["timers"][timer["name"]] = float(timer["time"])
        elif line.startswith("||Ax-b||_oo") and "...." in line:
            if row_of_test:
                _add_residual(findings, RESIDUAL.fullmatch(line))
            else:
                findings.leave_out(number, LOST_RESIDUAL())
    _judge(findings, threshold)
    _check_summary(findings, bare, threshold)
    return findings.reading(COLUMNS, ADVICE)


def _read_parameters(lines: list[str]) -> dict[str, set[int]]:
    """Return the announced values of N, NB, P and Q; long lists continue on the next lines."""
    found: dict[str, set[int]] = {}
    name = ""
    for line in lines:
        match = re.fullmatch(r"(N|NB|P|Q)\s+:((?:\s+\d{1,12})+)\s*", line)
        more = re.fullmatch(r"\s{8,}(\d{1,12}(?:\s+\d{1,12})*)\s*", line)
        if match:
            name = match[1]
            found.setdefault(name, set()).update(map(int, match[2].split()))
        elif name and more:
            found[name].update(map(int, more[1].split()))
        else:
            name = ""
    return found


def _read_threshold(lines: list[str]) -> float:
    texts = (re.fullmatch(rf"- Computational tests pass if .* less than\s+({NUMBER})\s*", line) for line in lines)
    return next((to_number(match[1]) for match in texts if match), math.nan)


def _add(findings: Findings, number: int, match: re.Match[str] | None, parameters: dict[str, set[int]]) -> None:
    why = ""
    if match is None:
        why = "no row of results"
    elif any(int(match[name]) not in parameters.get(name, {int(match[name])}) for name in ("N", "NB", "P", "Q")):
        why = "N, NB, P or Q was not announced"
    elif not _fits(int(match["N"]), match["time"], match["rate"]):
        why = f"{match['rate']} Gflops is not (2/3 N^3 + 3/2 N^2) / {match['time']} s"
    elif match["share"] and not _shares(match["rate"], match["share"], int(match["P"]) * int(match["Q"])):
        why = OTHER_SHARE(rate=match["rate"], share=match["share"], processes=int(match["P"]) * int(match["Q"]))
    row: dict[str, Any] = {"line": number, "why": why, "residuals": [], "verdicts": [], "timers": {}}
    findings.records.append(row if match is None else row | _values(match))


def _values(match: re.Match[str]) -> dict[str, Any]:
    """Return the columns of a row; a short label leaves its algorithm blank."""
    return {
        "variant": match[0].split()[0],
        "mapping": {"R": "row", "C": "column"}[match["mapping"]],
        "depth": int(match["depth"]),
        "broadcast": match["broadcast"] or "",
        "recursive_factorisation": match["recursive"] or "",
        "divisions": _count(match["divisions"]),
        "panel_factorisation": match["panel"] or "",
        "smallest_panel": _count(match["smallest"]),
        "order": int(match["N"]),
        "block": int(match["NB"]),
        "process_rows": int(match["P"]),
        "process_columns": int(match["Q"]),
        "time_s": float(match["time"]),
        "rate_flop_per_s": to_number(match["rate"]) * 1e9,
    }


def _count(digits: str | None) -> float:
    return math.nan if digits is None else int(digits)


def _shares(rate: str, share: str, processes: int) -> bool:
    """Return whether the rate is that of a process times their number, within the printed digits of both."""
    slack = half_unit(rate) + processes * half_unit(share)
    return abs(float(rate) - processes * float(share)) <= slack * (1 + ALLOWANCE)


def _fits(order: int, time: str, rate: str) -> bool:
    """Return whether rate x time matches the operation count; a time of 0.00 only bounds the rate from below."""
    most = (float(time) + half_unit(time)) * (float(rate) + half_unit(rate)) * 1e9
    least = (float(time) - half_unit(time)) * (float(rate) - half_unit(rate)) * 1e9
    return least * (1 - ALLOWANCE) <= operations(order) <= most * (1 + ALLOWANCE)


def _add_residual(findings: Findings, match: re.Match[str] | None) -> None:
    if match is None:
        findings.records[-1]["why"] = findings.records[-1]["why"] or "its residual line is damaged"
    else:
        findings.records[-1]["residuals"].append(to_number(match[1]))
        findings.records[-1]["verdicts"].append(match[2])


def _judge(findings: Findings, threshold: float) -> None:
    for row in findings.records:
        passed = [verdict == "PASSED" for verdict in row["verdicts"]]
        row["verdict"] = "unchecked" if not passed else "passed" if all(passed) else "failed"
        # HPL 1.x prints three residuals; the largest decides. NaN never passes.
        residuals = row["residuals"]
        row["residual"] = math.nan if not residuals or any(map(math.isnan, residuals)) else max(residuals)
        row["threshold"] = threshold
        row.update(_part_times(findings, row["timers"], row.get("time_s", math.nan)))
        if not row["why"] and passed and _contradicts(all(passed), row["residual"], threshold):
            row["why"] = "its verdict contradicts residual and threshold"
    for row in findings.records:
        if row["why"]:
            findings.leave_out(row["line"], row["why"])
    findings.records = [row for row in findings.records if not row["why"]]


def _part_times(findings: Findings, timers: dict[str, float], time_s: float) -> dict[str, float]:
    """Return the parts of a test's time [s]; none unless all are there, as Netlib's HPL prints them."""
    if not TIMERS.keys() <= timers.keys():
        return {}
    parts = {column: timers[name] for name, column in TIMERS.items()}
    if (longest_s := max(parts.values())) > time_s + 0.01:
        findings.note(LONG_PART(part_s=longest_s, time_s=time_s))
        return {}
    return parts


def _contradicts(passed: bool, residual: float, threshold: float) -> bool:
    """Compare with the threshold, which is printed to one decimal."""
    if math.isnan(threshold):
        return False
    if math.isnan(residual):
        return passed
    return residual > threshold + 0.05 if passed else residual < threshold - 0.05


def _check_summary(findings: Findings, lines: list[str], threshold: float) -> None:
    if not any(line.startswith("End of Tests.") for line in lines):
        findings.note(ABORTED())
    elif not any(re.match(r"Finished\s+\d+ test", line) for line in lines):
        findings.note("the closing summary is damaged")
    if math.isnan(threshold) and any(row["verdict"] != "unchecked" for row in findings.records):
        findings.note("no threshold of the residual is announced")
    counts = {
        name: sum(int(match[1]) for line in lines if (match := re.fullmatch(rf"\s*{pattern}\s*", line)))
        for name, pattern in (
            ("finished", r"Finished\s+(\d{1,9}) tests? with the following results:"),
            ("passed", r"(\d{1,9}) tests? completed and passed residual checks,"),
            ("failed", r"(\d{1,9}) tests? completed and failed residual checks,"),
            ("unchecked", r"(\d{1,9}) tests? completed without checking,"),
            ("skipped", r"(\d{1,9}) tests? skipped because of illegal input values\."),
        )
    }
    rows = len(findings.records) + len(findings.left_out)
    findings.facts |= {"finished": counts["finished"], "threshold": None if math.isnan(threshold) else threshold}
    if counts["finished"] and counts["finished"] - counts["skipped"] != rows:
        findings.note(OTHER_COUNT(tests=counts["finished"], rows=rows))
    verdicts = [row["verdict"] for row in findings.records]
    if counts["finished"] and not findings.left_out:
        for verdict in ("passed", "failed", "unchecked"):
            if verdicts.count(verdict) != counts[verdict]:
                findings.note(
                    f"the closing summary counts {counts[verdict]} {verdict}, rows: {verdicts.count(verdict)}"
                )
    elif not counts["unchecked"] and "unchecked" in verdicts:
        findings.note(NO_RESIDUAL())


READER = Reader("hpl", "output of HPL", read_hpl, looks=("output of HPL",))
