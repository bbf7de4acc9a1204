"""Tables of ``likwid-perfctr -O`` (LIKWID 4 and 5, likwid.lua, printOutput)."""

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, read_whole_lines, to_number
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

NO_METRICS = Message("likwid.no_metrics", "group {group} {name}: no table of metrics, the file was cut")
NO_STATISTICS = Message("likwid.no_statistics", "{table}: no table of statistics, the file was cut or damaged")
ROWS_MISSING = Message("likwid.rows_missing", "{table}: {rows} of {expected} rows")

TOOL = "output of likwid-perfctr -O"
ADVICE = "run `likwid-perfctr -O -o FILE.csv -g GROUP ...`"
COLUMNS = ("region", "group", "group_name", "kind", "name", "counter", "place", "value", "unit")
CONTRADICTED = Message("likwid.contradicted", "{name}: the statistics contradict the threads")
TITLE = re.compile(
    r"TABLE,(?:Region (?P<region>.*),)?Group (?P<group>\d{1,9}) (?P<kind>Raw|Metric)(?P<stat> STAT)?,"
    r"(?P<name>[^,]*),(?P<rows>\d{1,9}),*"
)
UNIT = re.compile(r"(?P<name>.*\S)\s*\[(?P<unit>[^\]]+)\]")
PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
UNITS = (
    (r"(?P<prefix>[kKMGT]?)B(?:ytes?)?/s", "byte/s"),
    (r"(?P<prefix>[kKMGT]?)B(?:ytes?)?", "byte"),
    (r"(?P<prefix>[kKMGT]?)FLOPS?/s", "FLOP/s"),
    (r"(?P<prefix>[kKMGT]?)U?OPS/s", "1/s"),
    (r"(?P<prefix>[kKMGT]?)Hz", "1/s"),
    (r"s", "s"), (r"J", "J"), (r"W", "W"), (r"V", "V"), (r"C", "C"), (r"Cyc|[Cc]ycles?", "cycle"),
    (r"FLOPS?/Byte", "FLOP/byte"),
)  # fmt: skip
"""Units inside metric names and their SI text; a row with another unit is omitted: its unit may be damaged."""


@dataclass
class _Table:
    title: re.Match[str]
    line: int
    header: list[str] = field(default_factory=list)
    rows: list[tuple[int, list[str]]] = field(default_factory=list)

    @property
    def expected(self) -> int:
        return int(self.title["rows"])

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.title["region"] or "", self.title["group"], self.title["kind"])


