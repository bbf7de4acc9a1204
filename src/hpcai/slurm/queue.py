"""What Slurm's queue holds of a campaign: the jobs that were submitted from its working folder."""

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hpcai.slurm.job import own_job_id

ANSWER_WITHIN_S = 20.0
RULE = "rule_"
"""How the comments of jobs begin that Snakemake's executor plugin has submitted."""
COLUMNS = "%i|%T|%r|%j|%Z|%k"
"""Job, state, reason, name, working folder, comment: the executor plugin writes rule and wildcards there."""


@dataclass(frozen=True)
class QueuedJob:
    """One job in Slurm's queue."""

    job_id: str
    state: str
    reason: str
    """Why it does not run; "None" if it does."""
    name: str
    """The same for all jobs of one start of the workflow."""
    work: str
    """Rule and wildcards, as far as they are known."""

    @property
    def remedy(self) -> str:
        """The command that ends it, together with all jobs of its start of the workflow."""
        return shlex.join(["scancel", f"--name={self.name}"])


def queued_jobs(working_folder: Path) -> tuple[QueuedJob, ...] | None:
    """Return this user's jobs that Snakemake submitted from a folder; None if there is no Slurm, or no answer.

    The job that this process runs in is none of them: a workflow may be a job of another one.
    """
    command = ["squeue", "--me", "--noheader", f"--format={COLUMNS}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if answer.returncode != 0:
        return None
    # A job of an array is listed by its place in it.
    place = "_".join(os.environ.get(f"SLURM_ARRAY_{part}_ID", "") for part in ("JOB", "TASK"))
    return tuple(job for job in parse_queue(answer.stdout, working_folder) if job.job_id not in {own_job_id(), place})


def parse_queue(text: str, working_folder: Path) -> tuple[QueuedJob, ...]:
    """Return the jobs of a folder from squeue's answer in :data:`COLUMNS`; other lines are left out."""
    jobs = []
    for line in text.splitlines():
        parts = line.split("|", maxsplit=5)
        if len(parts) != 6 or not parts[5].startswith(RULE) or Path(parts[4]).resolve() != working_folder.resolve():
            continue
        job_id, state, reason, name, _, comment = parts
        work = comment.removeprefix(RULE).replace("_wildcards_", " ")
        jobs.append(QueuedJob(job_id, state, reason, name, work))
    return tuple(jobs)
