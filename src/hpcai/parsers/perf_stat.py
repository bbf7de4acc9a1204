"""Counters of ``perf stat -x SEPARATOR``, whole runs and intervals (perf-stat manual, section CSV FORMAT)."""

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any

from hpcai.core.messages import Message
from hpcai.parsers.findings import NUMBER, Findings, in_order, read_whole_lines, to_number
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

SHARED = Message(
    "perf_stat.shared", "{events}: counters were multiplexed, values are extrapolated from a part of the time"
)
OTHER_RATE = Message("perf_stat.other_rate", "{value:g} in {run_s:g} s is not {rate:g}")

TOOL = "output of perf stat -x"
COLUMNS = (
    "time_s", "place", "cpus", "event", "value", "unit", "variation_ratio", "run_time_s", "enabled_ratio",
    "derived", "derived_unit", "reason",
)  # fmt: skip
SEPARATORS = (",", ";", "\t", "|", ":", "!", " ")
UNITS = {
    "": ("", 1.0), "msec": ("s", 1e-3), "usec": ("s", 1e-6), "nsec": ("s", 1e-9), "ns": ("s", 1e-9), "sec": ("s", 1.0),
    "Joules": ("J", 1.0), "Watts": ("W", 1.0), "Bytes": ("byte", 1.0), "KiB": ("byte", 2.0**10),
    "MiB": ("byte", 2.0**20), "GiB": ("byte", 2.0**30),
}  # fmt: skip
"""Units with their SI units and factors; "" is a count. A line with another unit is omitted."""
RATES = {"/sec": 1.0, "K/sec": 1e3, "M/sec": 1e6, "G/sec": 1e9}
SHORTEST_COMPARED_S = 0.01
"""Shortest run whose rates are checked [s]: events are switched on microseconds apart, which distorts shorter ones."""
MISSING = {"<not supported>": "not supported by this machine", "<not counted>": "not counted: the task did not run"}
ADVICE = "run `perf stat -x ';' -o FILE` under LC_ALL=C (decimal commas are not read), or name the separator"


