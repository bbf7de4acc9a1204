"""Choose the codec of a packing: by what the storage of the shards delivers, and what a processor decodes."""

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from crc32c import crc32c
from pydantic import ValidationError

from hpcai.config.base import Settings
from hpcai.config.benchmark import PackSettings
from hpcai.core.files import write_atomically
from hpcai.data.examine import in_parallel
from hpcai.data.manifest import Manifest
from hpcai.data.member_codec import Codec, MemberDecoder, encode_member
from hpcai.data.module import DataModule

logger = logging.getLogger(__name__)
CHOICE = "codec.json"
"""Beside packed.json: the choice, and the measurements behind it."""
CANDIDATES: tuple[Codec, ...] = ("none", "zstd", "shuffle_zstd", "shuffle_lz4")
PROBE_BYTES, PROBE_READ_BYTES = 256 << 20, 8 << 20
SAMPLE_FILES, SAMPLE_BYTES = 8, 64 << 20
_TRIES = 3
_NEARLY = 0.95
"""Codecs that stage nearly as fast as the fastest: of them, the one with the fewest bytes to read."""


class Candidate(Settings):
    """What a codec does to the samples that were tried; rates in bytes of content per second."""

    codec: Codec
    compression_ratio: float
    decoding_bytes_per_s: float
    """Of one processor: decoding and checksum."""
    staging_bytes_per_s: float
    """Predicted for one node with as many processors as this one has, see `staging_rate`."""


class CodecChoice(Settings):
    """Content of codec.json."""

    manifest_digest: str
    level: int
    codec: Codec
    storage_bytes_per_s: float
    processors: int
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Storage:
    """What reads the shards: the rate of their storage [byte/s], and the processors that decode."""

    bytes_per_s: float
    processors: int

    def staging_rate(self, compression_ratio: float, decoding_bytes_per_s: float) -> float:
        """Return the rate at which content arrives [byte/s]: reading and decoding overlap, so the slower one counts.

        Writing to node-local storage is left out: all codecs write the same bytes.
        """
        return min(self.bytes_per_s * compression_ratio, self.processors * decoding_bytes_per_s)


def chosen_codec(
    manifest: Manifest, module: DataModule[Any], root: Path, settings: PackSettings, output: Path
) -> Codec:
    """Return the codec of a packing; if it is ``auto``, measure once per folder and dataset.

    Parameters
    ----------
    manifest, module, root
        The dataset.
    settings
        Codec and level.
    output
        Folder of the shards. The choice stays there, so that a packing which was killed continues with it.
    """
    if settings.codec != "auto":
        return settings.codec
    known = _known(output / CHOICE)
    if known and (known.manifest_digest, known.level) == (manifest.digest, settings.level):
        return known.codec
    storage = Storage(storage_rate(output), len(os.sched_getaffinity(0)))
    contents = list(_some_contents(manifest, module, root))
    candidates = tuple(try_codec(codec, settings.level, contents, storage) for codec in CANDIDATES)
    choice = CodecChoice(
        manifest_digest=manifest.digest,
        level=settings.level,
        codec=best_codec(candidates),
        storage_bytes_per_s=storage.bytes_per_s,
        processors=storage.processors,
        candidates=candidates,
    )
    write_atomically(output / CHOICE, choice.model_dump_json(indent=1).encode())
    logger.info("codec auto: %s, for storage of %.0f MB/s (%s)", choice.codec, storage.bytes_per_s / 1e6, CHOICE)
    return choice.codec


def best_codec(candidates: tuple[Candidate, ...]) -> Codec:
    """Return the codec with the fewest bytes to read of those that stage nearly as fast as the fastest."""
    fastest = max(candidate.staging_bytes_per_s for candidate in candidates)
    near = [candidate for candidate in candidates if candidate.staging_bytes_per_s >= _NEARLY * fastest]
    return max(near, key=lambda candidate: candidate.compression_ratio).codec


def try_codec(codec: Codec, level: int, contents: list[bytes], storage: Storage) -> Candidate:
    """Encode and decode some contents and predict the rate of staging them."""
    packed = [encode_member(content, codec, level) for content in contents]
    decoder = MemberDecoder(codec, max(map(len, contents)))
    size = sum(map(len, contents))
    ratio = size / sum(map(len, packed))
    rate = size / min(_decoding_s(decoder, packed, contents) for _ in range(_TRIES))
    return Candidate(
        codec=codec,
        compression_ratio=ratio,
        decoding_bytes_per_s=rate,
        staging_bytes_per_s=storage.staging_rate(ratio, rate),
    )


def _decoding_s(decoder: MemberDecoder, packed: list[bytes], contents: list[bytes]) -> float:
    """Return the processor time of decoding all, which others on this machine disturb less than the wall time [s]."""
    started_s = time.thread_time()
    for one, content in zip(packed, contents, strict=True):
        crc32c(decoder.decode(memoryview(one), len(content)))
    return time.thread_time() - started_s


def storage_rate(folder: Path) -> float:
    """Return the rate of reading a file of a folder's storage with all processors [byte/s].

    The file is written for this, and dropped from this node's page cache. A server may still have it in its own cache.
    """
    probe = folder / ".hpcai-probe"
    try:
        with probe.open("wb") as file:
            block = os.urandom(PROBE_READ_BYTES)  # so that no file system stores less
            for _ in range(PROBE_BYTES // PROBE_READ_BYTES):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        descriptor = os.open(probe, os.O_RDONLY)
        try:
            started_s = time.monotonic()
            in_parallel(
                lambda start: os.pread(descriptor, PROBE_READ_BYTES, start), range(0, PROBE_BYTES, PROBE_READ_BYTES)
            )
            return PROBE_BYTES / (time.monotonic() - started_s)
        finally:
            os.close(descriptor)
    finally:
        probe.unlink(missing_ok=True)


def _some_contents(manifest: Manifest, module: DataModule[Any], root: Path) -> Iterator[bytes]:
    """Yield the first member of some training files, evenly spread."""
    files = manifest.files("train")
    total = 0
    for entry in islice(files[:: -(-len(files) // SAMPLE_FILES)], SAMPLE_FILES):
        numbers = range(1) if module.member_count(entry.facts) > 1 else None
        for member in islice(module.members(root / entry.path, entry.facts, numbers), 1):
            total += len(member.content)
            yield member.content
        if total >= SAMPLE_BYTES:
            return


def _known(path: Path) -> CodecChoice | None:
    try:
        return CodecChoice.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None
