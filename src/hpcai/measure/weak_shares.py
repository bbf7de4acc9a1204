"""Shares a machine among the instances of a weak-scaling group, before any of them starts."""

import os

from hpcai.config.machine import Machine, this_node
from hpcai.config.runs import RunPlan
from hpcai.config.sharing import Sharing
from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message, at
from hpcai.launchers.registry import find_launcher
from hpcai.records.weak import InstanceShare, NodeShare
from hpcai.slurm.allocation import find_allocation

TOO_FEW_CORES = Message(
    "weak_shares.too_few_cores",
    "found {found} usable cores on this node, expected {expected} for instances with cores of their own "
    "(cores_per_rank {cores_per_rank}); give the job more cores, or lower the instances of the table or "
    "cores_per_rank of the machine file",
)
NEEDS_A_JOB = Message(
    "weak_shares.needs_a_job",
    "the instances need {nodes} nodes, which {launcher} finds inside a job of Slurm only; start the group there",
)
TOO_FEW_NODES = Message(
    "weak_shares.too_few_nodes", "found {found} nodes in the job, expected {expected}; ask Slurm for more nodes"
)
TOO_FEW_ACCELERATORS = Message(
    "weak_shares.too_few_accelerators",
    "found the accelerators {found} on this node, expected {expected} for instances with accelerators of their "
    "own; correct CUDA_VISIBLE_DEVICES or the job's request",
)


def sharing_of(plan: RunPlan) -> Sharing:
    """Return how the group of an instance shares the machine."""
    point = plan.point
    return Sharing.of(plan.machine, point.nodes, point.ranks_per_node, plan.instances or 1)


def share_machine(plan: RunPlan, launcher: str) -> tuple[InstanceShare, ...]:
    """Return what each instance of a group has for itself.

    On several nodes all are taken to be like this one: the cores and accelerators that may be used here stand for
    theirs. Where a batch system makes a job for each instance, it chooses their cores; they stay empty.

    Parameters
    ----------
    plan
        Of any instance: all of a group differ in number and seed alone.
    launcher
        How the ranks are started.

    Raises
    ------
    LaunchError
        If there are fewer nodes, cores or accelerators than the instances need.
    """
    group, sharing = plan.run_id.rsplit("/", 1)[0], sharing_of(plan)
    hosts = _hosts(group, launcher, sharing.nodes_needed)
    slurm_chooses = find_launcher(launcher).of_batch_system and find_allocation() is None
    cores = [] if slurm_chooses else sorted(os.sched_getaffinity(0))
    if not slurm_chooses and len(cores) < sharing.cores_needed:
        raise LaunchError(
            at(
                str(group),
                TOO_FEW_CORES(
                    found=len(cores), expected=sharing.cores_needed, cores_per_rank=plan.machine.cores_per_rank
                ),
            )
        )
    accelerators = _accelerators(group, plan.machine, sharing)
    return tuple(
        InstanceShare(
            instance=number,
            nodes=tuple(
                NodeShare(
                    host=host,
                    cores=sharing.cores_of(number, cores),
                    accelerators=sharing.accelerators_of(number, accelerators),
                )
                for host in sharing.hosts_of(number, hosts)
            ),
        )
        for number in range(1, sharing.instances + 1)
    )


def _hosts(group: str, launcher: str, nodes: int) -> tuple[str, ...]:
    """Return the names of the nodes that the group uses: this one, or the first of Slurm's job."""
    allocation = find_allocation()
    if allocation is None and nodes == 1:
        return (this_node(),)
    if allocation is None:
        raise LaunchError(at(str(group), NEEDS_A_JOB(nodes=nodes, launcher=launcher)))
    if len(allocation.nodes) < nodes:
        raise LaunchError(at(str(group), TOO_FEW_NODES(found=len(allocation.nodes), expected=nodes)))
    return allocation.nodes[:nodes]


def _accelerators(group: str, machine: Machine, sharing: Sharing) -> list[str]:
    """Return the accelerators that may be used on a node, as CUDA_VISIBLE_DEVICES names them."""
    if machine.device.kind == "cpu":
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    found = list(map(str, range(machine.accelerators_per_node))) if visible is None else visible.split(",")
    needed = min(sharing.instances, sharing.per_block) * sharing.ranks_per_node
    if len(found) < needed:
        raise LaunchError(at(str(group), TOO_FEW_ACCELERATORS(found=", ".join(found), expected=needed)))
    return found
