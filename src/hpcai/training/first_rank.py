"""Puts a tool around the first rank alone: `python -m hpcai.training.first_rank TOOL ARGUMENTS -- PROGRAM ...`."""

import os
import sys
from collections.abc import Mapping, Sequence

from hpcai.core.errors import LaunchError

RANK_VARIABLES = (
    "HOROVOD_RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "SLURM_PROCID",
)
"""Set by horovodrun (Gloo), Open MPI, PMIx, MPICH and Intel MPI, MVAPICH2, and srun."""


def command_of_rank(arguments: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return what a rank runs: tool and program on the first rank, the program alone on all others.

    Raises
    ------
    LaunchError
        If no ``--`` separates tool and program.
    """
    if "--" not in arguments:
        raise LaunchError(f"first_rank: found {list(arguments)}, expected TOOL ARGUMENTS -- PROGRAM ARGUMENTS")
    cut = list(arguments).index("--")
    tool, program = list(arguments[:cut]), list(arguments[cut + 1 :])
    rank = next((int(environment[name]) for name in RANK_VARIABLES if name in environment), 0)
    return [*tool, *program] if rank == 0 else program


if __name__ == "__main__":
    command = command_of_rank(sys.argv[1:], os.environ)
    os.execvp(command[0], command)  # noqa: S606  replaced on purpose: signals reach the rank itself
