"""Check before the ranks start that the nodes of a run have room for its staging."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from hpcai.config.machine import this_node
from hpcai.config.runs import RunPlan
from hpcai.core.errors import StagingError
from hpcai.core.messages import Message, at
from hpcai.data.packed import PackManifest
from hpcai.data.stage import room_bytes
from hpcai.data.unpacker import REMEDY
from hpcai.launchers.ranks import Ranks, hosts_of
from hpcai.measure.nodes import NodesReport

SHARED = Message("room.shared", " for {nodes} nodes that see the same folder")
NO_ROOM = Message("room.no_room", "found {free_bytes} bytes free, expected at least {expected_bytes}{whose}; {remedy}")


class NoRoomError(StagingError):
    """Nodes cannot take the data.

    Attributes
    ----------
    nodes
        What each of them lacks.
    """

    def __init__(self, nodes: Mapping[str, str]) -> None:
        super().__init__(next(iter(nodes.values())))
        self.nodes = nodes


def require_room(
    plan: RunPlan, pack: PackManifest | None, starts: Sequence[Ranks], nodes: NodesReport, scratch: Path
) -> None:
    """Check that the nodes have room for the data to be staged; a node without an answer is not checked.

    A folder shared by all nodes must hold the parts of all. If only some nodes share it, each node must have room for
    as many parts as that group needs, because the members of the group are unknown.

    Parameters
    ----------
    plan
        Plan of the run, or of any instance of a weak-scaling group.
    pack
        The packed dataset; None if nothing is staged.
    starts
        Ranks that start together: those of the run, or of each instance.
    nodes
        Reports of the nodes.
    scratch
        Folder on each node that contains the run's own folders.

    Raises
    ------
    NoRoomError
        If a node has too little room, or its folder is not writable; names the node, free and needed bytes.
    """
    if pack is None or plan.benchmark.staging.place != "node_local":
        return
    needed_bytes = _needed_bytes(plan, pack, starts, nodes)
    together = nodes.share_scratch
    shared_bytes = sum(sorted(needed_bytes.values(), reverse=True)[:together])
    whose = SHARED(nodes=together) if together > 1 else ""
    lacking = dict[str, str]()
    for facts in nodes.nodes:
        expected_bytes = shared_bytes if together > 1 else needed_bytes[facts.node]
        if facts.free_bytes is None:
            lacking[facts.node] = at(f"node {facts.node}", facts.problem)
        elif facts.free_bytes < expected_bytes:
            room = NO_ROOM(free_bytes=facts.free_bytes, expected_bytes=expected_bytes, whose=whose, remedy=REMEDY)
            lacking[facts.node] = at(f"node {facts.node}: {scratch}", room)
    if lacking:
        raise NoRoomError(lacking)


def _needed_bytes(plan: RunPlan, pack: PackManifest, starts: Sequence[Ranks], nodes: NodesReport) -> Counter[str]:
    """Return the bytes that each node needs for everything that starts there."""
    block_bytes = max((facts.block_bytes or 1 for facts in nodes.nodes), default=1)
    partition = plan.benchmark.staging.partition
    # Instances of one size need the same, and sorting the files of a large pack takes about a second.
    by_nodes = {count: room_bytes(pack, count, partition, block_bytes) for count in {ranks.nodes for ranks in starts}}
    needed: Counter[str] = Counter()
    for ranks in starts:
        # Outside a Slurm job, nodes other than this one have no name.
        needed.update(dict(zip(hosts_of(ranks) or (this_node(),), by_nodes[ranks.nodes], strict=False)))
    return needed
