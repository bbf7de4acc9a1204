"""Launchers: how the ranks of a run are started."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpcai.config.machine import this_node
from hpcai.config.runs import RunPlan
from hpcai.core.errors import LaunchError
from hpcai.records.weak import NodeShare
from hpcai.slurm.allocation import Allocation, find_allocation

LAST_RANK_WAIT_S = 300
"""Ranks end together, but the first of a node then removes what was staged there, which may take minutes."""
TRAVELS = ("CUDA_", "HOROVOD_", "HPCAI_", "KMP_", "NCCL_", "OMP_", "PYTHON", "TF_", "UCX_", "XLA_")
TRAVELS_TOO = ("LD_LIBRARY_PATH", "PATH", "TMPDIR")


@dataclass(frozen=True)
class Ranks:
    """How many ranks are started where."""

    name: str
    nodes: int
    ranks_per_node: int
    cores_per_rank: int
    shares: tuple[NodeShare, ...] = ()
    """Parts of nodes for an instance of a weak-scaling group; empty: the nodes of the job, whole."""

    @classmethod
    def of(cls, plan: RunPlan, shares: tuple[NodeShare, ...] = ()) -> "Ranks":
        """Return the ranks of a run."""
        return cls(plan.run_id, plan.point.nodes, plan.point.ranks_per_node, plan.machine.cores_per_rank, shares)

    @property
    def count(self) -> int:
        """Number of ranks."""
        return self.nodes * self.ranks_per_node


def launch_command(launcher: str, ranks: Ranks, program: Sequence[str]) -> list[str]:
    """Return the command line that starts ``program`` once per rank.

    Raises
    ------
    LaunchError
        If the launcher is unknown, not installed, or cannot start this run.
    """
    if launcher not in LAUNCHERS:
        raise LaunchError(f"launcher {launcher!r}: unknown; allowed: {', '.join(LAUNCHERS)} (see profiles/)")
    return [*LAUNCHERS[launcher](ranks), *_confined(ranks, program)]


def hosts_of(ranks: Ranks) -> tuple[str, ...]:
    """Return the nodes that ranks are started on: of their shares, else the first of Slurm's job; empty outside of one.

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
            "ask Slurm for more nodes"
        )
    return allocation.nodes[: ranks.nodes]


def step_command(hosts: Sequence[str], ranks_per_node: int) -> list[str]:
    """Return srun with the layout of a step inside this job; nothing of it is left to the environment.

    A step sees all that the job was given of its nodes, and so does any other at the same time: no step waits for
    another, or for the memory of another. Ranks bind themselves to cores, in the same way under every launcher.
    """
    return [
        _find("srun"),
        f"--nodes={len(hosts)}",
        f"--ntasks={len(hosts) * ranks_per_node}",
        f"--ntasks-per-node={ranks_per_node}",
        f"--nodelist={','.join(hosts)}",
        "--distribution=block:block",
        "--overlap",
        "--mem=0",
        *_COMMON,
    ]


_COMMON = ("--cpu-bind=none", "--export=ALL")
"""No --gpu-bind=none: Slurm 22.05 then takes CUDA_VISIBLE_DEVICES away. Without it all ranks see all of their node."""
_RANKS_END_TOGETHER = ("--kill-on-bad-exit=1", f"--wait={LAST_RANK_WAIT_S}", "--input=none", "--label")


def _confined(ranks: Ranks, program: Sequence[str]) -> list[str]:
    """Keep a program to its share of a node: the same cores and accelerators on each of its nodes."""
    share = ranks.shares[0] if ranks.shares else NodeShare(host="", cores=())
    visible = ["env", f"CUDA_VISIBLE_DEVICES={','.join(share.accelerators)}"] if share.accelerators else []
    cores = [_find("taskset"), "--cpu-list", ",".join(map(str, share.cores))] if share.cores else []
    return [*visible, *cores, *program]


