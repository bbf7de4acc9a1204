"""Check before the ranks start that the nodes of a run have room for its staging."""

from collections import Counter
from collections.abc import Sequence
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
    StagingError
        If a node has too little room, or its folder is not writable; names the node, free and needed bytes.
    """
    if pack is None or plan.benchmark.staging.place != "node_local":
        return
    needed_bytes = _needed_bytes(plan, pack, starts, nodes)
    together = nodes.share_scratch
    shared_bytes = sum(sorted(needed_bytes.values(), reverse=True)[:together])
    for facts in nodes.nodes:
        if facts.free_bytes is None:
            raise StagingError(at(f"node {facts.node}", facts.problem))
        expected_bytes = shared_bytes if together > 1 else needed_bytes[facts.node]
        if facts.free_bytes < expected_bytes:
            whose = SHARED(nodes=together) if together > 1 else ""
            raise StagingError(
                at(
                    f"node {facts.node}: {scratch}",
                    NO_ROOM(free_bytes=facts.free_bytes, expected_bytes=expected_bytes, whose=whose, remedy=REMEDY),
                )
            )


def _needed_bytes(plan: RunPlan, pack: PackManifest, starts: Sequence[Ranks], nodes: NodesReport) -> Counter[str]:
    """Return the bytes that each node needs for everything that starts there."""
    block_bytes = max((facts.block_bytes or 1 for facts in nodes.nodes), default=1)
    needed: Counter[str] = Counter()
    for ranks in starts:
        own = room_bytes(pack, ranks.nodes, plan.benchmark.staging.partition, block_bytes)
        # Outside a Slurm job, nodes other than this one have no name.
        needed.update(dict(zip(hosts_of(ranks) or (this_node(),), own, strict=False)))
    return needed
