"""Stage to node-local storage: all local ranks unpack their part of the shards and verify the written files."""

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np

from hpcai.config.benchmark import SPLITS, Split
from hpcai.core.errors import StagingError
from hpcai.core.messages import Message, at
from hpcai.data.packed import PackedMember, PackManifest
from hpcai.data.stage_folder import claim_stage, clean_stage
from hpcai.data.table import Table
from hpcai.data.unpacker import REMEDY, Piece, Pieces, Unpacker, numbers_of, opened_shards

NO_ROOM = Message("stage.no_room", "found {free_bytes} bytes free, expected at least {needed_bytes}; {remedy}")
NO_INODES = Message("stage.no_inodes", "found {free} inodes free, expected at least {needed}; {remedy}")

Partition = Literal["whole", "split"]
SPACE_MARGIN = 0.02
SPACE_MARGIN_BYTES = 16 << 20
"""Free space to keep for folders, metadata and what the run itself writes [byte]."""


@dataclass(frozen=True)
class StagingResult:
    """What one rank staged."""

    bytes_read: int
    bytes_written: int
    seconds: float
    files: int


@dataclass(frozen=True)
class NodePart:
    """What a node holds of a split.

    Attributes
    ----------
    pieces
        The files to stage, whole, in the order of the node's samples.
    first, samples
        The node's own samples among those of the files: the number of the first one, and how many. Others belong to
        nodes that hold the same file.
    """

    pieces: Pieces
    first: int
    samples: int


def node_part(pack: PackManifest, split: Split, node_index: int, nodes: int, partition: Partition) -> NodePart:
    """Return what a node holds of a split.

    With partition ``split`` a node holds every ``nodes``-th file of each split, as in the reference, which shards both
    the training and the validation set over the nodes' file sets (MLPerf HPC reference, cosmoflow/data/cosmo.py,
    ``n_file_sets``; cosmoflow/utils/staging.py). Where files have several samples, some at the ends of this row go to
    neighbouring nodes, so that all have equally many samples, or one more: an epoch then repeats and skips no more
    samples than without the split. A file with samples of several nodes is staged on each of them.

    Parameters
    ----------
    pack
        The packed dataset.
    split
        ``train`` or ``validation``.
    node_index, nodes
        Index of this node, from 0, and the number of nodes.
    partition
        ``whole``: every node holds everything, sorted by name; ``split``: each node holds its own part.
    """
    return _Dealt(pack, split, nodes, partition).part(node_index)


class _Dealt:
    """The files of a split in the order in which nodes take samples from them."""

    def __init__(self, pack: PackManifest, split: Split, nodes: int, partition: Partition) -> None:
        self.parts = nodes if partition == "split" else 1
        shards = [shard for shard in pack.shards if shard.split == split]
        members = Table.joined(PackedMember, [shard.members for shard in shards])
        numbers = np.repeat(np.arange(len(shards)), [len(shard.members) for shard in shards])
        by_name = Pieces([shard.file for shard in shards], numbers, members).take(members.order("name"))
        self.pieces = by_name.take(np.argsort(np.arange(len(by_name)) % self.parts, kind="stable"))
        self._ends = np.cumsum(self.pieces.members.lengths("record_offsets"))

    def part(self, node_index: int) -> NodePart:
        """Return what a node holds."""
        index = node_index % self.parts  # of one part only, all nodes hold the first
        each, more = divmod(int(self._ends[-1]) if len(self._ends) else 0, self.parts)
        start, stop = (number * each + min(number, more) for number in (index, index + 1))
        if start == stop:
            return NodePart(self.pieces[:0], 0, 0)
        first, last = np.searchsorted(self._ends, (start, stop - 1), "right").tolist()
        before = int(self._ends[first - 1]) if first else 0
        return NodePart(self.pieces[first : last + 1], start - before, stop - start)


def _all_pieces(pack: PackManifest, node_index: int, nodes: int, partition: Partition) -> Pieces:
    """Return a node's files in the order of the shards."""
    parts = [node_part(pack, split, node_index, nodes, partition).pieces for split in SPLITS]
    shards = sorted(shard for part in parts for shard in part.shards)
    place = {shard: number for number, shard in enumerate(shards)}
    numbers = [np.array([place[shard] for shard in part.shards], np.int64)[part.shard] for part in parts if len(part)]
    members = Table.joined(PackedMember, [part.members for part in parts if len(part)])
    pieces = Pieces(shards, np.concatenate([np.zeros(0, np.int64), *numbers]), members)
    return pieces.take(np.lexsort((members.numbers("offset"), pieces.shard)))


