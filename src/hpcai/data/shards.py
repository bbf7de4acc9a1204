"""Write the shards of a dataset with all processors; a journal beside each lets a killed packing continue."""

import fcntl
import json
import multiprocessing
import os
import tarfile
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
import zstandard
from crc32c import crc32c
from numpy.typing import NDArray

from hpcai.config.benchmark import Split
from hpcai.core.errors import DatasetError
from hpcai.core.files import NO_SPACE
from hpcai.core.messages import Message, at
from hpcai.data.examine import in_parallel
from hpcai.data.manifest import FileEntry
from hpcai.data.member_codec import SUFFIXES, Encoding, encode_member
from hpcai.data.module import DataModule, Member, checksum_of
from hpcai.data.packed import PackedMember, PackedShard
from hpcai.data.processes import end_with
from hpcai.data.table import Table

OTHER_CONTENT = Message(
    "shards.other_content",
    "found {found} {what} while packing, expected {expected} as in the manifest; make the dataset again",
)
HELD = Message("shards.held", "another process writes this shard, expected none; wait until it ends, or end it")
WORKER_ENDED = Message(
    "shards.worker_ended",
    "a packing process was ended from outside, perhaps for lack of memory; pack again to continue",
)
PARTIAL, JOURNAL = ".partial", ".journal"
PROCESSES_FROM_BYTES = 256 << 20
"""Content from which several processes pay off; HDF5 and LMDB do not read in several threads of one process."""
_TAR_BLOCK_BYTES = 512
_CHECK_BYTES = 8 << 20
_LOCK_PATIENCE_S = 60.0


class _Flag(Protocol):
    def is_set(self) -> bool: ...
    def set(self) -> None: ...


@dataclass(frozen=True)
class ShardPlan:
    """One shard to write: members ``first`` to ``stop`` of those of its files; ``cut``: these are not all of theirs."""

    split: Split
    file: str
    entries: Table[FileEntry]
    first: int
    stop: int | None
    cut: bool


def plan_shards(split: Split, entries: Table[FileEntry], module: DataModule[Any], shards: int) -> Iterator[ShardPlan]:
    """Yield the shards of a split; see `hpcai.data.pack.pack_dataset` for the order.

    Parameters
    ----------
    split, entries
        A split and its files.
    module
        The benchmark's data module.
    shards
        Number of shards wanted.
    """
    ordered = entries.take(entries.order("path"))
    ends = _member_ends(ordered, module) if len(ordered) < shards else np.zeros(0, np.int64)
    total = int(ends[-1]) if len(ends) else 0
    count = min(shards, max(total, len(ordered)))
    for index in range(count):
        file = f"{split}-{index:05d}-of-{count:05d}.tar"
        if count <= len(ordered):
            yield ShardPlan(split, file, ordered[index::count], 0, None, cut=False)
            continue
        first, stop = total * index // count, total * (index + 1) // count
        start, end = (int(np.searchsorted(ends, place, "right")) for place in (first, stop - 1))
        before = int(ends[start - 1]) if start else 0
        yield ShardPlan(split, file, ordered[start : end + 1], first - before, stop - before, cut=True)


def _member_ends(entries: Table[FileEntry], module: DataModule[Any]) -> NDArray[np.int64]:
    return np.cumsum([module.member_count(entry.facts) for entry in entries], dtype=np.int64)


