"""Whether the nodes of a run have room for what it stages: asked before its ranks start."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hpcai.config.machine import this_node
from hpcai.config.runs import RunPlan
from hpcai.core.errors import StagingError
from hpcai.core.messages import Message, at
from hpcai.data.pack import PackManifest
from hpcai.data.stage import room_bytes
from hpcai.data.unpacker import REMEDY
from hpcai.launchers.ranks import Ranks, hosts_of
from hpcai.measure.nodes import NodesReport

SHARED = Message("room.shared", " for {nodes} nodes that see the same folder")
NO_ROOM = Message("room.no_room", "found {free_bytes} bytes free, expected at least {expected_bytes}{whose}; {remedy}")


def require_room(
    plan: RunPlan, pack: PackManifest | None, starts: Sequence[Ranks], nodes: NodesReport, scratch: Path
) -> None:
    """Check that the nodes have room for what is about to be staged; one that did not answer is not judged.

    Where nodes see the same folder, that has to hold the parts of all of them. Where only some do, each node is asked
    for as much as those need together: nobody can tell which they are.

    Parameters
    ----------
    plan
        Of the run, or of any instance of a weak-scaling group.
    pack
        The packed dataset; None: nothing is staged.
    starts
        The ranks that start together: of the run, or of each instance.
    nodes
        What the nodes said of themselves.
    scratch
        Folder on each node that the run's own folders lie in.

    Raises
    ------
    StagingError
        If a node has too little room, or its folder cannot be written: with its name, bytes free and needed.
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
    """Return what each node needs for all that start there [byte]."""
    block_bytes = max((facts.block_bytes or 1 for facts in nodes.nodes), default=1)
    needed: Counter[str] = Counter()
    for ranks in starts:
        own = room_bytes(pack, ranks.nodes, plan.benchmark.staging.partition, block_bytes)
        # Outside of a job of Slurm other nodes than this one have no name.
        needed.update(dict(zip(hosts_of(ranks) or (this_node(),), own, strict=False)))
    return needed
