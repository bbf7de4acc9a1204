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
"""The controller of a real cluster is restarted now and then; no run shall be lost to that."""


@dataclass(frozen=True)
class Allocation:
    """The nodes of a job, as Slurm names them, in its order; the batch script runs on the first."""

    job_id: str
    nodes: tuple[str, ...]


def find_allocation(environment: Mapping[str, str] = os.environ) -> Allocation | None:
    """Return the Slurm job that this process belongs to; None outside of any.

    Only the number of the job is taken from the environment, for Snakemake's executor removes most other variables of
    Slurm. It is asked for once: a job keeps what it was given.

    Raises
    ------
    LaunchError
        If Slurm does not tell about the job.
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
