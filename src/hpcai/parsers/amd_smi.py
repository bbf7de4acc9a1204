"""Power and energy of AMD accelerators from ``amd-smi``: ``monitor`` and ``metric``, as CSV or JSON.

Formats: AMD SMI's documentation (rocm.docs.amd.com/projects/amdsmi) and public logs. Power is in W and energy in J in
both; CSV has no units. Time stamps are whole seconds since 1970, so that more than one sample in a second has no time.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, read_whole_lines, to_number
from hpcai.parsers.power_samples import COLUMNS, finish_devices, sample
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading
from hpcai.parsers.text import split_csv

NO_NUMBER = Message("amd_smi.no_number", "found {text!r} as {column}, expected a number or N/A")
OTHER_UNIT = Message("amd_smi.other_unit", "found {column} in {unit!r}, expected {expected}")
DAMAGED = Message("amd_smi.damaged", "truncated or damaged JSON from here on ({why})")

TOOL = "output of amd-smi"
ADVICE = "run `amd-smi metric --power --energy --watch 1 --csv`"
POWER = ("socket_power", "power_usage", "current_socket_power", "average_socket_power")
"""Columns in order of preference: of ``metric``, of ``monitor``, and of earlier versions."""
ENERGY = "total_energy_consumption"
UNITS = {**dict.fromkeys(POWER, "W"), ENERGY: "J"}
ABSENT = re.compile(r"(?:\[?N/A\]?)?")
PARTITION = "xcp"
"""Column of a partition's number: all of them are lines of one accelerator, and the first has its power."""
MILLISECONDS_FROM = 1e11
"""A larger time stamp is in milliseconds: as seconds it would be in the year 5138."""
Cells = Mapping[str, str]


def read_amd_smi(path: Path) -> Reading:
    """Read samples of power and energy, one row per accelerator and time.

    Parameters
    ----------
    path
        What ``amd-smi monitor`` or ``amd-smi metric`` printed, with ``--csv`` or ``--json``; watched or once.

    Returns
    -------
    Reading
        The common power columns. ``time_s`` counts from the earliest sample (fact ``start``, UTC); without time stamps
        it is NaN, and only the energy counter gives an energy.

    Raises
    ------
    ParseError
        If there is neither power nor energy of an accelerator.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    stamps: dict[int, datetime | None] = {}
    text = "\n".join([*lines, torn])
    is_json = text.lstrip().startswith(("[", "{"))
    for number, cells in _documents(text, findings) if is_json else _rows(findings, lines):
        _add(findings, number, cells)
        if "timestamp" in cells:
            stamps[number] = _stamp(cells["timestamp"])
    if torn and not is_json:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    finish_devices(findings, stamps)
    return findings.reading(COLUMNS, ADVICE)


def accelerators_power_w(text: str) -> dict[int, float]:
    """Return the power of each accelerator in one answer of ``amd-smi metric --power --json`` [W]; NaN: not told."""
    watts = {}
    for _, cells in _documents(text):
        index = cells["gpu"]
        value = next((cells[name] for name in POWER if name in cells), "")
        if index.isdecimal():
            watts[int(index)] = to_number(value)
    return watts


def _rows(findings: Findings, lines: list[str]) -> Iterator[tuple[int, Cells]]:
    """Yield line number and cells of a table whose header is repeated at each sample; cells may hold lists."""
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        fields = [cell.strip() for cell in split_csv(line)]
        if "gpu" in fields and set(fields) & set(UNITS):
            header = fields
        elif header and line.strip():
            if len(fields) == len(header):
                yield number, dict(zip(header, fields, strict=True))
            else:
                findings.leave_out(number, f"{len(fields)} cells under {len(header)} headings")


def _documents(text: str, findings: Findings | None = None) -> Iterator[tuple[int, Cells]]:
    """Yield number and cells of each accelerator in the JSON documents before the first damaged one, which is noted."""
    decoder, place, number = json.JSONDecoder(), len(text) - len(text.lstrip()), 0
    while place < len(text):
        try:
            found, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            if findings:
                why = error.msg if isinstance(error, json.JSONDecodeError) else error
                findings.leave_out(text.count("\n", 0, place) + 1, DAMAGED(why=why))
            return
        place = next((at for at in range(place, len(text)) if not text[at].isspace() and text[at] != ","), len(text))
        entries = found.get("gpu_data", [found]) if isinstance(found, dict) else found
        for entry in entries if isinstance(entries, list) else []:
            if isinstance(entry, dict) and "gpu" in entry:
                number += 1
                yield number, _flat(entry)


def _flat(entry: Mapping[str, Any]) -> Cells:
    """Return the named cells of an accelerator's document, which nests them in groups, each with value and unit."""
    groups = [entry, *(part for part in entry.values() if isinstance(part, dict))]
    found = {name: group[name] for group in groups for name in ("gpu", "timestamp", *UNITS) if name in group}
    return {name: _text(name, value) for name, value in found.items()}


def _text(name: str, value: object) -> str:
    if not isinstance(value, dict):
        return str(value)
    unit = str(value.get("unit", UNITS.get(name, "")))
    return str(value.get("value", "")) if unit == UNITS.get(name, unit) else f"{value.get('value')} {unit}"


def _add(findings: Findings, number: int, cells: Cells) -> None:
    if cells.get(PARTITION, "0") != "0":
        return
    column = next((name for name in POWER if name in cells), None)
    values = {}
    for name in (column, ENERGY):
        text = cells.get(name, "") if name else ""
        values[name] = to_number(text)
        if name and math.isnan(values[name]) and not ABSENT.fullmatch(text):
            findings.leave_out(number, _why(name, text))
            return
    if not cells["gpu"].isdecimal():
        findings.leave_out(number, NO_NUMBER(text=cells["gpu"][:20], column="gpu"))
    elif any(value < 0 for value in values.values()):
        findings.leave_out(number, "a negative value")
    elif column or ENERGY in cells:
        if column:
            findings.facts["column"] = column
        findings.records.append(sample(number, cells["gpu"], math.nan, values[column], values[ENERGY]))


def _why(name: str, text: str) -> str:
    number, _, unit = text.partition(" ")
    if unit and not math.isnan(to_number(number)):
        return OTHER_UNIT(column=name, unit=unit[:20], expected=UNITS[name])
    return NO_NUMBER(text=text[:20], column=name)


def _stamp(text: str) -> datetime | None:
    number = to_number(text)
    if math.isnan(number):
        return None
    seconds = number / 1000 if number > MILLISECONDS_FROM else number
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


READER = Reader("amd-smi", "power of AMD accelerators from `amd-smi`", read_amd_smi, looks=(TOOL,))
