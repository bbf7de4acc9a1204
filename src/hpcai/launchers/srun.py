"""srun: a Slurm step whose ranks connect through MPI and PMIx."""

from hpcai.core.programs import find_program
from hpcai.launchers.declaration import Launcher
from hpcai.launchers.ranks import Ranks, hosts_of
from hpcai.slurm.allocation import find_allocation
from hpcai.slurm.step import COMMON, RANKS_END_TOGETHER, step_command


def _command(ranks: Ranks) -> list[str]:
    if find_allocation() is not None:
        return [*step_command(hosts_of(ranks), ranks.ranks_per_node), *RANKS_END_TOGETHER, "--mpi=pmix"]
    # Outside of a job, srun requests its own.
    return [
        find_program("srun"),
        f"--nodes={ranks.nodes}",
        f"--ntasks={ranks.count}",
        f"--ntasks-per-node={ranks.ranks_per_node}",
        f"--cpus-per-task={ranks.cores_per_rank}",
        *COMMON,
        *RANKS_END_TOGETHER,
        "--mpi=pmix",
    ]


LAUNCHER = Launcher(
    summary="Slurm, with MPI through PMIx",
    command=_command,
    programs=("srun",),
    rank_variables=("SLURM_PROCID",),
    local_rank_variables=("SLURM_LOCALID",),
    uses_mpi=True,
    of_batch_system=True,
)
