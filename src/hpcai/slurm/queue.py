"""A campaign's jobs in Slurm's queue: those submitted from its working folder."""

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hpcai.slurm.job import own_job_id

ANSWER_WITHIN_S = 20.0
RULE = "rule_"
"""Prefix of job comments by Snakemake's executor plugin."""
COLUMNS = "%i|%T|%r|%j|%Z|%k"
"""Job, state, reason, name, working folder, comment; the executor plugin's comment has rule and wildcards."""


@dataclass(frozen=True)
class QueuedJob:
    """One job in Slurm's queue."""

    job_id: str
    state: str
    reason: str
    """Why it is not running; "None" if it is."""
    name: str
    """Shared by all jobs of one start of the workflow."""
    work: str
    """Rule and wildcards, as far as known."""

    @property
    def remedy(self) -> str:
        """The command that ends it, together with all jobs of its start of the workflow."""
        return shlex.join(["scancel", f"--name={self.name}"])


def queued_jobs(working_folder: Path) -> tuple[QueuedJob, ...] | None:
    """Return this user's jobs that Snakemake submitted from a folder; None without Slurm, or without an answer.

    This process's own job is excluded: a workflow may itself run in a job.
    """
    command = ["squeue", "--me", "--noheader", f"--format={COLUMNS}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    # squeue lists an array job by its index.
    place = "_".join(os.environ.get(f"SLURM_ARRAY_{part}_ID", "") for part in ("JOB", "TASK"))
    return tuple(job for job in parse_queue(answer.stdout, working_folder) if job.job_id not in {own_job_id(), place})


def parse_queue(text: str, working_folder: Path) -> tuple[QueuedJob, ...]:
    """Return the jobs of a folder from squeue's output in :data:`COLUMNS`; other lines are ignored."""
    jobs = []
    for line in text.splitlines():
        parts = line.split("|", maxsplit=5)
        if len(parts) != 6 or not parts[5].startswith(RULE) or Path(parts[4]).resolve() != working_folder.resolve():
            continue
        job_id, state, reason, name, _, comment = parts
        work = comment.removeprefix(RULE).replace("_wildcards_", " ")
        jobs.append(QueuedJob(job_id, state, reason, name, work))
    return tuple(jobs)
