"""Several nodes without MPI: one step of Slurm starts the ranks, and a server beside it is where they meet."""

import sys
from collections.abc import Sequence

from hpcai.core.errors import LaunchError
from hpcai.launchers.ranks import Ranks, hosts_of
from hpcai.slurm.allocation import find_allocation
from hpcai.slurm.step import RANKS_END_TOGETHER, step_command


def over_nodes(ranks: Ranks, launcher: str, meeting: Sequence[str]) -> list[str]:
    """Return the words to put before the program of each rank.

    Parameters
    ----------
    ranks
        Which ranks.
    launcher
        Its name.
    meeting
        Command of :mod:`hpcai.training.launch_nodes`, by which records know the launcher.

    Raises
    ------
    LaunchError
        Outside of a job of Slurm.
    """
    if find_allocation() is None:
        raise LaunchError(
            f"{ranks.name}: {launcher} reaches other nodes only inside a job of Slurm; "
            "start it there, or use a launcher with MPI"
        )
    hosts = hosts_of(ranks)
    layout = ["--hosts", ",".join(hosts), "--ranks-per-node", str(ranks.ranks_per_node)]
    step = [*step_command(hosts, ranks.ranks_per_node), *RANKS_END_TOGETHER, "--mpi=none"]
    return [*meeting, *layout, "--", *step, sys.executable, "-m", "hpcai.training.join_step"]
