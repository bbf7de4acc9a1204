"""Unpack members of shards with several threads; verify each member before writing it."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from hpcai.core.errors import StagingError
from hpcai.core.files import NO_SPACE
from hpcai.core.messages import Message, at
from hpcai.data.member_codec import CodecError, MemberDecoder
from hpcai.data.packed import PackedMember, PackManifest
from hpcai.data.table import Table

SPACE_RAN_OUT = Message(
    "unpacker.space_ran_out",
    "disk full while staging ({reason}), expected room for {size_bytes} bytes; {remedy}",
)
SHARD_CUT = Message(
    "unpacker.shard_cut",
    "the shard ends after {done_bytes} of {expected_bytes} bytes: its tail is cut; pack the dataset again",
)
CANNOT_WRITE = Message("unpacker.cannot_write", "cannot be written ({reason}); correct storage.node_local")

READ_AHEAD_BYTES = 64 << 20
"""Read-ahead requested from the kernel [byte], so that the storage never waits for decoding."""
WORKERS_PER_THREAD = 2
"""Threads: one decodes while the other waits for storage; 15 % faster than one on two cores (bench_staging.py)."""
GAP_BYTES = 64 << 10
"""Maximum gap between members requested together [byte]; reading the gap costs less than another request."""
BLOCK_BYTES = 256 << 10
"""Block size that stays in a core's cache while it is read, checksummed and written [byte]."""
_PROGRESS_S = 2.0
REMEDY = "free some space, choose another storage.node_local, or use staging.partition: split"


@dataclass(frozen=True)
class Piece:
    """One member and the shard file that holds it."""

    shard: str
    member: PackedMember


class Pieces(Sequence[Piece]):
    """Members with their shards, each made when it is looked at.

    Parameters
    ----------
    shards
        Names of the shards.
    shard
        Number of the shard of each member.
    members
        The members.
    """

    def __init__(self, shards: Sequence[str], shard: NDArray[np.int64], members: Table[PackedMember]) -> None:
        self.shards, self.shard, self.members = shards, shard, members

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self.shard)

    @overload
    def __getitem__(self, place: int) -> Piece: ...

    @overload
    def __getitem__(self, place: slice) -> "Pieces": ...

    def __getitem__(self, place: int | slice) -> "Piece | Pieces":
        """Return a member, or some."""
        if isinstance(place, slice):
            return Pieces(self.shards, self.shard[place], self.members[place])
        return Piece(self.shards[int(self.shard[place])], self.members[place])

    def __iter__(self) -> Iterator[Piece]:
        """Yield the members."""
        return map(Piece, (self.shards[number] for number in self.shard.tolist()), self.members)

    def take(self, places: NDArray[np.int64]) -> "Pieces":
        """Return the members at some places, in their order."""
        return Pieces(self.shards, self.shard[places], self.members.take(places))


def numbers_of(pieces: Sequence[Piece], name: str) -> NDArray[np.int64]:
    """Return a number of each member, such as ``content_bytes``."""
    if isinstance(pieces, Pieces):
        return pieces.members.numbers(name).astype(np.int64)
    return np.array([getattr(piece.member, name) for piece in pieces], np.int64)


@contextmanager
def opened_shards(source_root: Path, files: Sequence[str]) -> Iterator[dict[str, int]]:
    """Open shards for reading: descriptors by file name, closed at the end."""
    with ExitStack() as stack:
        descriptors: dict[str, int] = {}
        for file in files:
            try:
                descriptors[file] = os.open(source_root / file, os.O_RDONLY)
            except OSError as error:
                raise StagingError(
                    f"{source_root / file}: cannot be read ({error.strerror}), expected a shard; pack the dataset again"
                ) from error
            stack.callback(os.close, descriptors[file])
            os.posix_fadvise(descriptors[file], 0, 0, os.POSIX_FADV_SEQUENTIAL)
        yield descriptors


