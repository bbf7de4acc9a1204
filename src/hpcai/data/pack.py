"""Pack the samples of a dataset into a few shards that all ranks of a node can unpack in parallel.

Members of a shard are TFRecord files, whatever container the dataset has. A shard is a plain tar archive with
individually compressed members: any tar tool can open it, and a member can be unpacked alone. packed.json lists where
each member's bytes are, so that no rank has to read through an archive.
"""

import logging
import os
import stat
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from crc32c import crc32c
from pydantic import Field

from hpcai.config.base import Count, Index, Name, Settings
from hpcai.config.benchmark import SPLITS, PackSettings, Split
from hpcai.core.errors import DatasetError
from hpcai.core.files import write_atomically
from hpcai.core.messages import Message, at
from hpcai.core.sealed import sealed_model
from hpcai.data.manifest import Checksum, FileEntry, Manifest, RelativePath, in_parallel, read_json
from hpcai.data.member_codec import SUFFIXES, Codec, encode_member
from hpcai.data.module import DataModule, Member, checksum_of

logger = logging.getLogger(__name__)
OTHER_DATASET = Message(
    "pack.other_dataset",
    "found shards of a dataset with the digest {found}, expected {expected} ({dataset}); pack the dataset again",
)
PACKED = "packed.json"
_PARTIAL = ".partial"
_TAR_BLOCK_BYTES = 512


class PackedMember(Settings):
    """One TFRecord file inside a shard."""

    name: RelativePath = Field(description="Name of the unpacked file, such as train/xyz.tfrecord.")
    offset: Index = Field(description="Start of its packed bytes in the shard.")
    packed_bytes: Count
    content_bytes: Count
    content_crc32c: Checksum
    record_offsets: tuple[Index, ...] = Field(description="Start of each record in the content.")


class PackedShard(Settings):
    """One archive; ``file`` is relative to the folder of packed.json."""

    file: RelativePath
    split: Split
    bytes: Count
    crc32c: Checksum
    members: tuple[PackedMember, ...]


class PackManifest(Settings):
    """All shards of a dataset."""

    schema_version: Literal[2] = 2
    dataset: Name
    manifest_digest: str
    codec: Codec
    level: int
    shards: tuple[PackedShard, ...]
    stored_bytes: Count = Field(description="Sample files as they lie in the dataset.")
    content_bytes: Count = Field(description="TFRecord files as they are staged.")
    packed_bytes: Count = Field(description="Shards.")
    compression_ratio: float = Field(description="content_bytes / packed_bytes.")
    pack_s: float

    def members(self, split: Split) -> tuple[PackedMember, ...]:
        """Return the members of a split, sorted by name."""
        found = (member for shard in self.shards if shard.split == split for member in shard.members)
        return tuple(sorted(found, key=lambda member: member.name))


def input_bytes(pack: PackManifest, split: Split, *, staged: bool) -> int:
    """Return the bytes of the files of a split that training reads: unpacked if staged, else the shards [byte]."""
    if staged:
        return sum(member.content_bytes for member in pack.members(split))
    return sum(shard.bytes for shard in pack.shards if shard.split == split)


@dataclass(frozen=True)
class _Task:
    """One shard to write."""

    split: Split
    file: str
    entries: Sequence[FileEntry]


def pack_dataset(
    manifest: Manifest, module: DataModule[Any], root: Path, settings: PackSettings, output: Path
) -> PackManifest:
    """Pack a dataset into shards and write packed.json last.

    File i of a split goes to shard i modulo the number of shards. If the number of nodes divides the number of shards,
    a node's part of a split dataset is a set of whole shards. Equal input gives bit-identical shards.

    Parameters
    ----------
    manifest
        The dataset; each file is verified against it while being read.
    module
        The benchmark's data module; it converts containers that are not TFRecord files.
    root
        Folder of the sample files, see `Manifest.root`.
    settings
        Codec, level and shards per split.
    output
        Folder of packed.json; earlier shards there are replaced when the new ones are complete.

    Raises
    ------
    DatasetError
        If a sample file is missing or damaged.
    """
    started_s = time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    tasks = [task for split in SPLITS for task in _tasks(split, manifest.splits.get(split, ()), settings.shards)]
    logger.info("packing %d files into %d shards (%s)", len(manifest.entries), len(tasks), settings.codec)
    with _no_leftovers(output):
        shards = in_parallel(lambda task: _write_shard(task, module, root, settings, output), tasks)
        _publish(output, shards)
    content_bytes = sum(member.content_bytes for shard in shards for member in shard.members)
    packed_bytes = sum(shard.bytes for shard in shards)
    packed = PackManifest(
        dataset=manifest.dataset,
        manifest_digest=manifest.digest,
        codec=settings.codec,
        level=settings.level,
        shards=tuple(shards),
        stored_bytes=sum(entry.bytes for entry in manifest.entries),
        content_bytes=content_bytes,
        packed_bytes=packed_bytes,
        compression_ratio=content_bytes / packed_bytes,
        pack_s=time.monotonic() - started_s,
    )
    write_atomically(output / PACKED, sealed_model(packed))
    logger.info("packed %d bytes into %d in %.1f s", content_bytes, packed_bytes, packed.pack_s)
    return packed


