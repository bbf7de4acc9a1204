"""Counters of ``perf stat``, whole runs and intervals: as fields (perf-stat manual, section CSV FORMAT) or as printed.

What is printed for people has fewer digits and no run times: it is read for what others recorded. Our own captures are
fields.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping
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

TOOL = "output of perf stat"
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
PLACE = r"(?:CPU|[SNC])\d+[-\w]*"
PRINTED_BESIDE = {
    "variation": r"\( *\+- *(\d+\.\d+)%",
    "enabled": r"\((\d+\.\d\d)%\)",
    "derived": rf"# *({NUMBER})",
    "derived_unit": rf"# *{NUMBER} *(.*?) *(?:\(|$)",
}
"""Where a printed line has what follows its event."""
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
        Output file of ``perf stat [-x SEPARATOR] [-I ms] [-A | --per-socket ...] [-r n]``.
    separator
        Field separator; detected if it is one of ``, ; | : !``, a tab or a blank.

    Returns
    -------
    Reading
        One row per event, place and interval: time stamp [s since start; NaN without -I], place (CPU or socket; empty
        for all), value in ``unit`` (SI; "" for a count), NaN with a ``reason`` if the event was not supported or not
        counted. ``enabled_ratio`` below 1: the counter was multiplexed and perf scaled the value. Without -x run times
        are NaN.
        The format has no end mark: lines lost after a line end are noticed only with -I.

    Raises
    ------
    ParseError
        If no line has the layout, for example because of decimal commas.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    pattern = _layout(separator) if separator else _find_layout(lines)
    for number, line in enumerate(lines, 1):
        if line.startswith("#"):
            findings.facts["runs"] = int(findings.facts.get("runs") or 0) + line.startswith("# started on")
        elif pattern is None:
            if not _is_beside_the_table(line):
                _add(findings, number, _printed_fields(line))
        elif line.strip(" ,;|:!\t") and not _continues(line):
            match = pattern.fullmatch(line)
            _add(findings, number, match and match.groupdict(""))
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
        rf"(?:(?P<place>{PLACE}){mark}(?:(?P<cpus>\d+){mark})?)?"
        rf"(?P<value>{'|'.join(map(re.escape, MISSING))}|{NUMBER}){mark}(?P<unit>[A-Za-z]*){mark}(?P<event>{event})"
        rf"(?:{mark}(?P<variation>\d+\.\d+)%)?{mark}(?P<run>\d{{1,18}}){mark}(?P<enabled>\d+\.\d\d)"
        rf"(?:{mark}(?P<derived>(?:{NUMBER}|nan|inf)?){mark}(?P<derived_unit>{text}))?",
        re.ASCII,
    )


def _find_layout(lines: list[str]) -> re.Pattern[str] | None:
    """Return the layout of fields that fits most lines; None: what is printed for people."""
    layouts = [_layout(mark) for mark in SEPARATORS]
    fitting = [sum(layout.fullmatch(line) is not None for line in lines) for layout in layouts]
    printed = sum(_printed_fields(line) is not None for line in lines)
    return layouts[fitting.index(max(fitting))] if max(fitting) >= printed else None


def _printed_fields(line: str) -> dict[str, str] | None:
    """Return the fields of a line that is printed for people; None: it is none.

    ``[time] [place [cpus]] value [unit] event [# derived] [( +- variation )] [(enabled)]``
    """
    head = re.sub(r"<not (\w+)>", r"<not_\1>", line).partition("#")[0].partition("(")[0].split()
    fields = dict.fromkeys(("time", "place", "cpus"), "")
    if head and re.fullmatch(r"\d+\.\d{9}", head[0]):
        fields["time"] = head.pop(0)
    if head and re.fullmatch(PLACE, head[0]):
        fields["place"] = head.pop(0)
        fields["cpus"] = head.pop(0) if len(head) > 2 and head[0].isdigit() and _is_printed_number(head[1]) else ""
    if len(head) not in (2, 3) or not _is_printed_number(head[0]) or not re.match(r"[A-Za-z_]", head[-1]):
        return None
    if "." in head[0] and len(head) == 2:
        return None  # a count has no decimals: this one was printed where points group digits
    for name, pattern in PRINTED_BESIDE.items():
        found = re.search(pattern, line)
        fields[name] = found[1] if found else ""
    value = head[0].replace(",", "").replace("_", " ")
    return fields | {"value": value, "unit": head[1] if len(head) == 3 else "", "event": head[-1], "run": ""}


def _is_printed_number(text: str) -> bool:
    number = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d\d)?"
    return re.fullmatch(rf"{number}|<not_(?:counted|supported)>", text, re.ASCII) is not None


def _is_beside_the_table(line: str) -> bool:
    """Detect what is printed around the counters: titles, times of the command, and its own output."""
    begins = re.match(rf" *(?:[\d.,]+ |<not |{PLACE})", line)
    return begins is None or re.search(r" seconds (?:time|user|sys)", line) is not None


def _continues(line: str) -> bool:
    """Detect a line that only adds a derived value to the previous event: it has neither value nor event."""
    return re.match(r"\s*(?:\d+\.\d{9})?([,;|:!\t])\1\1", line) is not None


def _add(findings: Findings, line: int, fields: Mapping[str, str] | None) -> None:
    if fields is None:
        findings.leave_out(line, "no line of perf stat")
        return
    if fields["unit"] not in UNITS:
        findings.leave_out(line, f"unit {fields['unit'][:20]!r} is not known")
        return
    unit, factor = UNITS[fields["unit"]]
    record: dict[str, Any] = {
        "line": line,
        "time_s": to_number(fields["time"]),
        "place": fields["place"],
        "cpus": to_number(fields["cpus"]),
        "event": fields["event"],
        "value": to_number(fields["value"]) * factor,
        "unit": unit,
        "variation_ratio": to_number(fields["variation"]) / 100,
        "run_time_s": to_number(fields["run"]) * 1e-9,
        "enabled_ratio": to_number(fields["enabled"] or "100") / 100,
        "derived": to_number(fields["derived"]),
        "derived_unit": fields["derived_unit"],
        "reason": MISSING.get(fields["value"], ""),
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
    if math.isfinite(record["variation_ratio"]) or enabled < 1 or math.isnan(run_s):
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