def _horovodrun(ranks: Ranks) -> list[str]:
    if ranks.nodes == 1 and {share.host for share in ranks.shares} <= {this_node()}:
        return [sys.executable, "-m", "hpcai.training.launch", "-np", str(ranks.count), "--gloo"]
    if find_allocation() is None:
        raise LaunchError(
            f"{ranks.name}: horovodrun reaches other nodes only inside a job of Slurm; "
            "start it there, or use the launcher mpirun or srun"
        )
    hosts = hosts_of(ranks)
    layout = ["--gloo", "--hosts", ",".join(hosts), "--ranks-per-node", str(ranks.ranks_per_node)]
    rendezvous = [sys.executable, "-m", "hpcai.training.launch_nodes", *layout, "--"]
    step = [*step_command(hosts, ranks.ranks_per_node), *_RANKS_END_TOGETHER, "--mpi=none"]
    return [*rendezvous, *step, sys.executable, "-m", "hpcai.training.join_step"]


def _mpirun(ranks: Ranks) -> list[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    per_node = f"ppr:{ranks.ranks_per_node}:node"
    options = ["-np", str(ranks.count), "--map-by", per_node, "--oversubscribe", "--bind-to", "none"]
    command = [_find("mpirun"), *root, *options]
    allocation = find_allocation()
    if allocation is not None:
        hosts = hosts_of(ranks)
        # From a node that is none of its own Open MPI starts ranks on that one.
        there = [] if hosts[0] == this_node() else [*step_command(hosts[:1], 1), "--mpi=none", "--input=none"]
        return [*there, *_slurm_variables(allocation, hosts, ranks.ranks_per_node), *command]
    # This node alone needs no name, which may lead through a network.
    elsewhere = {share.host for share in ranks.shares} - {this_node()}
    slots = ",".join(f"{share.host}:{ranks.ranks_per_node}" for share in ranks.shares)
    return [*command, *(["--host", slots] if elsewhere else []), *(_travelling() if ranks.nodes > 1 else [])]


def _slurm_variables(allocation: Allocation, hosts: Sequence[str], ranks_per_node: int) -> list[str]:
    """Give Open MPI the variables by which it knows its nodes, and starts its daemons there by srun.

    Snakemake's executor has removed them. The daemons hand the whole environment on, so that nothing has to be named.
    """
    variables = {
        "SLURM_JOBID": allocation.job_id,
        "SLURM_NODELIST": ",".join(hosts),
        "SLURM_JOB_NODELIST": ",".join(hosts),
        "SLURM_NNODES": str(len(hosts)),
        "SLURM_JOB_NUM_NODES": str(len(hosts)),
        "SLURM_TASKS_PER_NODE": f"{ranks_per_node}(x{len(hosts)})" if len(hosts) > 1 else str(ranks_per_node),
        # Else the daemons of one instance of a group would wait for those of another to end.
        "SLURM_OVERLAP": "1",
    }
    return ["env", *(f"{name}={value}" for name, value in variables.items())]


def _travelling() -> list[str]:
    """Name the variables that Open MPI has to take along where it reaches other nodes by ssh."""
    names = sorted(name for name in os.environ if name.startswith(TRAVELS) or name in TRAVELS_TOO)
    return [part for name in names for part in ("-x", name)]


def _srun(ranks: Ranks) -> list[str]:
    if find_allocation() is not None:
        return [*step_command(hosts_of(ranks), ranks.ranks_per_node), *_RANKS_END_TOGETHER, "--mpi=pmix"]
    # Outside of a job srun asks for one of its own.
    return [
        _find("srun"),
        f"--nodes={ranks.nodes}",
        f"--ntasks={ranks.count}",
        f"--ntasks-per-node={ranks.ranks_per_node}",
        f"--cpus-per-task={ranks.cores_per_rank}",
        *_COMMON,
        *_RANKS_END_TOGETHER,
        "--mpi=pmix",
    ]


LAUNCHERS: dict[str, Callable[[Ranks], list[str]]] = {"horovodrun": _horovodrun, "mpirun": _mpirun, "srun": _srun}


def _find(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise LaunchError(f"{name}: no such program on the PATH; install it or choose another launcher in the profile")
    return found
