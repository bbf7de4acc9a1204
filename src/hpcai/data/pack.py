"""Pack the samples of a dataset into a few shards that all ranks of a node can unpack in parallel.

Members of a shard are TFRecord files, whatever container the dataset has. A shard is a plain tar archive with
individually compressed members: any tar tool can open it, and a member can be unpacked alone. packed.json lists where
each member's bytes are, so that no rank has to read through an archive.
"""

import logging
import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcai.config.benchmark import SPLITS, PackSettings, Split
from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.codec_choice import chosen_codec
from hpcai.data.manifest import Manifest
from hpcai.data.member_codec import Encoding
from hpcai.data.module import DataModule
from hpcai.data.packed import NO_CONTENT, PackedShard, PackManifest
from hpcai.data.shards import JOURNAL, PARTIAL, Packing, plan_shards
from hpcai.data.tabled import read_tabled, write_tabled

logger = logging.getLogger(__name__)
OTHER_DATASET = Message(
    "pack.other_dataset",
    "found shards of a dataset with the digest {found}, expected {expected} ({dataset}); pack the dataset again",
)
OTHER_SAMPLES = Message(
    "pack.other_samples", "found {found} {split} samples while packing, expected {expected}; make the dataset again"
)
PACKED = "packed.json"


def pack_dataset(
    manifest: Manifest, module: DataModule[Any], root: Path, settings: PackSettings, output: Path
) -> PackManifest:
    """Pack a dataset into shards and write packed.json last.

    File i of a split goes to shard i modulo the number of shards. If the number of nodes divides the number of shards
    and each file has one sample, a node's part of a split dataset is a set of whole shards. Files fewer than shards are
    cut instead: each shard takes an equal run of their members. Equal input gives bit-identical shards, also after a
    kill: the next call continues.

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
    plans = [plan for split in SPLITS for plan in plan_shards(split, manifest.files(split), module, settings.shards)]
    encoding = Encoding(chosen_codec(manifest, module, root, settings, output), settings.level)
    logger.info("packing %d files into %d shards (%s)", len(manifest.entries), len(plans), encoding.codec)
    shards = Packing(module, root, encoding, output, manifest.digest).run(plans)
    _require_all(manifest, shards, output)
    _publish(output, shards)
    content_bytes = sum(shard.members.total("content_bytes") for shard in shards)
    packed_bytes = sum(shard.bytes for shard in shards)
    packed = PackManifest(
        dataset=manifest.dataset,
        manifest_digest=manifest.digest,
        codec=encoding.codec,
        level=encoding.level,
        shards=tuple(shards),
        stored_bytes=manifest.entries.total("bytes"),
        content_bytes=content_bytes,
        packed_bytes=packed_bytes,
        compression_ratio=content_bytes / packed_bytes,
        pack_s=time.monotonic() - started_s,
    )
    write_tabled(packed, output / PACKED, NO_CONTENT)
    logger.info("packed %d bytes into %d in %.1f s", content_bytes, packed_bytes, packed.pack_s)
    return packed


def read_pack(path: Path) -> PackManifest:
    """Read packed.json and check it against its own digest; earlier versions have none.

    Raises
    ------
    DatasetError
        If the file is missing or damaged, or has another schema.
    """
    remedy = "delete it and start the workflow again, which packs the dataset again"
    return read_tabled(path, PackManifest, NO_CONTENT, remedy)


def input_bytes(pack: PackManifest, split: Split, *, staged: bool) -> int:
    """Return the bytes of the files of a split that training reads: unpacked if staged, else the shards [byte]."""
    if staged:
        return pack.members(split).total("content_bytes")
    return sum(shard.bytes for shard in pack.shards if shard.split == split)


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


def _require_all(manifest: Manifest, shards: Sequence[PackedShard], output: Path) -> None:
    """Check that the shards hold every sample of the dataset."""
    for split in SPLITS:
        found = sum(len(shard.members.lists("record_offsets")[0]) for shard in shards if shard.split == split)
        if found != manifest.samples(split):
            words = OTHER_SAMPLES(found=found, split=split, expected=manifest.samples(split))
            raise DatasetError(at(str(output), words))


def _publish(output: Path, shards: Sequence[PackedShard]) -> None:
    """Replace older shards by the new ones; packed.json is absent meanwhile, so nobody reads a mixture."""
    (output / PACKED).unlink(missing_ok=True)
    names = {shard.file for shard in shards}
    for old in output.glob("*-of-*.tar"):
        if old.name not in names:
            old.unlink()
    for name in sorted(names):
        (output / (name + PARTIAL)).replace(output / name)
    for left in (*output.glob("*" + PARTIAL), *output.glob("*" + JOURNAL)):
        left.unlink()
