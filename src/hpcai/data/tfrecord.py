"""TFRecord files without TensorFlow: framing, gzip, and a reader that detects every kind of damage.

A record consists of its length (uint64, little-endian), the masked CRC-32C of the length, the payload, and the masked
CRC-32C of the payload (TensorFlow, core/lib/io/record_writer.h). TensorFlow reads a truncated gzip file and an empty
file without an error; this reader does not.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from hpcai.core.errors import DatasetError
from hpcai.core.files import read_regular, write_atomically
from hpcai.core.messages import Message, at

GZIP_CUT = Message("tfrecord.gzip_cut", "the gzip data ends before its trailer: the tail of the file is cut; {remedy}")

HEADER = struct.Struct("<QI")
FOOTER = struct.Struct("<I")
FRAME_BYTES = HEADER.size + FOOTER.size
GZIP_MAGIC = b"\x1f\x8b"
GZIP_LEVEL = 6
"""Default compression level of zlib, and therefore of TensorFlow's writer."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_MASK_DELTA = 0xA282EAD8
"""Mask constant; TensorFlow, core/lib/hash/crc32c.h."""
_BLOCK_BYTES = 1 << 18
MAX_CONTENT_BYTES = 1 << 31
"""Content limit of a file [byte]; sample files stay far below, so a larger gzip file is a decompression bomb."""
MAX_RATIO = 100
"""Content limit per byte of a gzip file: samples reach about 6, zeros 1032."""
REPAIR = "copy the file again, or make the dataset again"


@dataclass(frozen=True)
class Content:
    """Uncompressed bytes of a file up to the first damage, and the damage ("" if none)."""

    data: bytes
    problem: str = ""


def encode_records(payloads: Iterable[bytes]) -> bytes:
    """Return the plain TFRecord bytes of payloads."""
    parts: list[bytes] = []
    for payload in payloads:
        length = struct.pack("<Q", len(payload))
        parts += [length, FOOTER.pack(masked_crc32c(length)), payload, FOOTER.pack(masked_crc32c(payload))]
    return b"".join(parts)


def masked_crc32c(data: bytes | memoryview) -> int:
    """Return the masked CRC-32C: rotated right by 15 bits, plus a constant."""
    crc: int = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def compress_content(content: bytes | memoryview, level: int = GZIP_LEVEL) -> bytes:
    """Compress content as one gzip member without name or time: equal content gives equal bytes."""
    compressor = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW)
    return compressor.compress(content) + compressor.flush()


def write_records(path: Path, payloads: Iterable[bytes], compress: bool) -> None:
    """Write payloads as a TFRecord file, gzip-compressed or plain; the file appears atomically.

    Parameters
    ----------
    path
        File to write; its folder must exist.
    payloads
        Records in order, at least one.
    compress
        True for gzip.

    Raises
    ------
    DatasetError
        If there is no payload: readers would take the empty file as damaged.
    """
    content = encode_records(payloads)
    if not content:
        raise DatasetError(f"{path}: found no record to write, expected at least one; correct the caller")
    write_atomically(path, compress_content(content) if compress else content)


def unpack_content(data: bytes, compressed: bool) -> Content:
    """Return the TFRecord bytes of a file's bytes; gzip damage is recorded, not raised.

    The content before the damage is returned, so that the damaged record can be named.
    """
    if not compressed:
        if data[:2] == GZIP_MAGIC:
            return Content(b"", "found gzip, expected plain records; correct the setting edition")
        return Content(data)
    if data and data[:2] != GZIP_MAGIC:
        return Content(b"", f"found no gzip header, expected gzip; correct the setting edition, or {REPAIR}")
    parts: list[bytes] = []
    try:
        parts.extend(_decompressed(data))
    except ValueError as error:
        return Content(b"".join(parts), error.args[0])
    return Content(b"".join(parts))


def _decompressed(data: bytes) -> Iterator[bytes]:
    """Yield the content of gzip members block by block; raise ValueError at the first damage."""
    total_bytes, most_bytes = 0, min(MAX_CONTENT_BYTES, MAX_RATIO * len(data) + _BLOCK_BYTES)
    while data:
        if data[:2] != GZIP_MAGIC:
            raise ValueError(f"found {len(data)} bytes of garbage after the gzip data; {REPAIR}")
        decompressor = zlib.decompressobj(_GZIP_WINDOW)
        end = 0
        while not decompressor.eof:
            if end >= len(data):
                raise ValueError(GZIP_CUT(remedy=REPAIR))
            block = data[end : end + _BLOCK_BYTES]
            end += len(block)
            try:
                content = decompressor.decompress(block)
            except zlib.error as error:
                raise ValueError(f"the gzip data is damaged ({error}); {REPAIR}") from error
            total_bytes += len(content)
            if total_bytes > most_bytes:
                raise ValueError(
                    f"found more than {most_bytes} bytes of content, expected one sample: a bomb; {REPAIR}"
                )
            yield content
        data = data[end - len(decompressor.unused_data) :]


def split_records(content: Content, name: str) -> Iterator[memoryview]:
    """Yield the payloads of TFRecord bytes, each after verifying both its checksums.

    Parameters
    ----------
    content
        Uncompressed bytes, and the damage after them.
    name
        File name for errors.

    Raises
    ------
    DatasetError
        Names the file and the record (counted from 0) of the first damage.
    """
    data, position, index = memoryview(content.data), 0, 0
    size_bytes = len(data)
    while position < size_bytes:
        start = position + HEADER.size
        if start > size_bytes:
            raise _cut(name, index, content, size_bytes - position, HEADER.size)
        length, expected = HEADER.unpack_from(data, position)
        if masked_crc32c(data[position : position + 8]) != expected:
            meaning = "a flipped bit in its length, or trailing data"
            raise _flipped(name, index, data[position : position + 8], expected, meaning)
        end = start + length + FOOTER.size
        if end > size_bytes:
            raise _cut(name, index, content, size_bytes - position, FRAME_BYTES + length)
        payload, (expected,) = data[start : start + length], FOOTER.unpack_from(data, start + length)
        if masked_crc32c(payload) != expected:
            raise _flipped(name, index, payload, expected, "a flipped bit")
        yield payload
        position, index = end, index + 1
    if content.problem:
        raise DatasetError(at(f"{name}: record {index}", content.problem))
    if index == 0:
        raise DatasetError(f"{name}: record 0: found an empty file, expected at least one record; {REPAIR}")


def _flipped(name: str, index: int, data: memoryview, expected: int, meaning: str) -> DatasetError:
    return DatasetError(
        f"{name}: record {index}: found {masked_crc32c(data):08x} as checksum of {len(data)} bytes, "
        f"expected {expected:08x}: {meaning}; {REPAIR}"
    )


def _cut(name: str, index: int, content: Content, found_bytes: int, expected_bytes: int) -> DatasetError:
    reason = content.problem or f"the tail of the file is cut; {REPAIR}"
    return DatasetError(f"{name}: record {index}: found {found_bytes} bytes of it, expected {expected_bytes}: {reason}")


def read_file(path: Path | str) -> bytes:
    """Return the bytes of a dataset file.

    Raises
    ------
    DatasetError
        If it cannot be read.
    """
    try:
        return read_regular(path, MAX_CONTENT_BYTES)
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror}), expected a readable file; make the dataset again"
        ) from error
