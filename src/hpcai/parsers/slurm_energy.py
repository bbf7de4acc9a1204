"""Energy of jobs from ``sacct -P --format=JobID,NNodes,ElapsedRaw,ConsumedEnergyRaw,...`` (Slurm, sacct manual)."""

import math
import re
from datetime import datetime
from pathlib import Path

from hpcai.core.messages import Message
from hpcai.parsers.findings import Findings, half_unit, read_whole_lines, to_count, to_number
from hpcai.parsers.power_samples import rows_of
from hpcai.parsers.reader import Reader
from hpcai.parsers.reading import Reading

ROUNDED = Message("slurm_energy.rounded", "job {job}: energy is rounded; request ConsumedEnergyRaw")
UNLIKELY_POWER = Message(
    "slurm_energy.unlikely_power", "{node_power_w:.4g} W per node is outside {least_w:g} to {most_w:g} W"
)
TIME_LOST = Message(
    "slurm_energy.time_lost", "elapsed {duration_s:g} s of {span_s:g} s from start to end: was it suspended?"
)
NO_POWER = Message("slurm_energy.no_power", "no number of nodes or no elapsed time: no power")

TOOL = "a table of sacct"
ADVICE = "run `sacct -P -j JOB --format=JobID,NTasks,NNodes,ElapsedRaw,Start,End,AllocTRES,ConsumedEnergyRaw,State`"
COLUMNS = ("job", "state", "nodes", "duration_s", "energy_j", "mean_power_w", "node_power_w", "reason")
SUFFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
NO_VALUE = 2**62
"""Upper limit [J]; Slurm's marks of "no value" are 2^64 - 1, 2^64 - 2 and 2^63 - 1, more than any job uses."""
STAMPS = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%d-%H:%M:%S")


def read_slurm_energy(path: Path, node_power_range_w: tuple[float, float] | None = None) -> Reading:
    """Read the energy of whole jobs: one row per job, from the job's own line.

    Lines of steps (``.batch``, ``.extern``, numbers, or the job id again) overlap the job's line and are not added.

    Parameters
    ----------
    path
        Output of ``sacct -P`` or ``sacct -p``.
    node_power_range_w
        Smallest and largest plausible mean power of one node [W]; an energy outside is discarded. Without it, wrong
        energies from the site's sensors go unnoticed.

    Returns
    -------
    Reading
        NaN and a ``reason`` where no energy was measured: empty, 0, or Slurm's mark of no value.

    Raises
    ------
    ParseError
        If no job line has an energy column.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    jobs: dict[str, list[dict[str, str]]] = {}
    for number, fields in rows_of(findings, lines, _is_header, "|"):
        job = fields["JobID"]
        if not re.fullmatch(r"\d+([_+]\d+)?(\.\w+)?", job):
            findings.leave_out(number, "no job id")
        elif "." not in job:
            jobs.setdefault(job, []).append(fields | {"line": str(number)})
        elif job.partition(".")[0] not in jobs:
            findings.note(f"line {number}: a step without its job before it")
    for job, rows in jobs.items():
        _add(findings, job, rows, node_power_range_w)
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    return findings.reading(COLUMNS, ADVICE)


def _is_header(line: str) -> bool:
    names = line.split("|")
    return "JobID" in names and ("ConsumedEnergyRaw" in names or "ConsumedEnergy" in names)


def _add(
    findings: Findings, job: str, rows: list[dict[str, str]], node_power_range_w: tuple[float, float] | None
) -> None:
    fields, number = rows[0], int(rows[0]["line"])
    # A job's own line has no tasks; steps that repeat its id do.
    runs = [row for row in rows if row.get("NTasks") == ""]
    if fields.get("NTasks"):
        findings.leave_out(number, f"job {job}: the first line is a step's")
        return
    if len(runs) > 1:
        findings.leave_out(number, f"job {job}: {len(runs)} runs of one job (requeued), query without --duplicates")
        return
    nodes, duration_s = to_count(fields.get("NNodes", "")), _duration(fields)
    if nodes is None:
        nodes = _resource(fields, "node")
    energy_j, reason = _energy(fields)
    why = _contradiction(fields, nodes, duration_s, energy_j)
    if why:
        findings.leave_out(number, f"job {job}: {why}")
        return
    power_w = energy_j / duration_s if duration_s > 0 else math.nan
    node_power_w = power_w / nodes if nodes else math.nan
    if node_power_range_w and not math.isnan(node_power_w) and not _is_between(node_power_w, node_power_range_w):
        reason = UNLIKELY_POWER(node_power_w=node_power_w, least_w=node_power_range_w[0], most_w=node_power_range_w[1])
        energy_j = power_w = node_power_w = math.nan
    if reason:
        findings.note(f"job {job}: {reason}")
    elif not fields.get("ConsumedEnergyRaw"):
        findings.note(ROUNDED(job=job))
    for doubt in _doubts(fields, nodes, duration_s):
        findings.note(f"job {job}: {doubt}")
    values = (job, fields.get("State", ""), nodes or math.nan, duration_s, energy_j, power_w, node_power_w, reason)
    findings.records.append({"line": number, **dict(zip(COLUMNS, values, strict=True))})


def _is_between(value: float, limits: tuple[float, float]) -> bool:
    return limits[0] <= value <= limits[1]


def _energy(fields: dict[str, str]) -> tuple[float, str]:
    """Return the energy [J] and the reason if there is none."""
    raw, rounded = fields.get("ConsumedEnergyRaw", ""), fields.get("ConsumedEnergy", "")
    energy_j = to_number(raw) if raw else _with_suffix(rounded)[0]
    if not raw and not rounded:
        return math.nan, "energy was not measured (empty)"
    if math.isnan(energy_j):
        return math.nan, f"energy {(raw or rounded)[:30]!r} is no number"
    if energy_j <= 0 or energy_j >= NO_VALUE:
        return math.nan, f"energy was not measured ({raw or rounded})"
    return energy_j, ""


def _with_suffix(text: str) -> tuple[float, float]:
    """Return a value such as 20.54M and half a unit of its last digit."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", text)
    if not match:
        return math.nan, math.nan
    return float(match[1]) * SUFFIXES[match[2]], half_unit(match[1]) * SUFFIXES[match[2]]


