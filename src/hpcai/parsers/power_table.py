"""Power as a plain table: a time column and one column per device, such as ``timestamp,GPU0 [W],GPU1 [W]``."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, read_whole_lines, to_number
from hpcai.parsers.power_samples import COLUMNS, add_watts, count_from_first, keep_order, rows_of
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading, nothing_read

NO_UNIT = Message(
    "power_table.no_unit", "a column {column!r} without a unit (`hpcai read --unit W` declares all of them as W)"
)

TOOL = "a plain table of power"
ADVICE = "write one column of time, and one of power with its unit for each device: `timestamp,GPU0 [W],GPU1 [W]`"
WATTS = {"W": 1.0, "mW": 1e-3, "kW": 1e3}
"""Units of power, case-sensitive: in lower case, milli- and megawatts would be equal."""
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
UNIX_S = (1e9, 4e9)
"""Range of seconds since 1970 from 2001 to 2096; a time without a unit in this range can mean nothing else."""
LONGEST_HEADER = 1 << 16
"""Maximum header length [characters]; a node has some tens of meters."""
TIME = re.compile(r"timestamps?|time|date[_ ]?time", re.IGNORECASE)
HEADING = re.compile(r"(.*?)(?: ?\[(.*)\]| ?\((.*)\)|_(m?[Ww]|[kK][Ww]|[Ww]atts|m?s|us|ns))?")
OTHER = re.compile(
    r".*[\"].*|gpu|device|index|id|.*uuid.*|rank|node|host(name)?|name|serial|pstate"
    r"|.*(temp|util|clock|mem|fan|volt|current|energy|limit|freq|%|power\.draw).*",
    re.IGNORECASE,
)
"""Headings that name another quantity, or no particular device."""


@dataclass(frozen=True)
class _Heading:
    """A column's name and the unit after it; blank if there is none."""

    column: str
    name: str
    unit: str

    @classmethod
    def of(cls, column: str) -> "_Heading":
        found = HEADING.fullmatch(column)
        name, *units = found.groups() if found else (column,)
        return cls(column, str(name).strip(), next((unit.strip() for unit in units if unit), ""))


@dataclass(frozen=True)
class _Columns:
    """Meaning of a table's columns.

    Attributes
    ----------
    time, unit_s
        Time column and its unit in seconds; None: no unit given.
    devices
        Device and unit in watts of each other column.
    """

    time: str
    unit_s: float | None
    devices: dict[str, tuple[str, float]]


def read_power_table(path: Path, unit: str | None = None) -> Reading:
    """Read power samples of several devices in parallel columns: one row per time and device.

    Parameters
    ----------
    path
        The table, with columns separated by commas, semicolons or tabs.
    unit
        W, mW or kW; needed only if the header names no unit.

    Returns
    -------
    Reading
        The common power columns. Times with a unit in their heading are kept; dates, and seconds since 1970, count
        from the first sample (fact ``start``).

    Raises
    ------
    ParseError
        If the header leaves a column's meaning open, or there is no sample: nothing is guessed.
    """
    findings = Findings(path, TOOL)
    whole, torn = read_whole_lines(path, TOOL)
    lines = [line.replace('"', "") if line.count('"') % 2 == 0 else line for line in whole]
    header = next((line for line in lines if line.strip()), "")
    if len(header) > LONGEST_HEADER:
        raise nothing_read(path, TOOL, f"a first line of {len(header)} characters", ADVICE)
    separator = max(",;\t", key=header.count)
    columns = _columns(path, [cell.strip() for cell in header.split(separator)], unit)
    times: dict[int, str] = {}
    for number, fields in rows_of(findings, lines, lambda line: line == header, separator):
        times[number] = fields[columns.time]
        watts = {device: to_number(fields[name]) * unit_w for name, (device, unit_w) in columns.devices.items()}
        add_watts(findings, number, watts)
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    _set_times(findings, [times[record["line"]] for record in findings.records], columns.unit_s)
    return findings.reading(COLUMNS, ADVICE)


def _columns(path: Path, cells: Sequence[str], unit: str | None) -> _Columns:
    headings = [_Heading.of(cell) for cell in cells]
    times = [one for one in headings if TIME.fullmatch(one.name)]
    devices = [one for one in headings if one not in times]
    if len(times) != 1 or not devices:
        found = f"a first line with {len(times)} columns of time and {len(devices)} others"
        raise nothing_read(path, TOOL, found, ADVICE)
    if found := _why_unclear(times[0], devices, unit):
        raise nothing_read(path, TOOL, found, ADVICE)
    watts = {one.column: (one.name, WATTS[one.unit or str(unit)]) for one in devices}
    return _Columns(times[0].column, SECONDS.get(times[0].unit), watts)


def _why_unclear(time: _Heading, devices: Sequence[_Heading], unit: str | None) -> str:
    """Return why headings leave their columns' meaning open; blank if they do not."""
    names, units = [one.name for one in devices], {one.unit for one in devices}
    others = ", ".join(map(repr, sorted(units - {*WATTS, ""})))
    odd = next((one.column for one in devices if not one.name or OTHER.fullmatch(one.name)), None)
    bare = next((one.column for one in devices if not one.unit), None)
    reasons = {
        f"times in {time.unit!r}, which is none of {', '.join(SECONDS)}": time.unit not in {*SECONDS, ""},
        f"columns in {others}, which are none of {', '.join(WATTS)}": bool(others),
        f"a column {odd!r}, which may not be the power of one device": odd is not None,
        "a duplicate column": len(set(names)) < len(names),
        NO_UNIT(column=bare): bare is not None and (unit is None or units != {""}),
        f"units in the header, so that --unit {unit} is not needed": bare is None and unit is not None,
    }
    return next((words for words, is_so in reasons.items() if is_so), "")


def _set_times(findings: Findings, texts: Sequence[str], unit_s: float | None) -> None:
    numbers = [to_number(text) for text in texts]
    if unit_s is not None:
        for record, number in zip(findings.records, numbers, strict=True):
            record["time_s"] = number * unit_s
        findings.keep([not math.isnan(number) for number in numbers], "no time")
        keep_order(findings)
        return
    if not any(map(math.isnan, numbers)):
        if not all(UNIX_S[0] <= number < UNIX_S[1] for number in numbers):
            found = f"times such as {texts[0]} without a unit"
            raise nothing_read(findings.path, TOOL, found, "name the column time_s or time_ms, as it is")
        count_from_first(findings, [datetime.fromtimestamp(number, UTC) for number in numbers])
        return
    count_from_first(findings, [_stamp(text) for text in texts])


def _stamp(text: str) -> datetime | None:
    """Return a date that can be read in only one way: year first."""
    for read in (datetime.fromisoformat, lambda one: datetime.strptime(one, "%Y/%m/%d %H:%M:%S.%f")):
        try:
            return read(text)
        except ValueError:
            continue
    return None


READER = Reader("power-table", "table of power by time", read_power_table, looks=("a table by time",), option="unit")
