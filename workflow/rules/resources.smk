"""Resource requests of the jobs, and what the controller does before the first job.

Only the controller imports what only it needs: the Snakemake of each job on a cluster reads this file, too.
"""

import functools
import os
import sys
from pathlib import Path

from snakemake.logging import logger

from hpcai.config.sharing import Sharing
from hpcai.launchers.registry import default_launcher
from hpcai.slurm.sbatch_request import WHOLE_NODES

if workflow.is_main_process:
    from hpcai.campaign.controller_note import this_controller, write_note
    from hpcai.campaign.failures import FILE as FAILURES
    from hpcai.campaign.live import wait_until_idle
    from hpcai.machine.subprocess_measure import say_lacking_cores


@functools.cache
def wait_for_orphans():
    """Wait for runs and Slurm jobs left behind by a killed controller; their results are used.

    Called while the graph of jobs is built, because a job that exists by then is submitted.
    """
    starts_jobs = workflow.executor_plugin and not (workflow.dryrun or workflow.touch)
    if workflow.is_main_process and starts_jobs:
        wait_until_idle(Path("results"), Path.cwd(), logger.info)


# Read here: the executor removes Slurm's variables from the environment before `onstart`.
CONTROLLER = this_controller() if workflow.is_main_process else None


def note_start():
    """Record the plan of the measurements, for `hpcai status` and `hpcai doctor`.

    Neither analysis alone nor `--touch`, which starts no job, changes it and the list of what failed.
    """
    if CAMPAIGN.study.measure and not workflow.touch:
        targets = workflow.dag_settings.targets
        write_note(CAMPAIGN, Path("results"), sys.argv, CONTROLLER, targets)
        FAILURES.unlink(missing_ok=True)


def name_lacking_cores():
    """Warn before any job starts which ceilings this host cannot measure; jobs check other hosts themselves."""
    pending = not all(map(os.path.exists, CEILINGS))
    for lacking in filter(None, map(say_lacking_cores, CEILING_THREADS)):
        if pending and workflow.local_exec:
            logger.warning(f"ceilings that will not be measured here: {lacking}")


# A timed run has its nodes to itself: it takes every core, whatever their number.
ALL_CORES = 1024
# Time limits of jobs: a run and its repeats, with the time before and after it (caches, checksums); measurements of the
# machine.
RUN_LIMIT_S = CAMPAIGN.study.limits.longest_s + 600
MACHINE_LIMIT_S = 3600
# Tolerated use of a node by others during a measurement, and number of repetitions.
TOLERANCE = CAMPAIGN.study.limits.disturbance.model_dump()
# Default if the profile names no launcher.
LAUNCHER = (
    {}
    if "launcher" in (workflow.resource_settings.default_resources or {})
    else {"launcher": default_launcher()}
)


def whole_nodes(nodes, limit_s, *options):
    """Resources that a measuring job requests: whole nodes for itself, which its launcher divides among the ranks.

    Its name, `mpi`, keeps Snakemake's Slurm executor from wrapping the job into a step of one node.
    """
    machine = CAMPAIGN.machine
    asked = {"nodes": nodes, WHOLE_NODES: "launcher", "runtime": int(-(-limit_s // 60))}
    asked |= {"tasks_per_node": machine.cores_per_node, "cpus_per_task": 1}
    asked |= {"mem_mb": machine.memory_bytes // 2**20}
    asked |= {"slurm_extra": " ".join(["--exclusive --no-requeue", *options])}
    if machine.accelerators_per_node:
        asked |= {
            "gres": f"gpu:{machine.accelerators_per_node}",
            "tasks_per_gpu": 0,
        }
    return asked | LAUNCHER


def in_image():
    """Parameter that runs measuring programs in the machine's image; absent without an image, so nothing changes."""
    software = CAMPAIGN.machine.software
    inside = software is not None and software.container is not None
    return {"software": software.model_dump(mode="json")} if inside else {}


def nodes_of_scale(wildcards):
    """Nodes of a run, from its scale: n2x4 has two."""
    return int(wildcards.scale[1:].split("x")[0])


def nodes_of_link(wildcards):
    """Nodes of an allreduce measurement."""
    return LINK_POINTS[wildcards.link].nodes


def nodes_of_group(wildcards):
    """Nodes of a weak-scaling group, for all its instances together."""
    group = f"{wildcards.benchmark}/{wildcards.variant}/{wildcards.scale}"
    first = WEAK_PLANS[next(run for run in WEAK_PLANS if run.startswith(f"{group}/"))]
    point, together = first.point, first.instances
    sharing = Sharing.of(first.machine, point.nodes, point.ranks_per_node, together)
    return sharing.nodes_needed
