"""The ranks to start, and their nodes."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcai.config.machine import this_node
from hpcai.core.errors import LaunchError
from hpcai.slurm.allocation import find_allocation
from hpcai.slurm.step import RANKS_END_TOGETHER, step_command

if TYPE_CHECKING:  # a rank queries launchers for its place before any heavy import
    from hpcai.config.runs import RunPlan
    from hpcai.records.weak import NodeShare


@dataclass(frozen=True)
class Ranks:
    """Number and placement of the ranks to start."""

    name: str
    nodes: int
    ranks_per_node: int
    cores_per_rank: int
    shares: tuple["NodeShare", ...] = ()
    """Parts of nodes for an instance of a weak-scaling group; empty for whole nodes of the job."""

    @classmethod
    def of(cls, plan: "RunPlan", shares: tuple["NodeShare", ...] = ()) -> "Ranks":
        """Return the ranks of a run."""
        return cls(plan.run_id, plan.point.nodes, plan.point.ranks_per_node, plan.machine.cores_per_rank, shares)

    @property
    def count(self) -> int:
        """Number of ranks."""
        return self.nodes * self.ranks_per_node


def hosts_of(ranks: Ranks) -> tuple[str, ...]:
    """Return the nodes for the ranks: from their shares, or the first ones of Slurm's job; empty outside of a job.

    Raises
    ------
    LaunchError
        If the job has fewer nodes than the run.
    """
    if ranks.shares:
        return tuple(share.host for share in ranks.shares)
    allocation = find_allocation()
    if allocation is None:
        return ()
    if len(allocation.nodes) < ranks.nodes:
        raise LaunchError(
            f"{ranks.name}: found {len(allocation.nodes)} nodes in job {allocation.job_id}, expected {ranks.nodes}; "
            "request more nodes from Slurm"
        )
    return allocation.nodes[: ranks.nodes]


def are_here(ranks: Ranks) -> bool:
    """Return whether all ranks belong to this node, so that no step is needed to reach them.

    A process of a job may be on none of its nodes: `salloc` can leave the shell on the login node.

    Raises
    ------
    LaunchError
        If the job has fewer nodes than the run.
    """
    hosts = hosts_of(ranks)
    return {*hosts} == {this_node()} if hosts else ranks.nodes == 1


def meeting_step(ranks: Ranks) -> list[str]:
    """Return the arguments of `hpcai.training.launch_nodes` that start ranks on the nodes of Slurm's job.

    They meet at a rendezvous around the step, and need neither MPI nor ssh.

    Raises
    ------
    LaunchError
        If the job has fewer nodes than the run.
    """
    hosts = hosts_of(ranks)
    layout = ["--hosts", ",".join(hosts), "--ranks-per-node", str(ranks.ranks_per_node), "--"]
    step = [*step_command(hosts, ranks.ranks_per_node), *RANKS_END_TOGETHER, "--mpi=none"]
    return [*layout, *step, sys.executable, "-m", "hpcai.training.join_step"]