class Unpacker:
    """Threads that process a rank's pieces in order, until all are done or one fails."""

    def __init__(self, pack: PackManifest, pieces: Sequence[Piece], shards: dict[str, int], target: Path) -> None:
        self._codec, self._pieces, self._shards, self._target = pack.codec, pieces, shards, target
        self._packed_limit = int(numbers_of(pieces, "packed_bytes").max())
        self._content_limit = int(numbers_of(pieces, "content_bytes").max())
        self._lock = threading.Lock()
        self._taking, self._announcing = iter(pieces), iter(pieces)
        self._taken_pieces, self._ahead_bytes = 0, 0
        self._problem: Exception | None = None

    def run(self, threads: int, progress: Callable[[], None] = lambda: None) -> None:
        """Unpack all pieces; raise the first error of any thread.

        Parameters
        ----------
        threads
            Processors to use.
        progress
            Called every few seconds while pieces are being completed, so that a hang shows as silence.
        """
        count = min(WORKERS_PER_THREAD * threads, len(self._pieces))
        workers = [threading.Thread(target=self._work, daemon=True) for _ in range(count)]
        for worker in workers:
            worker.start()
        told = 0
        for worker in workers:
            while worker.is_alive():
                worker.join(_PROGRESS_S)
                if self._taken_pieces > told:
                    told = self._taken_pieces
                    progress()
        if self._problem is not None:
            raise self._problem

    def _work(self) -> None:
        try:
            decoder = MemberDecoder(self._codec, self._content_limit)
            packed = np.empty(self._packed_limit, np.uint8).data
            for piece in self._taken():
                self._unpack(piece, packed[: piece.member.packed_bytes], decoder)
        except Exception as error:
            with self._lock:
                self._problem = self._problem or error

    def _taken(self) -> Iterator[Piece]:
        """Yield the next unclaimed piece, and ask the kernel to read ahead."""
        while True:
            with self._lock:
                piece = next(self._taking, None) if self._problem is None else None
                if piece is None:
                    return
                self._taken_pieces += 1
                self._ahead_bytes -= piece.member.packed_bytes
                following = self._to_announce()
            for shard, start, end in following:
                os.posix_fadvise(self._shards[shard], start, end - start, os.POSIX_FADV_WILLNEED)
            yield piece

    def _to_announce(self) -> list[tuple[str, int, int]]:
        """Return the ranges that come within the read-ahead: shard, first byte and end of each.

        Nothing until half of the announced bytes are used: few large requests, not one per small member.
        """
        parts: list[tuple[str, int, int]] = []
        if self._ahead_bytes > READ_AHEAD_BYTES // 2:
            return parts
        while self._ahead_bytes < READ_AHEAD_BYTES and (coming := next(self._announcing, None)):
            shard, member = coming.shard, coming.member
            self._ahead_bytes += member.packed_bytes
            start = member.offset
            if parts and parts[-1][0] == shard and start - parts[-1][2] <= GAP_BYTES:
                start = parts.pop()[1]
            parts.append((shard, start, member.offset + member.packed_bytes))
        return parts

    def _unpack(self, piece: Piece, packed: memoryview, decoder: MemberDecoder) -> None:
        member = piece.member
        place = f"{piece.shard}: member {member.name} at byte {member.offset}"
        if self._codec == "none":
            self._copy(piece, packed[:BLOCK_BYTES], place)
            return
        _read_exactly(self._shards[piece.shard], packed, member.offset, place)
        try:
            content = decoder.decode(packed, member.content_bytes)
        except CodecError as error:
            raise StagingError(f"{place}: {error}; pack the dataset again") from error
        _require_checksum(crc32c(content), member, place)
        with staged_file(self._target / member.name, member.content_bytes) as descriptor:
            write_staged(descriptor, content)

    def _copy(self, piece: Piece, block: memoryview, place: str) -> None:
        """Copy an uncompressed member block by block; each block is read, checksummed and written while in cache."""
        member, source = piece.member, self._shards[piece.shard]
        checksum = 0
        with staged_file(self._target / member.name, member.content_bytes) as descriptor:
            for start in range(0, member.content_bytes, len(block)):
                part = block[: member.content_bytes - start]
                _read_exactly(source, part, member.offset + start, place)
                checksum = crc32c(part, checksum)
                write_staged(descriptor, part)
            _require_checksum(checksum, member, place)


def _require_checksum(found: int, member: PackedMember, place: str) -> None:
    if f"{found:08x}" != member.content_crc32c:
        raise StagingError(
            f"{place}: found {found:08x} as checksum of its content, expected {member.content_crc32c}: "
            "the shard is damaged; pack the dataset again"
        )


def _read_exactly(descriptor: int, buffer: memoryview, offset: int, place: str) -> None:
    done = 0
    while done < len(buffer):
        count = os.preadv(descriptor, [buffer[done:]], offset + done)
        if count == 0:
            raise StagingError(at(place, SHARD_CUT(done_bytes=done, expected_bytes=len(buffer))))
        done += count


def write_staged(descriptor: int, content: memoryview) -> None:
    """Write all of ``content`` to an open staged file."""
    done = 0
    while done < len(content):
        done += os.write(descriptor, content[done:])


@contextmanager
def staged_file(path: Path, size_bytes: int) -> Iterator[int]:
    """Open one staged file for writing; it is scratch, so nothing is synced. It is removed after an error.

    Raises
    ------
    StagingError
        If the space runs out or the file cannot be written.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        try:
            yield descriptor
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StagingError(
                at(str(path), SPACE_RAN_OUT(reason=error.strerror, size_bytes=size_bytes, remedy=REMEDY))
            ) from error
        raise StagingError(at(str(path), CANNOT_WRITE(reason=error.strerror))) from error