def read_pack(path: Path) -> PackManifest:
    """Read packed.json and check it against its own digest; earlier versions have none.

    Raises
    ------
    DatasetError
        If the file is missing or damaged, or has another schema.
    """
    return read_json(path, PackManifest, "delete it and start the workflow again, which packs the dataset again")


def require_same(pack: PackManifest, manifest: Manifest, path: Path) -> None:
    """Check that shards were packed from the dataset described by a manifest.

    Raises
    ------
    DatasetError
        If they were packed from other data.
    """
    if pack.manifest_digest != manifest.digest:
        raise DatasetError(
            at(
                str(path),
                OTHER_DATASET(found=pack.manifest_digest[:16], expected=manifest.digest[:16], dataset=manifest.dataset),
            )
        )


def require_shards(pack: PackManifest, path: Path) -> None:
    """Check that the shards exist next to packed.json with the recorded lengths; unpacking verifies their content.

    Parameters
    ----------
    pack
        Content of packed.json.
    path
        Path of packed.json.

    Raises
    ------
    DatasetError
        If a shard is missing, no file, or has another length: names the first and counts the rest.
    """
    problems = [problem for shard in pack.shards if (problem := _shard_problem(path.parent / shard.file, shard.bytes))]
    if problems:
        more = f" (and {len(problems) - 1} more of {len(pack.shards)} shards)" if problems[1:] else ""
        raise DatasetError(f"{problems[0]}{more}; put back what is missing, or pack the dataset again")


def _shard_problem(path: Path, expected_bytes: int) -> str:
    """Return what is wrong with a shard; blank if nothing."""
    try:
        found = path.stat()
    except OSError as error:
        return f"{path}: cannot be read ({error.strerror}), expected a shard of {expected_bytes} bytes"
    if not stat.S_ISREG(found.st_mode):
        return f"{path}: found no plain file, expected a shard of {expected_bytes} bytes"
    if found.st_size != expected_bytes:
        return f"{path}: found {found.st_size} bytes, expected a shard of {expected_bytes}"
    return "" if os.access(path, os.R_OK) else f"{path}: may not be read, expected a shard that this user may read"


def _tasks(split: Split, entries: Sequence[FileEntry], shards: int) -> Iterator[_Task]:
    count = min(shards, len(entries))
    ordered = sorted(entries, key=lambda entry: entry.path)
    for index in range(count):
        yield _Task(split, f"{split}-{index:05d}-of-{count:05d}.tar", ordered[index::count])


class _Archive:
    """A tar archive written once from front to end, with its checksum."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.bytes, self.crc = file, 0, 0

    def write(self, data: bytes) -> None:
        self._file.write(data)
        self.bytes += len(data)
        self.crc = crc32c(data, self.crc)

    def add(self, name: str, data: bytes) -> int:
        """Append a member with neutral owner and time; return the offset of its bytes."""
        info = tarfile.TarInfo(name)
        info.size = len(data)
        self.write(info.tobuf(tarfile.PAX_FORMAT))
        offset = self.bytes
        self.write(data)
        self.write(bytes(-len(data) % _TAR_BLOCK_BYTES))
        return offset


def _write_shard(task: _Task, module: DataModule[Any], root: Path, settings: PackSettings, output: Path) -> PackedShard:
    members: list[PackedMember] = []
    with (output / (task.file + _PARTIAL)).open("wb") as file:
        archive = _Archive(file)
        for entry in task.entries:
            converted = 0
            for member in module.members(root / entry.path, entry.facts):
                members.append(_add(archive, f"{task.split}/{member.name}", member, settings))
                converted += len(member.record_offsets)
            if converted != entry.records:
                raise DatasetError(
                    f"{root / entry.path}: found {converted} samples while packing, expected {entry.records} as in the "
                    "manifest; make the dataset again"
                )
        archive.write(bytes(2 * _TAR_BLOCK_BYTES))
    return PackedShard(
        file=task.file, split=task.split, bytes=archive.bytes, crc32c=f"{archive.crc:08x}", members=tuple(members)
    )


def _add(archive: _Archive, name: str, member: Member, settings: PackSettings) -> PackedMember:
    packed = encode_member(member.content, settings.codec, settings.level)
    return PackedMember(
        name=name,
        offset=archive.add(name + SUFFIXES[settings.codec], packed),
        packed_bytes=len(packed),
        content_bytes=len(member.content),
        content_crc32c=checksum_of(member.content),
        record_offsets=member.record_offsets,
    )


def _publish(output: Path, shards: Sequence[PackedShard]) -> None:
    """Replace older shards by the new ones; packed.json is absent meanwhile, so nobody reads a mixture."""
    (output / PACKED).unlink(missing_ok=True)
    names = {shard.file for shard in shards}
    for old in output.glob("*-of-*.tar"):
        if old.name not in names:
            old.unlink()
    for name in sorted(names):
        (output / (name + _PARTIAL)).replace(output / name)


@contextmanager
def _no_leftovers(output: Path) -> Iterator[None]:
    """Remove incomplete shards of a failed packing, current or earlier."""
    try:
        yield
    finally:
        for partial in output.glob("*" + _PARTIAL):
            partial.unlink()
