"""Launchers: how the ranks of a run are started."""

import os
import shutil
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hpcai.config.runs import RunPlan
from hpcai.errors import LaunchError
from hpcai.weak_records import NodeShare


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


def _confined(ranks: Ranks, program: Sequence[str]) -> list[str]:
    """Keep a program to its share of a node: the same cores and accelerators on each of its nodes."""
    share = ranks.shares[0] if ranks.shares else NodeShare(host="", cores=())
    visible = ["env", f"CUDA_VISIBLE_DEVICES={','.join(share.accelerators)}"] if share.accelerators else []
    cores = [_find("taskset"), "--cpu-list", ",".join(map(str, share.cores))] if share.cores else []
    return [*visible, *cores, *program]


def _horovodrun(ranks: Ranks) -> list[str]:
    if ranks.nodes > 1:
        raise LaunchError(f"{ranks.name}: horovodrun starts ranks on one node here; use the launcher mpirun or srun")
    return [sys.executable, "-m", "hpcai.training.launch", "-np", str(ranks.count), "--gloo"]


def _mpirun(ranks: Ranks) -> list[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    per_node = f"ppr:{ranks.ranks_per_node}:node"
    options = ["-np", str(ranks.count), "--map-by", per_node, "--oversubscribe", "--bind-to", "none"]
    hosts = [f"{share.host}:{ranks.ranks_per_node}" for share in ranks.shares]
    # This node alone needs no name, which may lead through a network.
    elsewhere = {share.host for share in ranks.shares} - {socket.gethostname()}
    return [_find("mpirun"), *root, *options, *(["--host", ",".join(hosts)] if elsewhere else [])]


def _srun(ranks: Ranks) -> list[str]:
    tasks = [f"--nodes={ranks.nodes}", f"--ntasks={ranks.count}"]
    return [
        _find("srun"),
        *tasks,
        f"--ntasks-per-node={ranks.ranks_per_node}",
        f"--cpus-per-task={ranks.cores_per_rank}",
        "--mpi=pmix",
        # Steps of one job side by side: each with the processors that it asks for, and no other's.
        *(["--exact", f"--nodelist={','.join(share.host for share in ranks.shares)}"] if ranks.shares else []),
    ]


LAUNCHERS: dict[str, Callable[[Ranks], list[str]]] = {"horovodrun": _horovodrun, "mpirun": _mpirun, "srun": _srun}


def _find(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise LaunchError(f"{name}: no such program on the PATH; install it or choose another launcher in the profile")
    return found
