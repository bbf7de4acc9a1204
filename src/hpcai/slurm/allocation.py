"""The Slurm job that this process belongs to, and its nodes."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import tenacity

from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message, at
from hpcai.slurm.text import job_fields

NO_NODES = Message("allocation.no_nodes", "found no NodeList, expected a running job; run this inside a Slurm job")
REFUSED = Message(
    "allocation.refused",
    "`{command}` ended with status {status} ({words}), expected information on this job; unset SLURM_JOB_ID if this "
    "is not a Slurm job",
)
NO_SCONTROL = Message("allocation.no_scontrol", "scontrol: not found on the PATH, expected inside a Slurm job")

ANSWER_LIMIT_S = 30
TRIES = 4
PAUSE_S = 5.0
"""Controllers of real clusters are restarted now and then; that must not cost a run."""


@dataclass(frozen=True)
class Allocation:
    """The nodes of a job, with Slurm's names and order; the batch script runs on the first."""

    job_id: str
    nodes: tuple[str, ...]


def find_allocation(environment: Mapping[str, str] = os.environ) -> Allocation | None:
    """Return the Slurm job of this process; None outside of any.

    Only the job id is taken from the environment, because Snakemake's executor removes most other variables of Slurm.
    The query runs once: a job keeps its allocation.

    Raises
    ------
    LaunchError
        If Slurm does not describe the job.
    """
    job = environment.get("SLURM_JOB_ID")
    return _read_allocation(job) if job else None


@cache
def _read_allocation(job: str) -> Allocation:
    nodes = job_fields(_scontrol("show", "job", "--oneliner", job), job).get("NodeList", "")
    if nodes in {"", "(null)"}:
        raise LaunchError(at(f"scontrol show job {job}", NO_NODES()))
    return Allocation(job, tuple(_scontrol("show", "hostnames", nodes).split()))


@tenacity.retry(
    retry=tenacity.retry_if_exception_type(LaunchError),
    stop=tenacity.stop_after_attempt(TRIES),
    wait=tenacity.wait_fixed(PAUSE_S),
    reraise=True,
)
def _scontrol(*arguments: str) -> str:
    command = ["scontrol", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_LIMIT_S)
    except FileNotFoundError as error:
        raise LaunchError(NO_SCONTROL()) from error
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"`{' '.join(command)}` gave no answer within {ANSWER_LIMIT_S} s; try again later") from error
    if done.returncode:
        raise LaunchError(REFUSED(command=" ".join(command), status=done.returncode, words=done.stderr.strip()))
    return done.stdout
