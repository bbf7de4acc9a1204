"""Resources that the batch system gave an attempt: nodes, cores, memory, time limit; stored with its raw files.

The executor removes Slurm's variables inside its jobs, except the job's number, and accounting may be missing. So
everything must be asked while the job lives. Accounts and names of users are left out.
"""

import os
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel, ConfigDict, Field

from hpcai.records.files import write_json
from hpcai.slurm.job import own_job_id
from hpcai.slurm.text import duration_in_seconds, job_fields, resources_of, size_in_bytes

ALLOCATION = "allocation.json"
_ASK_S = 10.0
"""A busy or unreachable controller must not delay a run any longer."""


class AllocationUse(BaseModel):
    """Resources available to an attempt; None where unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    source: Literal["scontrol show job", "operating system", "none"]
    reason: str = Field(default="", description="Why numbers are missing; blank if none are.")
    slurm_job: str = Field(default="", description="Blank outside Slurm.")
    restarts: int | None = Field(default=None, ge=0, description="How often Slurm has requeued the job.")
    partition: str = ""
    nodes: int | None = Field(default=None, ge=1)
    cores: int | None = Field(default=None, ge=1, description="On all nodes together.")
    memory_bytes: int | None = Field(default=None, ge=1, description="On all nodes together.")
    time_limit_s: float | None = Field(default=None, gt=0, description="None: no limit, or not known.")
    queue_wait_s: float | None = Field(default=None, ge=0, description="Submission to start; not of requeued jobs.")


def write_allocation(*raws: Path) -> None:
    """Write the resources of this process's job to ``allocation.json`` of attempts that share the job.

    Parameters
    ----------
    raws
        Folders of the attempts.
    """
    job = own_job_id()
    use = read_slurm_job(_ask_slurm(job), job) if job else _this_machine()
    for raw in raws:
        write_json(use, raw / ALLOCATION)


def read_slurm_job(text: str, job: str) -> AllocationUse:
    """Parse the output of ``scontrol show job -o`` for one job.

    Parameters
    ----------
    text
        The output; it may be empty or cover several jobs.
    job
        Number of the job.
    """
    fields = job_fields(text, job)
    if not fields:
        reason = f"`scontrol show job {job}` reported nothing about the job"
        return AllocationUse(source="none", slurm_job=job, reason=reason)
    restarts = _count(fields.get("Restarts", ""))
    granted = resources_of(fields.get("AllocTRES") or fields.get("TRES") or "")
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


def _ask_slurm(job: str) -> str:
    try:
        done = subprocess.run(
            ["scontrol", "show", "job", "-o", job], capture_output=True, text=True, timeout=_ASK_S, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout


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
