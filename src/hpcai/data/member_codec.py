"""Compression of the members of a packed shard."""

import zlib
from dataclasses import dataclass
from typing import Literal

import numpy as np
import zstandard
from numpy.typing import NDArray

from hpcai.data.tfrecord import compress_content

Codec = Literal["none", "gzip", "zstd", "shuffle_zstd", "shuffle_lz4"]
SUFFIXES: dict[Codec, str] = {
    "none": "",
    "gzip": ".gz",
    "zstd": ".zst",
    "shuffle_zstd": ".shuf2.zst",
    "shuffle_lz4": ".shuf2.lz4",
}
"""``shuf2``: all even bytes, then all odd ones; for small 16-bit counts the odd ones are nearly all 0."""

_JOINED_AT_ONCE = 1 << 17
"""Block length [words] that stays in a core's cache between the two steps."""

Buffer = NDArray[np.uint8]


@dataclass(frozen=True)
class Encoding:
    """How members are compressed."""

    codec: Codec
    level: int


class CodecError(Exception):
    """Packed bytes that cannot be decoded to the expected size."""


def encode_member(content: bytes, codec: Codec, level: int) -> bytes:
    """Compress content as a member of a shard; equal content gives equal bytes."""
    if codec == "none":
        return content
    if codec == "gzip":
        return compress_content(content, level)
    plain = content if codec == "zstd" else shuffle(content)
    if codec == "shuffle_lz4":
        import pyarrow  # no other codec needs it

        frame: bytes = pyarrow.Codec("lz4", compression_level=level).compress(plain, asbytes=True)
        return frame
    packed: bytes = zstandard.ZstdCompressor(level=level, threads=0).compress(plain)
    return packed


def shuffle(content: bytes) -> bytes:
    """Return the even bytes, then the odd ones."""
    words = np.frombuffer(content, np.uint8)
    planes: bytes = np.concatenate([words[0::2], words[1::2]]).tobytes()
    return planes


class MemberDecoder:
    """Decodes members into its own, reused buffers: one decoder per thread.

    Fresh memory for each member would cost more time (page faults) than decoding.
    """

    def __init__(self, codec: Codec, largest_content_bytes: int) -> None:
        self._codec = codec
        self._content = np.empty(largest_content_bytes + 1, np.uint8)
        self._planes = np.empty(largest_content_bytes if codec.startswith("shuffle") else 0, np.uint8)
        self._zstd = zstandard.ZstdDecompressor()

    def decode(self, packed: memoryview, content_bytes: int) -> memoryview:
        """Return the content, valid until the next call.

        Raises
        ------
        CodecError
            If the bytes are damaged or decode to another size.
        """
        if self._codec == "none":
            content = packed
        elif self._codec == "gzip":
            content = _gunzip(packed, content_bytes)
        elif self._codec == "zstd":
            self._unzstd(packed, self._content, content_bytes)
            content = self._content.data[:content_bytes]
        else:
            unpack = self._unzstd if self._codec == "shuffle_zstd" else self._unlz4
            unpack(packed, self._planes, content_bytes)
            self._unshuffle(content_bytes)
            content = self._content.data[:content_bytes]
        if len(content) != content_bytes:
            raise CodecError(f"found {len(content)} bytes of content, expected {content_bytes}")
        return content

    def _unzstd(self, packed: memoryview, buffer: Buffer, content_bytes: int) -> None:
        try:
            declared = zstandard.frame_content_size(packed)
            if declared != content_bytes:
                raise CodecError(f"found {declared} as the content size of the zstd frame, expected {content_bytes}")
            with self._zstd.stream_reader(packed, closefd=False) as reader:
                found = reader.readinto(buffer.data[:content_bytes])
        except zstandard.ZstdError as error:
            raise CodecError(f"the zstd data is damaged ({error})") from error
        # After a short member the buffer still holds the end of an earlier one.
        if found != content_bytes:
            raise CodecError(f"found {found} bytes of content, expected {content_bytes}: the zstd data is cut")

    @staticmethod
    def _unlz4(packed: memoryview, buffer: Buffer, content_bytes: int) -> None:
        import pyarrow

        try:
            with pyarrow.CompressedInputStream(pyarrow.BufferReader(pyarrow.py_buffer(packed)), "lz4") as reader:
                found = reader.readinto(buffer.data[:content_bytes])
                more = reader.read(1)  # also reads the end of the frame
        except OSError as error:
            raise CodecError(f"the lz4 data is damaged ({error})") from error
        if found != content_bytes or more:
            found_words = f"more than {found}" if more else str(found)
            raise CodecError(f"found {found_words} bytes of content, expected {content_bytes}")

    def _unshuffle(self, size: int) -> None:
        """Join the two planes with 16-bit arithmetic, several times faster than two strided copies.

        Where all odd bytes are 0, as in most blocks of small counts, the even ones only become wider: a third of that.
        """
        pairs = size // 2
        even, odd = self._planes[: size - pairs], self._planes[size - pairs : size]
        words = self._content[: 2 * pairs].view("<u2")
        for start in range(0, pairs, _JOINED_AT_ONCE):
            part = slice(start, start + _JOINED_AT_ONCE)
            joined = words[part]
            if odd[part].max() == 0:
                joined[:] = even[:pairs][part]
                continue
            np.left_shift(odd[part], 8, out=joined, dtype=np.uint16)
            np.bitwise_or(joined, even[:pairs][part], out=joined, dtype=np.uint16)
        if size % 2:
            self._content[size - 1] = even[-1]


def _gunzip(packed: memoryview, content_bytes: int) -> memoryview:
    decompressor = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        # Reading one byte more than expected detects content that is too long without decompressing all of it.
        content = decompressor.decompress(packed, content_bytes + 1)
    except zlib.error as error:
        raise CodecError(f"the gzip data is damaged ({error})") from error
    if len(content) == content_bytes and not decompressor.eof:
        raise CodecError("the gzip data ends before its trailer")
    return memoryview(content)
