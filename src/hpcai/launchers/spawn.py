"""spawn: ranks on this node, or in a step of Slurm over several, by us; needs neither Horovod nor MPI."""

import re
import sys

from hpcai.config.machine import this_node
from hpcai.launchers.declaration import FirstEnd, Launcher
from hpcai.launchers.over_nodes import over_nodes
from hpcai.launchers.ranks import Ranks

PROGRAM = "hpcai.training.spawn"


def _command(ranks: Ranks) -> list[str]:
    if ranks.nodes > 1 or {share.host for share in ranks.shares} - {this_node()}:
        return over_nodes(ranks, "spawn", [sys.executable, "-m", PROGRAM])
    return [sys.executable, "-m", PROGRAM, "-np", str(ranks.count)]


LAUNCHER = Launcher(
    summary="ours: on this node or in a step of Slurm, without Horovod and MPI",
    command=_command,
    programs=(PROGRAM,),
    rank_variables=("HOROVOD_RANK",),
    local_rank_variables=("HOROVOD_LOCAL_RANK",),
    first_end=FirstEnd(
        pattern=re.compile(
            r"^spawn: rank (?P<rank>\d+) was the first to fail, exit status (?P<code>\d+)$", re.MULTILINE
        ),
        label="[{rank}]<",
    ),
)
