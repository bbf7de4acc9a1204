"""What the batch system gave an attempt: nodes, cores, memory, time limit; written beside the attempt's raw files.

The executor takes Slurm's variables away inside its jobs, all but the job's number, and accounting may be missing:
what is not asked while the job lives is lost. Accounts and names of users are left out.
"""

import os
import re
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict, Field

from hpcai.records import write_json

ALLOCATION = "allocation.json"
JOB_VARIABLE = "SLURM_JOB_ID"
_ASK_S = 10.0
"""A controller that is busy or away must not hold up a run for longer."""
_FIELD = re.compile(r"(?:^|\s)([A-Z][A-Za-z/:]*)=(\S*)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)")
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d\d(?:\.\d+)?)")


class AllocationUse(BaseModel):
    """What an attempt could use; None where nobody says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    source: Literal["scontrol show job", "operating system", "none"]
    reason: str = Field(default="", description="Why numbers are missing; blank if none is.")
    slurm_job: str = Field(default="", description="Blank outside Slurm.")
    restarts: int | None = Field(default=None, ge=0, description="How often Slurm has requeued the job.")
    partition: str = ""
    nodes: int | None = Field(default=None, ge=1)
    cores: int | None = Field(default=None, ge=1, description="On all nodes together.")
    memory_bytes: int | None = Field(default=None, ge=1, description="On all nodes together.")
    time_limit_s: float | None = Field(default=None, gt=0, description="None: no limit, or not known.")
    queue_wait_s: float | None = Field(default=None, ge=0, description="Submission to start; not of requeued jobs.")


def write_allocation(raw: Path) -> None:
    """Write what this process's job was given into ``allocation.json``.

    Parameters
    ----------
    raw
        Folder of the attempt.
    """
    job = os.environ.get(JOB_VARIABLE, "")
    write_json(read_slurm_job(_ask_slurm(job), job) if job else _this_machine(), raw / ALLOCATION)


def read_slurm_job(text: str, job: str) -> AllocationUse:
    """Return what ``scontrol show job -o`` says about a job.

    Parameters
    ----------
    text
        The output; it may be empty or of several jobs.
    job
        Number of the job.
    """
    fields = _fields_of(text, job)
    if not fields:
        reason = f"`scontrol show job {job}` told nothing about the job"
        return AllocationUse(source="none", slurm_job=job, reason=reason)
    restarts = _count(fields.get("Restarts", ""))
    resources = fields.get("AllocTRES") or fields.get("TRES") or ""
    granted = dict(part.split("=", 1) for part in resources.split(",") if "=" in part)
    values = {
        "nodes": _count(granted.get("node", "")) or _count(fields.get("NumNodes", "").split("-")[0]),
        "cores": _count(granted.get("cpu", "")) or _count(fields.get("NumCPUs", "").split("-")[0]),
        "memory_bytes": size_in_bytes(granted.get("mem", "")) or None,
    }
    missing = [name for name, value in values.items() if not value]
    return AllocationUse(
        source="scontrol show job",
        reason=f"scontrol does not tell {' and '.join(missing)}" if missing else "",
        slurm_job=job,
        restarts=restarts,
        partition=fields.get("Partition", ""),
        **{name: value or None for name, value in values.items()},
        time_limit_s=duration_in_seconds(fields.get("TimeLimit", "")) or None,
        queue_wait_s=None if restarts else _queue_wait(fields),
    )


def size_in_bytes(text: str, unit: str = "M") -> int | None:
    """Return a size of Slurm's, such as ``4000M`` or ``1.5G``; its units are powers of 1024.

    Parameters
    ----------
    text
        The size.
    unit
        What a number without a unit counts.
    """
    match = _SIZE.fullmatch(text.strip())
    return int(float(match[1]) * 1024 ** _POWERS.get(match[2] or unit, 0)) if match else None


def duration_in_seconds(text: str) -> float | None:
    """Return a time of Slurm's, ``[DAYS-][HH:]MM:SS[.SSS]``; None for UNLIMITED and anything else."""
    match = _TIME.fullmatch(text.strip())
    if not match:
        return None
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _ask_slurm(job: str) -> str:
    try:
        done = subprocess.run(
            ["scontrol", "show", "job", "-o", job], capture_output=True, text=True, timeout=_ASK_S, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout


def _fields_of(text: str, job: str) -> dict[str, str]:
    """Return the fields of one job's line; none if it is not there."""
    for line in text.splitlines():
        # The last of a name counts: the job's name, which comes first, may hold anything, as may what follows Command.
        fields = dict(_FIELD.findall(line.split(" Command=")[0]))
        if line.split(" ", 1)[0] == f"JobId={job}":
            return {**fields, "JobId": job}
    return {}


def _queue_wait(fields: dict[str, str]) -> float | None:
    try:
        # Both are local times of the same controller; only their difference is used.
        submitted, started = (datetime.fromisoformat(fields.get(name, "")) for name in ("SubmitTime", "StartTime"))
    except ValueError:
        return None
    return max((started - submitted).total_seconds(), 0.0)


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _this_machine() -> AllocationUse:
    cores, memory_bytes = len(os.sched_getaffinity(0)), psutil.virtual_memory().total
    return AllocationUse(source="operating system", nodes=1, cores=cores, memory_bytes=memory_bytes)
