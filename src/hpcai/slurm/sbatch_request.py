"""A job's request to Slurm, as made by Snakemake's executor plugin, and the key that a rejection refers to."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from hpcai.core.messages import Message

CHANGE_REQUEST = Message("sbatch_request.change_request", "change what the job requests")

Resources = Mapping[str, str | int]
WHOLE_NODES = "mpi"
"""A job with this resource requests whole nodes of the machine file (`whole_nodes` in workflow/rules/resources.smk)."""
RUNS = ("train", "train_together", "profile_run")
"""Rules with the study's time limit of a run."""
ACCEPTANCE = "measure_acceptance"
"""The rule with the study's time limit of an acceptance; all others that request whole nodes have a fixed one."""
FROM_ACCEPTANCE = {
    "runtime": "acceptance.limit_s of the study",
    "nodes": "acceptance.nodes of the study, or nodes of the machine file",
}
"""Origin of what is asked for the acceptance only."""
FROM_STUDY = {
    "mem_mb": "memory_bytes of the machine file",
    "tasks_per_node": "cores_per_node of the machine file",
    "gres": "accelerators_per_node of the machine file",
    "nodes": "nodes of the run table",
}
"""Origin of each value in a request for whole nodes."""
REFUSALS = (
    (re.compile(r"time limit", re.IGNORECASE), "runtime"),
    (re.compile(r"account", re.IGNORECASE), "slurm_account"),
    (re.compile(r"\bqos\b", re.IGNORECASE), "qos"),
    (re.compile(r"reservation", re.IGNORECASE), "slurm_extra"),
    (re.compile(r"feature|constraint", re.IGNORECASE), "constraint"),
    (re.compile(r"generic resource|gres|gpu", re.IGNORECASE), "gres"),
    (re.compile(r"memory", re.IGNORECASE), "mem_mb"),
    (re.compile(r"partition", re.IGNORECASE), "slurm_partition"),
    (re.compile(r"node count", re.IGNORECASE), "nodes"),
    (re.compile(r"node configuration|processors|cpu", re.IGNORECASE), "tasks_per_node"),
)
"""Phrases of Slurm's rejections (slurm/src/common/slurm_errno.c), and the resource that each refers to."""
REMEDIES = {
    "runtime": "lower it, or choose a partition that allows jobs of this length (slurm_partition)",
    "slurm_account": "name an account of yours that may use the partition (`sacctmgr show associations user=$USER`)",
    "slurm_partition": "name one of `sinfo --summarize`",
    "qos": "name one that your account may use (`sacctmgr show associations user=$USER format=account,qos`)",
    "constraint": "name features that nodes have (`sinfo --format='%N %f'`)",
    "gres": "request what nodes have (`sinfo --format='%N %G'`), or choose the partition that has it (slurm_partition)",
    "mem_mb": "request at most what a node has (`sinfo --format='%N %m'`), or choose another partition "
    "(slurm_partition)",
    "nodes": "request at most as many nodes as the partition has and allows, or choose another one (slurm_partition)",
    "tasks_per_node": "request at most what a node has (`sinfo --format='%N %c %m'`), or choose another "
    "slurm_partition",
    "slurm_extra": "correct it",
}


@dataclass(frozen=True)
class Request:
    """Request of one kind of job."""

    rules: tuple[str, ...]
    resources: Resources
    threads: int


def sbatch_options(request: Request, settings: Resources) -> list[str]:
    """Return the sbatch options for a job.

    Parameters
    ----------
    request
        The job's resources, as Snakemake computed them.
    settings
        Keys of the profile.
    """
    asked = request.resources
    options = [f"{option}={asked[name]}" for name, option in _OPTIONS.items() if asked.get(name)]
    options += [f"{option}={settings[name]}" for name, option in _SETTINGS.items() if settings.get(name)]
    options += ["--requeue"] if settings.get("slurm-requeue") else []
    if asked.get("mem_mb_per_cpu"):
        options.append(f"--mem-per-cpu={asked['mem_mb_per_cpu']}")
    elif asked.get("mem_mb"):
        options.append(f"--mem={asked['mem_mb']}")
    options += [*_task_options(asked), *_core_options(asked, request.threads)]
    return [*options, *shlex.split(str(asked.get("slurm_extra", "")))]


_OPTIONS = {
    "slurm_account": "--account",
    "slurm_partition": "--partition",
    "slurm_cluster": "--cluster",
    "runtime": "--time",
    "constraint": "--constraint",
    "qos": "--qos",
    "nodes": "--nodes",
    "gres": "--gres",
}
_SETTINGS = {"slurm-qos": "--qos", "slurm-reservation": "--reservation"}


def _task_options(asked: Resources) -> list[str]:
    if _has_accelerators(asked):
        per_gpu = int(asked.get("tasks_per_gpu", asked.get("tasks", 1)))
        options = [f"--ntasks-per-gpu={per_gpu}"] if per_gpu >= 1 else []
    else:
        options = [] if asked.get(WHOLE_NODES) else [f"--ntasks={asked.get('tasks') or 1}"]
    if asked.get(WHOLE_NODES) and asked.get("tasks_per_node"):
        options.append(f"--ntasks-per-node={asked['tasks_per_node']}")
    elif asked.get(WHOLE_NODES):
        options.append(f"--ntasks={asked['tasks']}")
    return options


def _core_options(asked: Resources, threads: int) -> list[str]:
    if asked.get("cpus_per_task"):
        cores = int(asked["cpus_per_task"])
        return [f"--cpus-per-task={cores}"] if cores > 0 else []
    if _has_accelerators(asked) and asked.get("cpus_per_gpu"):
        cores = int(asked["cpus_per_gpu"])
        return [f"--cpus-per-gpu={cores}"] if cores > 0 else []
    return [f"--cpus-per-task={threads}"]


def _has_accelerators(asked: Resources) -> bool:
    return "gpu" in str(asked.get("gres", ""))


def key_of(words: str) -> str:
    """Return the resource that Slurm's rejection refers to; blank if the text is unknown."""
    return next((key for pattern, key in REFUSALS if pattern.search(words)), "")


def advise(words: str) -> str:
    """Advise what to do about a rejection by Slurm."""
    key = key_of(words)
    change = f"{key}: {REMEDIES[key]}" if key else CHANGE_REQUEST()
    return f"{change}; `hpcai check STUDY --profile PROFILE` says which file it is in, and checks all kinds of jobs"
