"""State of a job from Slurm's controller, because accounting may be missing (sacct(1))."""

import os
import subprocess
from dataclasses import dataclass
from functools import cache

from hpcai.slurm.text import duration_in_seconds, job_fields

ASK_S = 10.0
"""Longest wait for an answer; a restarting controller does not answer for a while."""
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
"""States of a job that is no longer running (squeue(1), JOB STATE CODES)."""


@dataclass(frozen=True)
class SlurmJob:
    """A job as reported by the controller.

    Attributes
    ----------
    job_id
        Id of the job, without its step or array index.
    state
        Such as RUNNING; a job that is being ended is COMPLETING.
    reason
        Why it waits or ended, such as TimeLimit; blank if Slurm gives none.
    restarts
        Number of requeues.
    nodes
        Slurm's list of its nodes, such as n[1-2]; blank while it waits, and incomplete while it is being ended.
    preempted
        Whether it was preempted by another job.
    time_limit_s
        Time limit [s]; None: no limit, or unknown.
    end_time
        Actual or latest end, in the controller's local time; blank if unknown.
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
        """Whether nothing of it is running any more, as far as Slurm knows."""
        return self.state in ENDED


def own_job_id() -> str:
    """Return the id of this process's job; blank outside of Slurm."""
    return os.environ.get("SLURM_JOB_ID", "")


@cache
def own_job() -> SlurmJob | None:
    """Return this process's job as of the first query; None outside of Slurm."""
    return state_of(own_job_id()) if own_job_id() else None


def state_of(job_id: str, ask_s: float = ASK_S) -> SlurmJob | None:
    """Return the controller's information about a job.

    Parameters
    ----------
    job_id
        Id of the job.
    ask_s
        Longest wait for an answer [s].

    Returns
    -------
    SlurmJob or None
        None if Slurm is missing, does not answer, or does not know the job (any more).
    """
    answer = _ask(["scontrol", "show", "job", "--oneliner", job_id], ask_s)
    return _job_of(job_fields("\n".join(answer), job_id))


def down_nodes(nodes: str, ask_s: float = ASK_S) -> list[str]:
    """Return the failed ones among some nodes, given as a Slurm node list; empty if Slurm does not report any."""
    if not nodes:
        return []
    states = "--states=down,fail,no_respond"
    # One line per partition of a node.
    return sorted({*_ask(["sinfo", "--noheader", "--Node", f"--nodes={nodes}", states, "--format=%N"], ask_s)})


def _ask(command: list[str], ask_s: float) -> list[str]:
    """Return the output lines of a Slurm command; empty if it fails."""
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
