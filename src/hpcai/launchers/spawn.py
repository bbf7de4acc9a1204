"""spawn: ranks on this node, by us; needs neither Horovod nor MPI."""

import re
import sys

from hpcai.config.machine import this_node
from hpcai.core.errors import LaunchError
from hpcai.launchers.declaration import FirstEnd, Launcher
from hpcai.launchers.ranks import Ranks

PROGRAM = "hpcai.training.spawn"


def _command(ranks: Ranks) -> list[str]:
    if ranks.nodes > 1 or {share.host for share in ranks.shares} - {this_node()}:
        raise LaunchError(
            f"{ranks.name}: spawn starts ranks on this node alone, found {ranks.nodes} nodes; inside a job of Slurm "
            "use a launcher whose ranks are a step of the job"
        )
    return [sys.executable, "-m", PROGRAM, "-np", str(ranks.count)]


LAUNCHER = Launcher(
    summary="ranks on this node, without Horovod and MPI",
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