class Packing:
    """Writes shards as PARTIAL files into a folder; their journals stay there until the packing is complete.

    Parameters
    ----------
    module, root
        The benchmark's data module, and the folder of the sample files.
    encoding
        Codec and level.
    output
        Target folder.
    digest
        Digest of the dataset: shards of another one are not continued.
    """

    def __init__(self, module: DataModule[Any], root: Path, encoding: Encoding, output: Path, digest: str) -> None:
        self.module, self.root, self.encoding, self.output = module, root, encoding, output
        # Other versions of a library compress to other bytes.
        versions = [".".join(map(str, zstandard.ZSTD_VERSION)), zlib.ZLIB_RUNTIME_VERSION]
        if encoding.codec == "shuffle_lz4":
            versions.append(metadata.version("pyarrow"))
        self.identity = {"digest": digest, "codec": encoding.codec, "level": encoding.level, "versions": versions}
        if module.member_samples:
            self.identity["member_samples"] = module.member_samples
        self.threads, self._parent = 1, os.getpid()
        self.stopped: _Flag = threading.Event()

    def run(self, plans: list[ShardPlan]) -> list[PackedShard]:
        """Write all shards; the first problem ends all.

        Raises
        ------
        DatasetError
            If a sample file is missing or damaged, or cannot be read now; the next call continues with what is there.
        """
        cut = {entry.path: entry for plan in plans if plan.cut for entry in plan.entries}
        content_bytes = sum(plan.entries.total("content_bytes") for plan in plans if not plan.cut)
        content_bytes += sum(entry.content_bytes for entry in cut.values())
        cores = len(os.sched_getaffinity(0))
        several = cores > 1 and content_bytes >= PROCESSES_FROM_BYTES
        self.threads = max(1, -(-cores // len(plans))) if several else 1
        with self._kept_if_of_use():
            files = list(cut.values())
            self._each(lambda index: self._require_unchanged(files[index]), len(files), several)
            return self._each(lambda index: self._write(plans[index]), len(plans), several)

    def _require_unchanged(self, entry: FileEntry) -> None:
        if self.module.member_count(entry.facts) > 1:
            self.module.require_unchanged(self.root / entry.path, entry.facts)

    def _each(self, work: Callable[[int], Any], count: int, several: bool) -> list[Any]:
        """Apply a function to numbers below a count, in threads or in processes."""
        if not several or not count:
            return in_parallel(work, range(count))
        context = multiprocessing.get_context("fork")  # "spawn" would rerun the calling Snakemake script
        self.stopped = context.Event()
        processes = min(len(os.sched_getaffinity(0)), count)
        with ProcessPoolExecutor(processes, context, _adopt, (work, self._parent)) as pool:
            futures = [pool.submit(_apply, index) for index in range(count)]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                failed = [future for future in futures if future.done() and future.exception()]
                return [future.result() for future in (failed or futures)]
            except BrokenProcessPool as error:
                raise DatasetError(at(str(self.output), WORKER_ENDED())) from error
            finally:
                self.stopped.set()
                pool.shutdown(cancel_futures=True)

    @contextmanager
    def _kept_if_of_use(self) -> Iterator[None]:
        """Keep incomplete shards for the next call after any error, but not on a full disk, nor with surplus members.

        Every member was verified before it was added, and shards of other data are never continued.
        """
        try:
            yield
        except (DatasetError, OSError) as error:
            full = isinstance(error, OSError) and error.errno in NO_SPACE
            if full or getattr(error, "code", "") == OTHER_CONTENT.code:
                for left in (*self.output.glob("*" + PARTIAL), *self.output.glob("*" + JOURNAL)):
                    left.unlink(missing_ok=True)
            raise

    def _write(self, plan: ShardPlan) -> PackedShard:
        with (
            _Archive.opened(self.output / (plan.file + PARTIAL), {**self.identity, "plan": _identity(plan)}) as archive,
            ThreadPoolExecutor(self.threads) as pool,
        ):
            for encoded in self._ahead(pool, plan, len(archive.rows)):
                if self.stopped.is_set():
                    raise DatasetError(at(str(self.output), WORKER_ENDED()))
                for name, member, packed in encoded:
                    archive.add(name, member, packed, SUFFIXES[self.encoding.codec])
            archive.finish()
            rows = Table.collected(PackedMember, map(PackedMember.model_validate_json, archive.rows))
        return PackedShard(
            file=plan.file, split=plan.split, bytes=archive.bytes, crc32c=f"{archive.crc:08x}", members=rows
        )

    def _ahead(self, pool: ThreadPoolExecutor, plan: ShardPlan, done: int) -> Iterator[list["_Encoded"]]:
        """Yield the encoded members in order, from the first that is not yet in the shard; a few wait, encoded."""
        waiting: deque[Future[list[_Encoded]]] = deque()
        for job in self._jobs(plan, done):
            waiting.append(pool.submit(job))
            if len(waiting) > 2 * self.threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _jobs(self, plan: ShardPlan, done: int) -> Iterator[Callable[[], list["_Encoded"]]]:
        position = 0
        for entry in plan.entries:
            count = self.module.member_count(entry.facts)
            first, stop = max(plan.first + done, position), min(position + count, plan.stop or position + count)
            numbers = range(first - position, stop - position)
            position += count
            if not numbers:
                continue
            if count == 1:
                yield lambda entry=entry: [self._encode(plan, one) for one in self._members(entry)]  # type: ignore[misc]
                continue
            file, whole = self.root / entry.path, len(numbers) == count
            if not whole and not plan.cut:
                self.module.require_unchanged(file, entry.facts)
            found = 0
            for member in self.module.members(file, entry.facts, None if whole and not plan.cut else numbers):
                found += 1
                yield lambda member=member: [self._encode(plan, member)]  # type: ignore[misc]
            if found != len(numbers):
                words = OTHER_CONTENT(found=found, what="members", expected=len(numbers))
                raise DatasetError(at(str(file), words))

    def _members(self, entry: FileEntry) -> list[Member]:
        """Return the only member of a file."""
        file = self.root / entry.path
        members = list(self.module.members(file, entry.facts))
        found = sum(len(member.record_offsets) for member in members)
        if found != entry.records or len(members) != 1:
            raise DatasetError(at(str(file), OTHER_CONTENT(found=found, what="samples", expected=entry.records)))
        return members

    def _encode(self, plan: ShardPlan, member: Member) -> "_Encoded":
        packed = encode_member(member.content, self.encoding.codec, self.encoding.level)
        return f"{plan.split}/{member.name}", member, packed


_Encoded = tuple[str, Member, bytes]
_work: list[Callable[[int], Any]] = []


def _adopt(work: Callable[[int], Any], parent: int) -> None:
    """Take the work over from the parent, which a forked process inherits, and end when the parent is killed."""
    _work[:] = [work]
    end_with(parent)


def _apply(index: int) -> Any:  # noqa: ANN401
    return _work[0](index)


def _identity(plan: ShardPlan) -> list[object]:
    """Return what tells a plan from others of the same dataset."""
    return [plan.file, len(plan.entries), plan.first, plan.stop]


class _Archive:
    """A tar archive written from front to end, with its checksum and a journal of its members."""

    def __init__(self, file: IO[bytes], journal: IO[bytes]) -> None:
        self._file, self._journal, self.bytes, self.crc = file, journal, 0, 0
        self.rows: list[bytes] = []

    @classmethod
    @contextmanager
    def opened(cls, path: Path, identity: dict[str, object]) -> Iterator["_Archive"]:
        """Open an archive: continued after the last member of its journal if that fits, else a new one."""
        with path.with_name(path.name + JOURNAL).open("a+b") as journal, path.open("a+b") as file:
            _lock(journal.fileno(), path)
            archive = cls(file, journal)
            head = (json.dumps(identity) + "\n").encode()
            journal.seek(0)
            if journal.readline() == head and archive._continue():
                pass
            else:
                archive.bytes, archive.crc, archive.rows = 0, 0, []
                journal.truncate(0)
                file.truncate(0)
                journal.write(head)
                journal.flush()
            yield archive

    def _continue(self) -> bool:
        """Read the journal and check the archive up to its last whole line; cut both there."""
        end = self._journal.tell()
        for line in self._journal:
            try:
                values = json.loads(line)
                size, crc = int(values["end"]), int(values["crc"])
                row = json.dumps(values["row"]).encode()
            except (ValueError, KeyError, TypeError):
                break
            self.rows.append(row)
            self.bytes, self.crc, end = size, crc, end + len(line)
        self._file.seek(0)
        found, left = 0, self.bytes
        while left and (block := self._file.read(min(left, _CHECK_BYTES))):
            found, left = crc32c(block, found), left - len(block)
        if left or found != self.crc:
            return False
        self._journal.truncate(end)
        self._file.truncate(self.bytes)
        return True

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
        self.bytes += len(data)
        self.crc = crc32c(data, self.crc)

    def add(self, name: str, member: Member, packed: bytes, suffix: str) -> None:
        """Append a member with neutral owner and time, then note it in the journal."""
        info = tarfile.TarInfo(name + suffix)
        info.size = len(packed)
        self.write(info.tobuf(tarfile.PAX_FORMAT))
        row = PackedMember(
            name=name,
            offset=self.bytes,
            packed_bytes=len(packed),
            content_bytes=len(member.content),
            content_crc32c=checksum_of(member.content),
            record_offsets=member.record_offsets,
        )
        self.write(packed)
        self.write(bytes(-len(packed) % _TAR_BLOCK_BYTES))
        self._file.flush()
        text = row.model_dump_json().encode()
        self._journal.write(b'{"end":%d,"crc":%d,"row":%b}\n' % (self.bytes, self.crc, text))
        self._journal.flush()
        self.rows.append(text)

    def finish(self) -> None:
        """Append the end mark; it is not in the journal, so a later call writes it again."""
        self.write(bytes(2 * _TAR_BLOCK_BYTES))
        self._file.flush()


def _lock(descriptor: int, path: Path) -> None:
    """Wait for the processes of a killed packing to end; the kernel releases the lock of one that ended."""
    until_s = time.monotonic() + _LOCK_PATIENCE_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until_s:
                raise DatasetError(at(str(path), HELD())) from None
            time.sleep(0.5)
        except OSError:  # a file system without locks
            return
        else:
            return