def _duration(fields: dict[str, str]) -> float:
    seconds = to_count(fields.get("ElapsedRaw", ""))
    match = re.fullmatch(r"(?:(\d{1,6})-)?(\d{1,6}):(\d\d):(\d\d)", fields.get("Elapsed", ""))
    if seconds is None and match:
        days, hours, minutes, rest = (int(part or 0) for part in match.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)
    return math.nan if seconds is None else float(seconds)


def _resource(fields: dict[str, str], name: str) -> int | None:
    match = re.search(rf"(?:^|,){name}=(\d{{1,20}})(?:,|$)", fields.get("AllocTRES", ""))
    return int(match[1]) if match else None


def _contradiction(fields: dict[str, str], nodes: int | None, duration_s: float, energy_j: float) -> str:
    rounded, slack = _with_suffix(fields.get("ConsumedEnergy", ""))
    if abs(rounded - energy_j) > slack * 1.01:
        return "ConsumedEnergy is not ConsumedEnergyRaw"
    others = {"node": nodes, "energy": energy_j}
    for name, value in others.items():
        allocated = _resource(fields, name)
        if allocated and value and not math.isnan(value) and abs(allocated - value) > _slack(fields, name, slack):
            return f"{name}={allocated} of AllocTRES is not {value:g}"
    span_s = _span(fields)
    # Daylight saving time shifts local clocks by an hour.
    if duration_s > span_s + 1 and abs(duration_s - span_s - 3600) > 1:
        return f"elapsed {duration_s:g} s between start and end of {span_s:g} s"
    return ""


def _doubts(fields: dict[str, str], nodes: int | None, duration_s: float) -> list[str]:
    doubts: list[str] = []
    if nodes is None or math.isnan(duration_s):
        doubts.append(NO_POWER())
    if duration_s < _span(fields) - 1:
        doubts.append(TIME_LOST(duration_s=duration_s, span_s=_span(fields)))
    if fields.get("State", "").startswith(("RUNNING", "PENDING", "SUSPENDED")):
        doubts.append(f"{fields['State']}: energy so far")
    return doubts


def _span(fields: dict[str, str]) -> float:
    """Return the time from start to end [s]; NaN if one is missing."""
    start, end = (_stamp(fields.get(name, "")) for name in ("Start", "End"))
    return (end - start).total_seconds() if start and end else math.nan


def _slack(fields: dict[str, str], name: str, rounded: float) -> float:
    """Return the allowed difference of a resource; for energy without a raw value, the rounding of ConsumedEnergy."""
    return rounded if name == "energy" and not fields.get("ConsumedEnergyRaw") else 0.5


def _stamp(text: str) -> datetime | None:
    for layout in STAMPS:
        try:
            return datetime.strptime(text, layout)
        except ValueError:
            continue
    return None


READER = Reader("sacct", "energy of jobs from sacct", read_slurm_energy, looks=("a table of sacct",))
