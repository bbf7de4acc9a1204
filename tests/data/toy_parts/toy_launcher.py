"""A shell that starts all ranks on this node, and waits for them."""

from hpcai.core.errors import LaunchError
from hpcai.launchers.declaration import Launcher
from hpcai.launchers.ranks import Ranks

SCRIPT = """
rank=0
while [ $rank -lt $1 ]; do TOY_RANK=$rank "${@:2}" & pids="$pids $!"; rank=$((rank + 1)); done
for pid in $pids; do wait $pid || exit; done
"""


def _command(ranks: Ranks) -> list[str]:
    if ranks.nodes > 1:
        raise LaunchError(f"{ranks.name}: found {ranks.nodes} nodes, expected one; use another launcher")
    return ["bash", "-c", SCRIPT, "toy-ranks", str(ranks.count)]


LAUNCHER = Launcher(
    summary="a shell on one node",
    command=_command,
    programs=("toy-ranks",),
    rank_variables=("TOY_RANK",),
    local_rank_variables=("TOY_RANK",),
    environment=("TOY_",),
)
