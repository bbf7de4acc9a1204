"""Read files straight from an archive: once, within the limits, without extracting it to disk."""

import bz2
import gzip
import io
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, cast

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message, at
from hpcai.mlperf_hpc.rounds import limits
from hpcai.mlperf_hpc.rounds.limits import Budget
from hpcai.mlperf_hpc.rounds.model import Repair
from hpcai.mlperf_hpc.rounds.selection import Files, Wanted, admit, fits, is_chosen, is_junk, left_out

LONG_HEAD = Message(
    "archives.long_head", "a name or attributes of {found_bytes:,} bytes, more than {most_bytes:,}, before a member"
)
CUT = Message(
    "archives.cut",
    "found an archive that cannot be read to its end ({reason}), expected a whole .tar, .tar.gz, .tar.xz, "
    ".tar.bz2 or .zip; nothing of it was imported, copy or download it again",
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK_BYTES = 1 << 18
ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Python decompresses other methods a whole block at a time, with unbounded output."""
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, struct.error),
    *(EOFError, OSError, RuntimeError, ValueError, IndexError, OverflowError),
)
"""Exceptions of the archive libraries for damaged, encrypted or unsupported archives (NotImplementedError included)."""


class _XzStream(io.RawIOBase):
    """An xz file with a memory limit: `lzma.LZMAFile` allocates the gigabytes that a header asks for."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._decoder = self._new_decoder()

    @staticmethod
    def _new_decoder() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=limits.XZ_MEMORY_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        while True:
            data = self._decode(len(view))
            if data is None:
                return 0
            if data:
                view[: len(data)] = data
                return len(data)

    def _decode(self, most: int) -> bytes | None:
        """Return the next chunk, which may be empty; None at the end, which zeros may follow."""
        packed = b""
        if self._decoder.eof:
            packed = self._decoder.unused_data.lstrip(b"\0")
            while not packed:
                piece = self._file.read(CHUNK_BYTES)
                if not piece:
                    return None
                packed = piece.lstrip(b"\0")
            self._decoder = self._new_decoder()
        elif self._decoder.needs_input:
            packed = self._file.read(CHUNK_BYTES)
            if not packed:
                raise EOFError("the compressed file ends before its mark of the end")
        try:
            return self._decoder.decompress(packed, most)
        except lzma.LZMAError as error:
            if "Memory" not in str(error):
                raise
            allowed = f"{limits.XZ_MEMORY_BYTES >> 20} MiB"
            raise lzma.LZMAError(f"it asks for more than {allowed} of memory; pack it with xz -9 or less") from error

    def close(self) -> None:
        self._file.close()
        super().close()


Stream = IO[bytes] | gzip.GzipFile | bz2.BZ2File | _XzStream
COMPRESSIONS: dict[bytes, Callable[[Path], Stream]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\x00": _XzStream,
    b"BZh": bz2.BZ2File,
}
"""Magic bytes of compressed tar archives. These streams verify checksums, which tarfile's stream mode does not."""


def is_archive(source: Path) -> bool:
    """Recognise an archive by its content, not by its name."""
    with source.open("rb") as stream:
        head = stream.read(262)
    return head.startswith((*COMPRESSIONS, *ZIP_STARTS)) or head[257:262] == b"ustar"


def read_archive(source: Path, wanted: Wanted, repairs: list[Repair]) -> Files:
    """Yield the wanted files of an archive (:func:`hpcai.mlperf_hpc.rounds.source.read_files`).

    Raises
    ------
    ParseError
        If the archive is damaged, truncated or encrypted, has sparse files, or is larger than the limits.
    """
    budget = Budget(source)
    try:
        with source.open("rb") as stream:
            head = stream.read(6)
        if head.startswith(ZIP_STARTS):
            yield from _read_zip(source, wanted, repairs, budget)
            return
        opener = next((function for start, function in COMPRESSIONS.items() if head.startswith(start)), None)
        with opener(source) if opener else source.open("rb") as stream:
            counted = _Counted(stream, budget)
            yield from _read_tar(counted, wanted, repairs, budget)
            while counted.read(1 << 20):  # read to the end, where the stream's checksum is
                pass
    except DAMAGE as error:
        raise ParseError(at(str(source), CUT(reason=error or type(error).__name__))) from error


class _Counted:
    """A stream whose bytes count towards the limit on unpacked data."""

    def __init__(self, stream: Stream, budget: Budget) -> None:
        self._stream = stream
        self._budget = budget

    def read(self, size: int) -> bytes:
        data = self._stream.read(size) or b""
        self._budget.unpack(len(data))
        return data


class _Member(tarfile.TarInfo):
    """A member whose damaged or oversized header is an error.

    tarfile treats a damaged header as the end of the archive, reads long names and attributes of any size into memory,
    and holds the map of a sparse file, which can be larger than the archive.
    """

    _HEADS = (
        *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    )

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> "_Member":
        try:
            return super().fromtarfile(tarfile)
        except _END:
            raise
        except _DAMAGED_HEADERS as error:
            raise _damaged(error) from error

    def _proc_member(self, archive: tarfile.TarFile) -> "_Member":
        """Process one header; tarfile's hook for subclasses."""
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        if self.type in self._HEADS and self.size > limits.HEAD_BYTES:
            raise tarfile.ReadError(LONG_HEAD(found_bytes=self.size, most_bytes=limits.HEAD_BYTES))
        member: _Member = super()._proc_member(archive)  # type: ignore[misc]
        return member

    def _refuse_sparse(self, *_: object) -> None:
        raise tarfile.ReadError("it holds a sparse file, as no published one does; pack it without --sparse")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


# typeshed omits them; only tarfile's source documents them
_END = getattr(tarfile, "EOFHeaderError")  # noqa: B009
_DAMAGED_HEADERS = getattr(tarfile, "HeaderError")  # noqa: B009


def _damaged(error: Exception) -> tarfile.ReadError:
    return tarfile.ReadError(f"damaged or cut off at a member's head: {error}")


def _read_tar(stream: _Counted, wanted: Wanted, repairs: list[Repair], budget: Budget) -> Files:
    readable = cast("IO[bytes]", stream)  # only its read() is called
    with tarfile.open(fileobj=readable, mode="r|", bufsize=CHUNK_BYTES, tarinfo=_Member) as archive:
        while (member := archive.next()) is not None:
            # tarfile's list of members is not needed, and millions of them would fill the memory.
            archive.members.clear()  # type: ignore[attr-defined]
            archive.pax_headers = {}
            budget.pass_member(member.size)
            path = _safe_path(member.name, wanted, repairs)
            if path is None:
                continue
            if member.issym() or member.islnk():
                repairs.append(left_out(path, "link", f"a link to {member.linkname}"))
            elif not member.isfile():
                repairs.append(left_out(path, "no_file", "a folder or device"))
            elif fits(path, member.size, repairs) and (content := archive.extractfile(member)):
                yield from admit(path, content.read(), budget, repairs)


def _read_zip(source: Path, wanted: Wanted, repairs: list[Repair], budget: Budget) -> Files:
    with zipfile.ZipFile(source) as archive:
        for member in sorted(archive.infolist(), key=lambda info: info.header_offset):
            budget.pass_member(member.file_size)
            path = _safe_path(member.filename, wanted, repairs)
            if path is None:
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                repairs.append(left_out(path, "link", "a link"))
            elif member.is_dir():
                repairs.append(left_out(path, "no_file", "a folder"))
            elif member.compress_type not in ZIP_METHODS:
                raise zipfile.BadZipFile(f"compression method {member.compress_type} of {path!r}, expected deflate")
            elif fits(path, member.file_size, repairs):
                with archive.open(member) as stream:  # too small a size fails the checksum
                    yield from admit(path, stream.read(member.file_size), budget, repairs)


def _safe_path(name: str, wanted: Wanted, repairs: list[Repair]) -> str | None:
    """Return the path of a wanted member; wanted members with a path outside the archive are listed instead."""
    path = PurePosixPath(name.replace("\\", "/"))
    words = path.as_posix()
    if path.is_absolute() or ".." in path.parts:
        if wanted(words):
            repairs.append(left_out(name, "unsafe_path", "a path that leaves the archive"))
        return None
    if any(is_junk(part) for part in path.parts[:-1]):
        return None
    return words if is_chosen(words, wanted, repairs) else None
