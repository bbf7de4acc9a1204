"""Power from ``nvidia-smi --query-gpu=timestamp,index,uuid,power.draw --format=csv`` (nvidia-smi manual)."""

import math
import re
from datetime import datetime
from pathlib import Path

from hpcai.parsers.findings import Findings, read_whole_lines, to_number
from hpcai.parsers.power_samples import COLUMNS, finish_devices, rows_of, sample
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading, nothing_read

TOOL = "a query of nvidia-smi"
ADVICE = "run `nvidia-smi --query-gpu=timestamp,index,uuid,power.draw --format=csv -lms 100`, with its header"
POWER = ("power.draw", "power.draw.average", "power.draw.instant")
"""Columns in order of preference: the first is the device's documented power."""
WATTS = re.compile(r"[a-z._]+( \[W\])?")
"""A power column's name, with or without unit."""
DEVICE = ("uuid", "gpu_uuid", "index", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial")
UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:/\d+/\d+)?")
ABSENT = re.compile(r"\[?(?:N/A|Not Supported|Unknown Error|Insufficient Permissions|GPU requires reset)\]?")


def read_nvidia_smi(path: Path, devices: int | None = None) -> Reading:
    """Read power samples of one or several GPUs.

    Parameters
    ----------
    path
        CSV output of the query with header; units in header or values, or ``nounits``; any columns in any order.
    devices
        Number of GPUs queried; needed only if no column (uuid, index, bus id or serial) identifies them.

    Returns
    -------
    Reading
        The common power columns. ``time_s`` counts from the earliest sample (fact ``start``, local time without zone);
        without a time stamp column it is NaN, and there is no energy. Samples have no redundancy: a changed digit of a
        power value, or of a time stamp that stays between its neighbours, is not detected.

    Raises
    ------
    ParseError
        If the header lacks power, or samples of several GPUs cannot be distinguished.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    stamps: dict[int, datetime | None] = {}
    for number, fields in rows_of(findings, lines, lambda line: "power.draw" in line):
        foreign = [name for name in fields if name.startswith("power.draw") and not WATTS.fullmatch(name)]
        if foreign:
            findings.leave_out(number, f"the unit of column {foreign[0][:40]!r} is not W")
            continue
        named = {name.split(" [")[0]: value for name, value in fields.items()}
        if not any(name in named for name in POWER):
            raise nothing_read(path, TOOL, "no column of power (power.draw)", ADVICE)
        _add(findings, number, named, next(name for name in POWER if name in named))
        if "timestamp" in named:
            stamps[number] = _stamp(named["timestamp"])
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    if devices != 1 and any(record["device"] == "" for record in findings.records):
        raise nothing_read(path, TOOL, "samples without index or uuid", f"state that it was one GPU, or {ADVICE}")
    finish_devices(findings, stamps)
    return findings.reading(COLUMNS, ADVICE)


def _add(findings: Findings, number: int, fields: dict[str, str], column: str) -> None:
    text = fields[column]
    power_w = to_number(text.removesuffix(" W"))
    device = next((fields[name] for name in DEVICE if name in fields), "")
    uuid = fields.get("uuid", fields.get("gpu_uuid"))
    findings.facts["column"] = column
    if math.isnan(power_w) and not ABSENT.fullmatch(text):
        findings.leave_out(number, f"power {text[:20]!r} is no number of W")
    elif power_w < 0:
        findings.leave_out(number, "negative power")
    elif uuid is not None and not UUID.fullmatch(uuid):
        findings.leave_out(number, "a damaged uuid")
    else:
        findings.records.append(sample(number, device, math.nan, power_w))


def _stamp(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y/%m/%d %H:%M:%S.%f")
    except ValueError:
        return None


READER = Reader(
    "nvidia-smi", "query of nvidia-smi", read_nvidia_smi, looks=("a query of nvidia-smi",), option="devices"
)
