"""Jobs from Slurm's accounting: ``sacct -P --format=JobID,...`` to one row per job."""

import math
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hpcai.core.errors import ConfigError, ParseError
from hpcai.metrics.cells import divide, number_or_nan
from hpcai.parsers.findings import Findings, read_whole_lines, to_count
from hpcai.parsers.power_samples import rows_of
from hpcai.parsers.reading import Reading
from hpcai.slurm.text import duration_in_seconds, resources_of, size_in_bytes

TOOL = "a table of sacct"
FORMAT = "JobID,JobName,Comment,State,ElapsedRaw,TotalCPU,MaxRSS,AllocTRES,TimelimitRaw,WorkDir"
ADVICE = f"run `sacct -P --format={FORMAT}`"
COLUMNS = (
    "job", "rule", "state", "nodes", "cores", "memory_bytes", "time_limit_s", "elapsed_s", "cpu_time_s",
    "cpu_efficiency_ratio", "task_memory_bytes", "time_limit_used_ratio", "node_hours", "core_hours", "work_folder",
)  # fmt: skip
"""``task_memory_bytes`` is the largest resident set of a single task (MaxRSS), not of a node."""
_ASK_S = 60.0
_JOB = re.compile(r"(\d+(?:[_+]\d+)?)(\.\w+)?")
_RULE = re.compile(r"rule_([a-z][a-z0-9_]*?)(?:_wildcards_.*)?")
"""Comment that Snakemake's executor gives its jobs."""


def read_jobs(path: Path) -> Reading:
    """Read the jobs in sacct's output: the job's own line, and the largest task of its steps.

    Parameters
    ----------
    path
        Output of ``sacct -P``.

    Returns
    -------
    Reading
        Times [s], sizes [bytes]; NaN where missing.

    Raises
    ------
    ParseError
        If it contains no job.
    """
    findings = Findings(path, TOOL)
    lines, torn = read_whole_lines(path, TOOL)
    jobs: dict[str, dict[str, str]] = {}
    tasks: dict[str, list[int]] = {}
    for number, fields in rows_of(findings, lines, _is_header, "|"):
        name = _JOB.fullmatch(fields["JobID"])
        if not name:
            findings.leave_out(number, "no job id")
        elif name[2]:
            largest = size_in_bytes(fields.get("MaxRSS", ""), unit="")
            tasks.setdefault(name[1], []).extend([largest] if largest else [])
        else:
            # For a requeued job, the last line is the run that counts.
            jobs[name[1]] = fields | {"line": str(number)}
    if torn:
        findings.leave_out(len(lines) + 1, "the last line was truncated")
    findings.records = [_job_row(job, fields, tasks.get(job, ())) for job, fields in jobs.items()]
    return findings.reading(COLUMNS, ADVICE)


def ask_jobs(since_utc: str, folder: Path) -> Reading:
    """Query Slurm's accounting for our own jobs submitted from a folder.

    Parameters
    ----------
    since_utc
        First start of the workflow, such as ``2026-01-02T03:04:05Z``.
    folder
        Working folder of the workflow; jobs of other folders are ignored.

    Raises
    ------
    ConfigError
        If accounting is missing, or does not answer.
    """
    command = ["sacct", "-P", f"--format={FORMAT}", "--starttime", _day_before(since_utc)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or error
        raise ConfigError(
            f"--sacct auto: sacct found no accounting ({str(told).strip()[:200]}); leave the option out, or name a file"
        ) from error
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "sacct.txt")
        file.write_text(done.stdout)
        try:
            reading = read_jobs(file)
        except ParseError as error:
            raise ConfigError(f"--sacct auto: sacct reported no job since {_day_before(since_utc)}") from error
    own = reading.table["work_folder"].map(lambda name: Path(name) == folder.resolve())
    return replace(reading, table=reading.table[own].reset_index(drop=True))


def _day_before(since_utc: str) -> str:
    """Return a local time that is certainly earlier: clocks are at most half a day ahead of UTC."""
    return (datetime.fromisoformat(since_utc) - timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%S")


def _is_header(line: str) -> bool:
    names = line.split("|")
    return "JobID" in names and "State" in names


def _job_row(job: str, fields: Mapping[str, str], tasks: Sequence[int]) -> dict[str, Any]:
    granted = resources_of(fields.get("AllocTRES", ""))
    nodes, cores = (number_or_nan(to_count(granted.get(name, ""))) for name in ("node", "cpu"))
    elapsed_s = number_or_nan(to_count(fields.get("ElapsedRaw", "")))
    minutes = to_count(fields.get("TimelimitRaw", ""))
    limit_s = minutes * 60.0 if minutes else math.nan
    cpu_s = number_or_nan(duration_in_seconds(fields.get("TotalCPU", "")))
    rule = _RULE.fullmatch(fields.get("Comment", ""))
    return {
        "line": int(fields["line"]),
        "job": job,
        "rule": rule[1] if rule else "",
        "state": fields["State"],
        "nodes": nodes,
        "cores": cores,
        "memory_bytes": number_or_nan(size_in_bytes(granted.get("mem", ""))),
        "time_limit_s": limit_s,
        "elapsed_s": elapsed_s,
        "cpu_time_s": cpu_s,
        "cpu_efficiency_ratio": divide(cpu_s, cores * elapsed_s),
        "task_memory_bytes": float(max(tasks)) if tasks else math.nan,
        "time_limit_used_ratio": divide(elapsed_s, limit_s),
        "node_hours": nodes * elapsed_s / 3600,
        "core_hours": cores * elapsed_s / 3600,
        "work_folder": fields.get("WorkDir", ""),
    }
