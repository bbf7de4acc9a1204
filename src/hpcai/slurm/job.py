"""What Slurm says about a job: asked of the controller, because accounting may not be there (sacct(1))."""

import os
import subprocess
from dataclasses import dataclass
from functools import cache

from hpcai.slurm.text import duration_in_seconds, job_fields

ASK_S = 10.0
"""Longest wait for an answer; a controller that restarts does not answer for a while."""
ENDED = frozenset(
    (
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    )
)
"""States in which a job does not run any more (squeue(1), JOB STATE CODES)."""


@dataclass(frozen=True)
class SlurmJob:
    """A job as the controller sees it.

    Attributes
    ----------
    job_id
        Number of the job, without its step or its place in an array.
    state
        Such as RUNNING; a job that is being ended is COMPLETING.
    reason
        Why it waits or ended, such as TimeLimit; blank if Slurm gives none.
    restarts
        How often it was put back into the queue.
    nodes
        Slurm's list of its nodes, such as n[1-2]; blank while it waits, and only a part while it is being ended.
    preempted
        Whether it had to make room for another job.
    time_limit_s
        Longest time that it may run [s]; None: no limit, or not told.
    end_time
        When it ended or has to end at the latest, in the controller's local time; blank if not told.
    """

    job_id: str
    state: str
    reason: str
    restarts: int
    nodes: str
    preempted: bool
    time_limit_s: int | None
    end_time: str

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more, as far as Slurm can tell."""
        return self.state in ENDED


def own_job_id() -> str:
    """Return the number of the job that this process runs in; blank outside of Slurm."""
    return os.environ.get("SLURM_JOB_ID", "")


@cache
def own_job() -> SlurmJob | None:
    """Return the job that this process runs in, as it was when this was asked first; None outside of Slurm."""
    return state_of(own_job_id()) if own_job_id() else None


def state_of(job_id: str, ask_s: float = ASK_S) -> SlurmJob | None:
    """Return what the controller knows about a job.

    Parameters
    ----------
    job_id
        Number of the job.
    ask_s
        Longest wait for an answer [s].

    Returns
    -------
    SlurmJob or None
        None if there is no Slurm here, it does not answer, or it does not know the job (any more).
    """
    answer = _ask(["scontrol", "show", "job", "--oneliner", job_id], ask_s)
    return _job_of(job_fields("\n".join(answer), job_id))


def down_nodes(nodes: str, ask_s: float = ASK_S) -> list[str]:
    """Return which of some nodes, in Slurm's way to list them, have failed; none if Slurm does not tell."""
    if not nodes:
        return []
    states = "--states=down,fail,no_respond"
    # One line for each partition that a node is in.
    return sorted({*_ask(["sinfo", "--noheader", "--Node", f"--nodes={nodes}", states, "--format=%N"], ask_s)})


def _ask(command: list[str], ask_s: float) -> list[str]:
    """Return the lines that a command of Slurm prints; none if it cannot be asked."""
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=ask_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in answer.stdout.splitlines()]


def _job_of(fields: dict[str, str]) -> SlurmJob | None:
    if not fields.get("JobState"):
        return None
    restarts, nodes = fields.get("Restarts", ""), fields.get("NodeList", "")
    limit_s = duration_in_seconds(fields.get("TimeLimit", ""))
    return SlurmJob(
        job_id=fields["JobId"],
        state=fields["JobState"],
        reason=_told(fields.get("Reason", "")),
        restarts=int(restarts) if restarts.isdigit() else 0,
        nodes=_told(nodes),
        preempted=_told(fields.get("PreemptTime", "")) != "",
        time_limit_s=None if limit_s is None else int(limit_s),
        end_time=_told(fields.get("EndTime", "")),
    )


def _told(value: str) -> str:
    return "" if value in {"None", "(null)", "Unknown", "N/A"} else value