def read_perf_stat(path: Path, separator: str | None = None) -> Reading:
    """Read the counters of one run.

    Parameters
    ----------
    path
        Output file of ``perf stat -x SEPARATOR [-I ms] [-A | --per-socket ...] [-r n]``.
    separator
        Field separator; detected if it is one of ``, ; | : !``, a tab or a blank.

    Returns
    -------
    Reading
        One row per event, place and interval: time stamp [s since start; NaN without -I], place (CPU or socket; empty
        for all), value in ``unit`` (SI; "" for a count), NaN with a ``reason`` if the event was not supported or not
        counted. ``enabled_ratio`` below 1: the counter was multiplexed and perf scaled the value.
        The format has no end mark: lines lost after a line end are noticed only with -I.

    Raises
    ------
    ParseError
        If no line has the layout, for example because of decimal commas.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    pattern = _layout(separator or _find_separator(lines))
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            findings.facts["runs"] = int(findings.facts.get("runs") or 0) + line.startswith("# started on")
        elif line.strip(" ,;|:!\t") and not _continues(line):
            _add(findings, number, pattern.fullmatch(line))
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    _check_intervals(findings)
    _explain(findings)
    return findings.reading(COLUMNS, ADVICE)


def _layout(separator: str) -> re.Pattern[str]:
    mark = re.escape(separator)
    text = rf"[^{mark}\x00-\x08\x0e-\x1f]*"
    event = rf"[A-Za-z_][\w-]*/[^/]*/[\w:]*|[A-Za-z]{text}"
    return re.compile(
        rf"(?:\s*(?P<time>\d+\.\d{{9}}){mark})?"
        rf"(?:(?P<place>(?:CPU|[SNC])\d+[-\w]*){mark}(?:(?P<cpus>\d+){mark})?)?"
        rf"(?P<value>{'|'.join(map(re.escape, MISSING))}|{NUMBER}){mark}(?P<unit>[A-Za-z]*){mark}(?P<event>{event})"
        rf"(?:{mark}(?P<variation>\d+\.\d+)%)?{mark}(?P<run>\d{{1,18}}){mark}(?P<enabled>\d+\.\d\d)"
        rf"(?:{mark}(?P<derived>(?:{NUMBER}|nan|inf)?){mark}(?P<derived_unit>{text}))?",
        re.ASCII,
    )


def _find_separator(lines: list[str]) -> str:
    layouts = {mark: _layout(mark) for mark in SEPARATORS}
    fitting = {mark: sum(layout.fullmatch(line) is not None for line in lines) for mark, layout in layouts.items()}
    return max(fitting, key=lambda mark: fitting[mark])


def _continues(line: str) -> bool:
    """Detect a line that only adds a derived value to the previous event: it has neither value nor event."""
    return re.match(r"\s*(?:\d+\.\d{9})?([,;|:!\t])\1\1", line) is not None


def _add(findings: Findings, line: int, match: re.Match[str] | None) -> None:
    if match is None:
        findings.leave_out(line, "no line of perf stat")
        return
    if match["unit"] not in UNITS:
        findings.leave_out(line, f"unit {match['unit'][:20]!r} is not known")
        return
    unit, factor = UNITS[match["unit"]]
    record: dict[str, Any] = {
        "line": line,
        "time_s": to_number(match["time"] or ""),
        "place": match["place"] or "",
        "cpus": to_number(match["cpus"] or ""),
        "event": match["event"],
        "value": to_number(match["value"]) * factor,
        "unit": unit,
        "variation_ratio": to_number(match["variation"] or "") / 100,
        "run_time_s": int(match["run"]) * 1e-9,
        "enabled_ratio": float(match["enabled"]) / 100,
        "derived": to_number(match["derived"] or ""),
        "derived_unit": match["derived_unit"] or "",
        "reason": MISSING.get(match["value"], ""),
    }
    contradiction = _contradiction(record)
    if contradiction:
        findings.leave_out(line, contradiction)
    else:
        findings.records.append(record)


def _contradiction(record: dict[str, Any]) -> str:
    value, run_s, enabled, derived = (record[key] for key in ("value", "run_time_s", "enabled_ratio", "derived"))
    if enabled > 1 or (value < 0):
        return "more than 100 % enabled, or a negative count"
    if record["reason"]:
        return "a run time without a count" if run_s > 0 and record["reason"] != MISSING["<not counted>"] else ""
    if math.isfinite(record["variation_ratio"]) or enabled < 1:
        return ""
    if record["event"].endswith("-clock") and record["unit"] == "s":
        return "" if abs(value - run_s) <= 1e-5 + 1e-3 * run_s else f"{value:g} s of clock in {run_s:g} s of run time"
    scale = RATES.get(record["derived_unit"])
    if scale is None or record["unit"] or run_s < SHORTEST_COMPARED_S or not math.isfinite(derived):
        return ""
    rate = value / run_s / scale
    return "" if abs(rate - derived) <= 0.02 * rate + 0.001 else OTHER_RATE(value=value, run_s=run_s, rate=derived)


def _check_intervals(findings: Findings) -> None:
    """Omit intervals that lack events: a time stamp was changed, or lines are missing."""
    if all(math.isnan(record["time_s"]) for record in findings.records):
        return
    findings.keep([math.isfinite(r["time_s"]) for r in findings.records], "no time stamp as in other lines")
    findings.keep(in_order([r["time_s"] for r in findings.records]), "the time stamp decreases")
    sizes = Counter(record["time_s"] for record in findings.records)
    whole = Counter(sizes.values()).most_common(1)[0][0]
    findings.keep([sizes[r["time_s"]] == whole for r in findings.records], "its interval has not all events")
    findings.facts["intervals"] = sum(size == whole for size in sizes.values())


def _explain(findings: Findings) -> None:
    for reason in MISSING.values():
        events = sorted({record["event"] for record in findings.records if record["reason"] == reason})
        if events:
            findings.note(f"{', '.join(events)}: {reason}")
    shared = sorted({r["event"] for r in findings.records if r["enabled_ratio"] < 1})
    if shared:
        findings.note(SHARED(events=", ".join(shared)))
    if int(findings.facts.get("runs") or 0) > 1:
        findings.note(f"{findings.facts['runs']} runs in one file: do not add them up")


READER = Reader("perf-stat", "output of `perf stat`", read_perf_stat, looks=("output of perf stat",))
