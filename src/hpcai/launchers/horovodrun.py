"""horovodrun: Horovod's own launcher over Gloo, which needs no MPI; a Slurm step reaches other nodes."""

import re
import sys

from hpcai.core.errors import LaunchError
from hpcai.launchers.declaration import FirstEnd, Launcher
from hpcai.launchers.ranks import Ranks, are_here, meeting_step
from hpcai.slurm.allocation import find_allocation

GLOO = "--gloo"


def _command(ranks: Ranks) -> list[str]:
    if are_here(ranks):
        return [sys.executable, "-m", "hpcai.training.launch", "-np", str(ranks.count), GLOO]
    if find_allocation() is None:
        raise LaunchError(
            f"{ranks.name}: horovodrun reaches other nodes only inside a Slurm job; start it there, or use a launcher "
            f"with MPI"
        )
    return [sys.executable, "-m", "hpcai.training.launch_nodes", GLOO, *meeting_step(ranks)]


LAUNCHER = Launcher(
    summary="Horovod's own, over Gloo, without MPI",
    command=_command,
    programs=("hpcai.training.launch", "hpcai.training.launch_nodes"),
    rank_variables=("HOROVOD_RANK",),
    local_rank_variables=("HOROVOD_LOCAL_RANK",),
    gloo_option=GLOO,
    default=True,
    packages=("horovod",),
    # horovod/runner/gloo_run.py; it does not report errors of ranks.
    first_end=FirstEnd(
        pattern=re.compile(
            r"^.*Horovod detected that one or more processes exited .*\n+"
            r"Process name: (?P<rank>\d+)\s*\nExit code: (?P<code>\d+)",
            re.MULTILINE,
        ),
        label="[{rank}]<",
    ),
)
