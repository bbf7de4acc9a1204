"""Power and energy from ``dcgmi dmon -e 155,156`` (NVIDIA DCGM, dcgmi/DeviceMonitor.cpp; no public sample found)."""

import math
import re
from collections import Counter
from pathlib import Path

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, read_whole_lines, to_number
from hpcai.parsers.power_samples import COLUMNS, explain_missing, keep_plausible_devices, sample
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

NO_NUMBERS = Message("dcgm.no_numbers", "values that are not numbers")
COUNTED = Message("dcgm.counted", ": times are counts of {interval_s:g} s as requested")

TOOL = "output of dcgmi dmon"
ADVICE = "run `dcgmi dmon -e 155,156 -d 100`: power [W] and energy [mJ]"
ROW = re.compile(r"\s*((?:GPU|CPU|SW|Switch|Core|Link)[\w-]*(?: \d+ LINK)?\s+\d+)\s+(\S.*)$", re.IGNORECASE)
POWER, ENERGY = "POWER", "TOTEC"
"""Short names of fields 155 and 156 in the header."""
UNITS = {POWER: "W", ENERGY: "mJ"}
UNIT_ROW = re.compile(r"\s*ID\s+(\S.*)", re.IGNORECASE)
"""Second header line; fields without a unit are blank there."""


def read_dcgm_dmon(path: Path, interval_s: float | None = None) -> Reading:
    """Read samples of ``dcgmi dmon``, one row per entity and update.

    Parameters
    ----------
    path
        The command's standard output; its two header lines are repeated on every screen.
    interval_s
        Update interval requested with ``-d`` [s]. Without it the samples have no times, and only the energy counter
        gives an energy.

    Returns
    -------
    Reading
        The common power columns; ``energy_j`` counts since the driver was loaded.

    Raises
    ------
    ParseError
        If there is no table with power or energy.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    header: list[str] = []
    units: list[str] = []
    updates: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        if match := re.match(r"#\s*Entity\b(.*)", line):
            header, units = match[1].split(), []
        elif match := UNIT_ROW.fullmatch(line):
            units = match[1].split()
        elif units and ROW.match(line) and any(UNITS.get(name, units[0]) not in units for name in header):
            findings.leave_out(number, f"found units {' '.join(units)[:40]!r}, expected W of power and mJ of energy")
        elif match := ROW.match(line):
            _add(findings, number, (" ".join(match[1].split()), match[2].split()), header, updates)
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    keep_plausible_devices(findings)
    if len({updates[device] for device in {record["device"] for record in findings.records}}) > 1:
        findings.note("not all devices have the same number of samples")
    for record in findings.records:
        record["time_s"] = math.nan if interval_s is None else record["update"] * interval_s
    findings.note("no time stamps" + ("" if interval_s is None else COUNTED(interval_s=interval_s)))
    explain_missing(findings)
    return findings.reading(COLUMNS, ADVICE)


def _add(
    findings: Findings, number: int, entity: tuple[str, list[str]], header: list[str], updates: Counter[str]
) -> None:
    device, texts = entity
    update = updates[device]
    updates[device] += 1
    fields = dict(zip(header, texts, strict=False))
    values = {name: to_number(fields.get(name, "")) for name in (POWER, ENERGY)}
    damaged = any(fields.get(name, "N/A") != "N/A" and math.isnan(values[name]) for name in values)
    if len(texts) != len(header):
        findings.leave_out(number, f"{len(texts)} values under {len(header)} headers")
    elif not {POWER, ENERGY} & set(header):
        findings.leave_out(number, "no column of power or energy")
    elif damaged or any(value < 0 for value in values.values()):
        findings.leave_out(number, NO_NUMBERS())
    else:
        row = sample(number, device, math.nan, values[POWER], values[ENERGY] * 1e-3)
        findings.records.append(row | {"update": update})


READER = Reader("dcgm", "output of `dcgmi dmon`", read_dcgm_dmon, looks=("output of dcgmi dmon",))
