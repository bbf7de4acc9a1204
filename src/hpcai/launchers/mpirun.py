"""mpirun: that of Open MPI."""

import os
import re
from collections.abc import Sequence

from hpcai.config.machine import this_node
from hpcai.core.programs import find_program
from hpcai.launchers.declaration import Launcher
from hpcai.launchers.ranks import Ranks, hosts_of
from hpcai.slurm.allocation import Allocation, find_allocation
from hpcai.slurm.step import step_command

TRAVELS = ("CUDA_", "HOROVOD_", "HPCAI_", "KMP_", "NCCL_", "OMP_", "PYTHON", "TF_", "UCX_", "XLA_")
TRAVELS_TOO = ("LD_LIBRARY_PATH", "PATH", "TMPDIR")


def _command(ranks: Ranks) -> list[str]:
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    per_node = f"ppr:{ranks.ranks_per_node}:node"
    options = ["-np", str(ranks.count), "--map-by", per_node, "--oversubscribe", "--bind-to", "none"]
    command = [find_program("mpirun"), *root, *options]
    allocation = find_allocation()
    if allocation is not None:
        hosts = hosts_of(ranks)
        # From a node outside its host list, Open MPI would start ranks on that node.
        there = [] if hosts[0] == this_node() else [*step_command(hosts[:1], 1), "--mpi=none", "--input=none"]
        return [*there, *_slurm_variables(allocation, hosts, ranks.ranks_per_node), *command]
    # This node alone needs no name, which might resolve to a network address.
    elsewhere = {share.host for share in ranks.shares} - {this_node()}
    slots = ",".join(f"{share.host}:{ranks.ranks_per_node}" for share in ranks.shares)
    return [*command, *(["--host", slots] if elsewhere else []), *(_travelling() if ranks.nodes > 1 else [])]


def _slurm_variables(allocation: Allocation, hosts: Sequence[str], ranks_per_node: int) -> list[str]:
    """Give Open MPI the variables that identify its nodes, where it starts its daemons with srun.

    Snakemake's executor has removed them. The daemons pass on the whole environment, so no variable needs to be named.
    """
    variables = {
        "SLURM_JOBID": allocation.job_id,
        "SLURM_NODELIST": ",".join(hosts),
        "SLURM_JOB_NODELIST": ",".join(hosts),
        "SLURM_NNODES": str(len(hosts)),
        "SLURM_JOB_NUM_NODES": str(len(hosts)),
        "SLURM_TASKS_PER_NODE": f"{ranks_per_node}(x{len(hosts)})" if len(hosts) > 1 else str(ranks_per_node),
        # Otherwise the daemons of one instance of a group would wait for those of another to end.
        "SLURM_OVERLAP": "1",
    }
    return ["env", *(f"{name}={value}" for name, value in variables.items())]


def _travelling() -> list[str]:
    """Name the variables that Open MPI must forward when it reaches other nodes by ssh."""
    names = sorted(name for name in os.environ if name.startswith(TRAVELS) or name in TRAVELS_TOO)
    return [part for name in names for part in ("-x", name)]


LAUNCHER = Launcher(
    summary="Open MPI",
    command=_command,
    programs=("mpirun",),
    # Of Open MPI, PMIx, MPICH and Intel MPI, and MVAPICH2: their launchers are also called mpirun.
    rank_variables=("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"),
    local_rank_variables=("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK"),
    uses_mpi=True,
    failure_words=(re.compile(r"^(?P<reason>.*noticed that process rank \d+ .* exited on signal .*)$"),),
    environment=("OMPI_",),
    versions={"mpi": ("mpirun", "--version")},
)
