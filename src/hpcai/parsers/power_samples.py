"""Shared by all power readers: common columns, tables with a header, and clock time stamps."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, in_order

NO_VALUE = Message(
    "power_samples.no_value", "{missing} of {samples} samples have no value: the device did not report it"
)
ONE_MOMENT = Message("power_samples.one_moment", "no time stamps: power at a single time, no energy from it")
NOT_THE_SUM = Message("power_samples.not_the_sum", "total {total_w:g} W is not the sum of the nodes")
TIME_STANDS = Message("power_samples.time_stands", "the time does not advance")

COLUMNS = ("time_s", "device", "power_w", "energy_j")
"""Time [s; NaN if the artefact has none], device, power [W], energy counter [J]; NaN where not given."""
TOTAL = "total"
FEWEST = 3
"""Samples per device above which a device seen only once is taken for a damaged name."""


def rows_of(
    findings: Findings, lines: Sequence[str], is_header: Callable[[str], bool], separator: str = ","
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and fields by name below a header; omit lines with another number of fields.

    Repeated headers are skipped; a different header applies from its line on.
    """
    header: list[str] = []
    for number, line in enumerate(lines, 1):
        fields = [part.strip() for part in line.split(separator)]
        if is_header(line):
            header = fields
        elif header and line.strip():
            if len(fields) == len(header):
                yield number, dict(zip(header, fields, strict=True))
            else:
                findings.leave_out(number, f"{len(fields)} fields under {len(header)} headers")


def sample(
    line: int, device: str, time_s: float, power_w: float = math.nan, energy_j: float = math.nan
) -> dict[str, Any]:
    """Return one record of the common columns."""
    return {"line": line, "time_s": time_s, "device": device, "power_w": power_w, "energy_j": energy_j}


def add_watts(findings: Findings, number: int, watts: Mapping[str, float]) -> None:
    """Add the samples of a line, one per device; a total must equal their sum, or is itself the only device.

    Parameters
    ----------
    findings, number
        The target, and the line number.
    watts
        Power of each device [W]; a line with an invalid value is omitted.
    """
    devices = {device: power_w for device, power_w in watts.items() if device != TOTAL} or watts
    if any(not power_w >= 0 for power_w in watts.values()):
        findings.leave_out(number, "power that is no number of W")
    elif TOTAL in watts and abs(sum(devices.values()) - watts[TOTAL]) > 1e-6 * watts[TOTAL]:
        findings.leave_out(number, NOT_THE_SUM(total_w=watts[TOTAL]))
    else:
        findings.records += [sample(number, device, math.nan, power_w) for device, power_w in devices.items()]


def keep_plausible_devices(findings: Findings) -> None:
    """Omit devices seen only once while the others are seen often: their name was damaged."""
    times = Counter(record["device"] for record in findings.records)
    usual = max(times.values(), default=0)
    if usual >= FEWEST:
        findings.keep([times[record["device"]] > 1 for record in findings.records], "a device that is seen only here")


def keep_order(findings: Findings) -> None:
    """Omit samples whose time does not increase, per device."""
    good: dict[int, bool] = {}
    for device in {record["device"] for record in findings.records}:
        own = [record for record in findings.records if record["device"] == device]
        good |= dict(zip((r["line"] for r in own), in_order([r["time_s"] for r in own], strictly=True), strict=True))
    findings.keep([good[record["line"]] for record in findings.records], TIME_STANDS())


def count_from_first(findings: Findings, stamps: Sequence[datetime | None]) -> None:
    """Convert times to seconds since the earliest kept stamp, which becomes the fact ``start``.

    Local times without a zone are used as they are: a clock change shows as decreasing time or as a gap. Stamps without
    a zone are meaningless next to stamps with one.
    """
    mixed = len({stamp.tzinfo is None for stamp in stamps if stamp}) > 1
    if mixed:
        findings.note("time stamps with and without zone: those without are skipped")
    for record, found in zip(findings.records, stamps, strict=True):
        stamp = None if found is not None and mixed and found.tzinfo is None else found
        record["time_s"] = math.nan if stamp is None else _seconds(stamp)
        record["start"] = stamp
    findings.keep([math.isfinite(record["time_s"]) for record in findings.records], "no time stamp")
    keep_order(findings)
    if findings.records:
        first = min(findings.records, key=lambda record: record["time_s"])
        start_s = first["time_s"]
        findings.facts["start"] = first["start"].isoformat()
        for record in findings.records:
            record["time_s"] -= start_s


def _seconds(stamp: datetime) -> float:
    """Return a stamp in seconds: since 1970 by its offset from UTC or, without a zone, as its clock showed it."""
    return (stamp - datetime(1970, 1, 1, tzinfo=UTC if stamp.tzinfo else None)).total_seconds()


def finish_devices(findings: Findings, stamps: Mapping[int, datetime | None]) -> None:
    """Leave out what is no device, count times from the first, and note what the samples lack.

    Parameters
    ----------
    stamps
        Time stamps by line; empty: the artefact has none.
    """
    keep_plausible_devices(findings)
    if stamps:
        count_from_first(findings, [stamps.get(record["line"]) for record in findings.records])
    else:
        findings.note(ONE_MOMENT())
    explain_missing(findings)


def explain_missing(findings: Findings) -> None:
    """Note samples without a value."""
    missing = sum(math.isnan(r["power_w"]) and math.isnan(r["energy_j"]) for r in findings.records)
    if missing:
        findings.note(NO_VALUE(missing=missing, samples=len(findings.records)))
