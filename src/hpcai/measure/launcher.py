"""Launchers: how the ranks of a run are started."""

import os
import shutil
import sys
from collections.abc import Callable, Sequence

from hpcai.config.runs import RunPlan
from hpcai.errors import LaunchError


def launch_command(launcher: str, plan: RunPlan, program: Sequence[str]) -> list[str]:
    """Return the command line that starts ``program`` once per rank.

    Raises
    ------
    LaunchError
        If the launcher is unknown, not installed, or cannot start this run.
    """
    if launcher not in LAUNCHERS:
        raise LaunchError(f"launcher {launcher!r}: unknown; allowed: {', '.join(LAUNCHERS)} (see profiles/)")
    return [*LAUNCHERS[launcher](plan), *program]


def _horovodrun(plan: RunPlan) -> list[str]:
    if plan.point.nodes > 1:
        raise LaunchError(f"{plan.run_id}: horovodrun starts ranks on one node here; use the launcher mpirun or srun")
    return [sys.executable, "-m", "hpcai.training.launch", "-np", str(plan.point.ranks), "--gloo"]


def _mpirun(plan: RunPlan) -> list[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    per_node = f"ppr:{plan.point.ranks_per_node}:node"
    ranks = ["-np", str(plan.point.ranks), "--map-by", per_node, "--oversubscribe", "--bind-to", "none"]
    return [_find("mpirun"), *root, *ranks]


def _srun(plan: RunPlan) -> list[str]:
    tasks = [f"--nodes={plan.point.nodes}", f"--ntasks={plan.point.ranks}"]
    return [
        _find("srun"),
        *tasks,
        f"--ntasks-per-node={plan.point.ranks_per_node}",
        f"--cpus-per-task={plan.machine.cores_per_rank}",
        "--mpi=pmix",
    ]


LAUNCHERS: dict[str, Callable[[RunPlan], list[str]]] = {"horovodrun": _horovodrun, "mpirun": _mpirun, "srun": _srun}


def _find(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise LaunchError(f"{name}: no such program on the PATH; install it or choose another launcher in the profile")
    return found