def room_bytes(pack: PackManifest, nodes: int, partition: Partition, block_bytes: int) -> list[int]:
    """Return the free space that each node needs for its files, with a margin [byte].

    Parameters
    ----------
    pack
        The packed dataset.
    nodes, partition
        Number of nodes, and what each of them holds (:func:`node_part`).
    block_bytes
        Allocation unit of the file system: each file occupies a multiple of it.
    """
    splits = [_Dealt(pack, split, nodes, partition) for split in SPLITS]
    different = splits[0].parts
    needed = [_needed_bytes([split.part(index).pieces for split in splits], block_bytes) for index in range(different)]
    return needed * (nodes // different)


def _needed_bytes(parts: Sequence[Pieces], block_bytes: int) -> int:
    stored_bytes = sum(
        int((-(-numbers_of(pieces, "content_bytes") // block_bytes)).sum()) * block_bytes for pieces in parts
    )
    return int(stored_bytes * (1 + SPACE_MARGIN)) + SPACE_MARGIN_BYTES


def preflight(pack: PackManifest, target: Path, node_index: int, nodes: int, partition: Partition) -> None:
    """Create a node's staging folder and check its free space; the node's first rank does this before any rank writes.

    Removes anything that an earlier staging left in the same folder.

    Raises
    ------
    StagingError
        If the folder cannot be written, or lacks space or inodes: gives needed and free amounts.
    """
    with _named_node():
        _require_space(_all_pieces(pack, node_index, nodes, partition), target)


@contextmanager
def _named_node() -> Iterator[None]:
    """Add this node's name to any error: every node's scratch folder has the same name."""
    try:
        yield
    except StagingError as error:
        raise StagingError(at(f"node {socket.gethostname()}", error.args[0])) from error
    except OSError as error:
        # A failing disk or a deleted folder can raise an error anywhere.
        place = error.filename or "a file or folder"
        raise StagingError(
            f"node {socket.gethostname()}: {place}: {error.strerror or error}, expected working storage; choose "
            f"another storage.node_local, or exclude this node"
        ) from error


def _require_space(pieces: Pieces, target: Path) -> None:
    clean_stage(target)
    try:
        claim_stage(target)
        space = os.statvfs(target)
    except OSError as error:
        raise StagingError(
            f"{target}: cannot be written ({error.strerror}), expected a node-local folder; "
            "correct storage.node_local of the machine file"
        ) from error
    block_bytes = space.f_frsize
    needed_bytes = _needed_bytes([pieces], block_bytes)
    free_bytes = space.f_bavail * block_bytes
    if needed_bytes > free_bytes:
        raise StagingError(at(str(target), NO_ROOM(free_bytes=free_bytes, needed_bytes=needed_bytes, remedy=REMEDY)))
    # File systems without a fixed inode table report 0 of 0.
    if space.f_files and space.f_favail < len(pieces) + len(SPLITS):
        raise StagingError(
            at(str(target), NO_INODES(free=space.f_favail, needed=len(pieces) + len(SPLITS), remedy=REMEDY))
        )


def stage_shards(  # noqa: PLR0913, PLR0917  one rank's place in the job is many numbers
    pack: PackManifest,
    source_root: Path,
    target: Path,
    local_rank: int,
    local_size: int,
    node_index: int,
    nodes: int,
    partition: Partition,
    threads: int,
    progress: Callable[[], None] = lambda: None,
) -> StagingResult:
    """Unpack this rank's part of the node's files; all local ranks do so concurrently.

    Each rank takes adjacent members with about equal total content, so that its reads are large and sequential. The
    checksum of each file's content is verified before it is written.

    Parameters
    ----------
    pack
        The packed dataset.
    source_root
        Folder of packed.json and the shards.
    target
        Staging folder; files appear as plain TFRecords in its train/ and validation/.
    local_rank, local_size
        Index of this rank on its node, and the number of ranks there.
    node_index, nodes
        Index of this node, and the number of nodes.
    partition
        What a node holds, see `node_part`.
    threads
        Processors of this rank.
    progress
        Called every few seconds while files are being completed.

    Raises
    ------
    StagingError
        If a shard is missing or damaged (names file, member and offset), the space runs out, or the folder disappears;
        includes the node's name.
    """
    started_s = time.monotonic()
    pieces = _rank_share(_all_pieces(pack, node_index, nodes, partition), local_rank, local_size)
    if len(pieces):
        with _named_node():
            claim_stage(target)
            files = sorted({pieces.shards[number] for number in np.unique(pieces.shard).tolist()})
            with opened_shards(source_root, files) as shards:
                Unpacker(pack, pieces, shards, target).run(threads, progress)
    return StagingResult(
        bytes_read=int(numbers_of(pieces, "packed_bytes").sum()),
        bytes_written=int(numbers_of(pieces, "content_bytes").sum()),
        seconds=time.monotonic() - started_s,
        files=len(pieces),
    )


Some = TypeVar("Some", bound=Sequence[Piece])


def _rank_share(pieces: Some, local_rank: int, local_size: int) -> Some:
    """Split the pieces into runs of about equal content; the runs of all local ranks cover all pieces."""
    ends_bytes = np.cumsum(numbers_of(pieces, "content_bytes"))
    total_bytes = int(ends_bytes[-1]) if len(pieces) else 0
    cuts = [int(np.searchsorted(ends_bytes, total_bytes * rank / local_size, "right")) for rank in range(local_size)]
    return pieces[cuts[local_rank] : [*cuts, len(pieces)][local_rank + 1]]  # type: ignore[return-value]
