"""Query a site: one command per question; each output is kept with its command."""

import getpass
import os
import shlex
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ANSWER_LIMIT_S = 30.0
SINFO_FIELDS = ("%R", "%a", "%D", "%T", "%X", "%Y", "%Z", "%m", "%d", "%G", "%f")
"""Partition, availability, nodes, state, sockets, cores, threads, memory [MiB], local disk [MiB], gres, features."""
ASSOCIATION_FIELDS = ("Cluster", "Account", "Partition", "QOS", "DefaultQOS", "MaxWall", "MaxSubmit", "MaxTRES")
SUBMIT_FIELDS = ("MaxSubmitJobsPU", "MaxSubmitJobsPA")
"""Jobs in the queue: of a user, and of all users of an account."""
QOS_FIELDS = ("Name", "MaxWall", "MaxTRES", "MaxTRESPU", *SUBMIT_FIELDS)
"""MaxTRES is the maximum for one job, MaxTRESPU for all jobs of a user."""
INFINIBAND = "grep --with-filename . /sys/class/infiniband/*/ports/*/rate /sys/class/infiniband/*/ports/*/state"
PLACES = ("/tmp", "/local", "/localscratch", "/lscratch", "/scratch/local", "/mnt/local", "/nvme")  # noqa: S108
"""Folders that sites usually put on the nodes' own disks."""


@dataclass(frozen=True)
class Answer:
    """Output of a command, or the reason if there was none."""

    command: str
    text: str = ""
    silence: str = ""


Answers = Mapping[str, Answer]
"""Answers by the names of the questions."""


def questions(folder: Path) -> dict[str, list[str]]:
    """Return the command for each question.

    Parameters
    ----------
    folder
        Future folder of the study, to find its file system.
    """
    user = _user()
    parsable = ["sacctmgr", "--noheader", "--parsable2", "show"]
    places = dict.fromkeys([str(folder), os.environ.get("TMPDIR", ""), *PLACES])
    there = [place for place in places if place and Path(place).is_dir()]
    return {
        "sinfo": ["sinfo", "--noheader", "--exact", f"--format={'|'.join(SINFO_FIELDS)}"],
        "partitions": ["scontrol", "show", "partition", "--oneliner"],
        "config": ["scontrol", "show", "config"],
        "nodes": ["scontrol", "show", "node", "--oneliner"],
        "associations": [*parsable, "associations", f"user={user}", f"format={','.join(ASSOCIATION_FIELDS)}"],
        "user": [*parsable, "user", user, "format=DefaultAccount"],
        "qos": [*parsable, "qos", f"format={','.join(QOS_FIELDS)}"],
        "mpi_types": ["srun", "--mpi=list"],
        "groups": ["id", "--groups", "--name"],
        "lscpu": ["lscpu"],
        "memory": ["grep", "MemTotal", "/proc/meminfo"],
        "gpus": ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"],
        "disks": ["df", "--block-size=1", "--output=source,fstype,size,avail,target", *there],
        "modules": ["bash", "-lc", "module --terse avail"],
        "mpirun": ["mpirun", "--version"],
        "network": ["sh", "-c", INFINIBAND],
    }


def ask_here(folder: Path) -> dict[str, Answer]:
    """Ask this host all questions; submits nothing and changes nothing."""
    return {name: _ask(command) for name, command in questions(folder).items()}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in a container
        return str(os.getuid())


def _ask(command: list[str]) -> Answer:
    said = shlex.join(command) if command[0] not in ("sh", "bash") else command[-1]
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, capture_output=True, check=False, timeout=ANSWER_LIMIT_S, env=environment, stdin=subprocess.DEVNULL
        )
    except OSError:
        return Answer(said, silence="program not found")
    except subprocess.TimeoutExpired:
        return Answer(said, silence=f"no answer within {ANSWER_LIMIT_S:g} s")
    # `module avail` and `srun --mpi=list` print to the other stream.
    output, error = (stream.decode(errors="replace").strip() for stream in (done.stdout, done.stderr))
    text = output or error if done.returncode == 0 else ""
    if text:
        return Answer(said, text)
    return Answer(said, silence=" ".join(error.split())[:200] or "it printed nothing")


def fact_of(answers: Answers, name: str, read: Callable[[str], T]) -> T:
    """Return the parsed answer; a missing answer is parsed as empty text."""
    answer = answers.get(name)
    return read(answer.text if answer else "")