def read_likwid(path: Path) -> Reading:
    """Read raw events and derived metrics per hardware thread.

    Values have SI units (``unit``; "" for a count or a plain ratio). Rows whose sum, minimum or maximum differs from
    the STAT table are omitted. A reason reports a table shorter than announced, and a required table that is missing
    (STAT for several threads, metrics for a performance group).

    Raises
    ------
    ParseError
        If there is no table.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    tables = _split(findings, lines)
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    statistics = {table.key: table for table in tables if table.title["stat"]}
    values = [table for table in tables if not table.title["stat"]]
    for table in values:
        _add(findings, table, statistics.get(table.key))
    kinds = {table.key for table in values}
    for table in values:
        region, group, kind = table.key
        timed = any(row[0].startswith("Runtime (RDTSC)") for _, row in table.rows)
        if kind == "Raw" and not timed and (region, group, "Metric") not in kinds:
            findings.note(NO_METRICS(group=group, name=table.title["name"]))
    return findings.reading(COLUMNS, ADVICE)


def _split(findings: Findings, lines: list[str]) -> list[_Table]:
    tables: list[_Table] = []
    open_table: _Table | None = None
    for number, line in enumerate(lines, 1):
        fields = line.split(",")
        if title := TITLE.fullmatch(line):
            open_table = _Table(title, number)
            tables.append(open_table)
        elif line.startswith("TABLE,") or (open_table and open_table.header and fields[0] in ("Event", "Metric")):
            findings.leave_out(number, "a damaged or missing title of a table")
            open_table = None
        elif fields[0] in ("CPU name:", "CPU type:"):
            findings.facts[fields[0].rstrip(":").lower().replace(" ", "_")] = fields[1].strip()
        elif fields[0] in ("Event", "Metric") and open_table:
            open_table.header = _without_padding(fields)
        elif fields[0] in ("Event", "Metric"):
            findings.leave_out(number, "a table without its title")
        elif open_table and open_table.header and len(open_table.rows) < open_table.expected:
            open_table.rows.append((number, fields))
    return tables


def _without_padding(fields: list[str]) -> list[str]:
    end = max((place + 1 for place, text in enumerate(fields) if text), default=0)
    return fields[:end]


def _add(findings: Findings, table: _Table, statistics: _Table | None) -> None:
    label = f"group {table.title['group']} {table.title['kind']}"
    named = 2 if table.header[1:2] == ["Counter"] else 1
    places = table.header[named:]
    if len(table.rows) < table.expected:
        findings.leave_out(table.line, ROWS_MISSING(table=label, rows=len(table.rows), expected=table.expected))
    if len(places) > 1 and statistics is None:
        findings.note(NO_STATISTICS(table=label))
    sums = {_label(fields, named): fields for _, fields in statistics.rows} if statistics else {}
    columns = statistics.header if statistics else []
    for number, fields in table.rows:
        values = [_value(text) for text in fields[named : len(table.header)]]
        printed = dict(zip(columns, sums.get(_label(fields, named), []), strict=False))
        if len(fields) < len(table.header) or any(fields[len(table.header) :]) or None in values:
            findings.leave_out(number, "no row of numbers under the header")
        elif not _agrees([value for value in values if value is not None], printed):
            findings.leave_out(number, CONTRADICTED(name=fields[0]))
        elif (known := _unit(fields[0])) is None:
            findings.leave_out(number, f"the unit of {fields[0][:60]!r} is not known")
        else:
            name, unit, factor = known
            shared = {
                "line": number,
                "region": table.key[0],
                "group": int(table.title["group"]),
                "group_name": table.title["name"],
                "kind": "event" if table.title["kind"] == "Raw" else "metric",
                "name": name,
                "counter": fields[1] if named == 2 else "",
                "unit": unit,
            }
            findings.records += [
                {**shared, "place": place, "value": value * factor}
                for place, value in zip(places, values, strict=True)
                if value is not None
            ]


def _label(fields: list[str], named: int) -> tuple[str, ...]:
    """Return what identifies a row: its name, and its counter, since each memory channel counts the same event."""
    return (fields[0].removesuffix(" STAT"), *fields[1:named])


def _value(text: str) -> float | None:
    """Return a cell: NaN where LIKWID prints "no value", None if it is damaged."""
    if text.strip().lower() in ("nan", "-nan", "inf", "-inf", "-"):
        return math.nan
    value = to_number(text)
    return None if math.isnan(value) else value


def _agrees(values: list[float], printed: dict[str, str]) -> bool:
    """Compare with sum, minimum and maximum, which are printed to 4 decimals or 7 digits."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return True
    for name, value in (("Sum", sum(known)), ("Min", min(known)), ("Max", max(known))):
        other = to_number(printed.get(name, ""))
        # LIKWID starts its maximum at 0, so the maximum hides negative values.
        if not math.isnan(other) and abs(other - value) > 1e-6 * abs(value) + 1e-4 and value >= 0:
            return False
    return True


def _unit(title: str) -> tuple[str, str, float] | None:
    """Return name, SI unit and factor of a metric such as ``Memory bandwidth [MBytes/s]``; None for an unknown unit."""
    match = UNIT.fullmatch(title)
    if not match:
        return None if re.search(r"[\[\]]", title) else (title, "", 1.0)
    for pattern, unit in UNITS:
        if found := re.fullmatch(pattern, match["unit"]):
            return match["name"], unit, PREFIXES[found.groupdict().get("prefix") or ""]
    return (match["name"], "ratio", 0.01) if match["unit"] == "%" else None


READER = Reader("likwid", "output of likwid-perfctr", read_likwid, looks=("output of LIKWID",))
