"""spawn: starts ranks on this node, or on the nodes of a Slurm job; needs neither Horovod nor MPI."""

import re
import sys

from hpcai.core.errors import LaunchError
from hpcai.core.messages import Message
from hpcai.launchers.declaration import FirstEnd, Launcher
from hpcai.launchers.ranks import Ranks, are_here, meeting_step
from hpcai.slurm.allocation import find_allocation

PROGRAM = "hpcai.training.spawn"
ONLY_HERE = Message(
    "spawn.only_here",
    "{run}: spawn reaches other nodes only inside a job of Slurm, found {nodes} nodes; start it there, or use a "
    "launcher with MPI",
)


def _command(ranks: Ranks) -> list[str]:
    if are_here(ranks):
        return [sys.executable, "-m", PROGRAM, "-np", str(ranks.count)]
    if find_allocation() is None:
        raise LaunchError(ONLY_HERE(run=ranks.name, nodes=ranks.nodes))
    return [sys.executable, "-m", PROGRAM, *meeting_step(ranks)]


LAUNCHER = Launcher(
    summary="by us, here or over the nodes of Slurm's job, without Horovod and MPI",
    command=_command,
    programs=(PROGRAM,),
    rank_variables=("HOROVOD_RANK",),
    local_rank_variables=("HOROVOD_LOCAL_RANK",),
    stands_in=True,
    first_end=FirstEnd(
        pattern=re.compile(
            r"^spawn: rank (?P<rank>\d+) was the first to fail, exit status (?P<code>\d+)$", re.MULTILINE
        ),
        label="[{rank}]<",
    ),
)
