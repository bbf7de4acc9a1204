"""Unpack untrusted archives: only plain files and folders, only below the target, only up to given limits."""

import gzip
import io
import shutil
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpcai.core.errors import DatasetError
from hpcai.core.files import NO_SPACE, regular_bytes
from hpcai.core.messages import Message, at

LONG_HEADER = Message(
    "archives.long_header",
    "found a header of more than {most_bytes} bytes, expected a short one; {remedy}",
)
NO_ROOM = Message(
    "archives.no_room",
    "no room for the content of {archive} ({reason}); make room there, and start again",
)

Format = Literal["tar", "tgz"]
_HEADER_BYTES = 1 << 20
"""Header size limit [byte], far above honest long names and extended headers; tarfile keeps headers in memory."""
_END_BYTES = 1024
"""Size of the two zero blocks that end a tar archive [byte] (POSIX.1, pax interchange format)."""
_BLOCK_BYTES = 1 << 20
REFUSED = "the archive is refused; fetch it from its publisher, and do not unpack it by hand"


@dataclass(frozen=True)
class UnpackLimits:
    """Limits on an archive's content.

    ``ratio`` is content per archive byte: CosmoFlow samples reach about 6, and deflate at most 1032.
    """

    content_bytes: int
    files: int = 2_000_000
    ratio: float = 100.0


def unpack_archive(archive: Path, folder: Path, form: Format, limits: UnpackLimits) -> None:
    """Unpack an untrusted archive.

    Parameters
    ----------
    archive
        File to unpack.
    folder
        Empty folder to unpack into; after an error it holds what was unpacked so far.
    form
        ``tar`` or ``tgz``.
    limits
        Maximum bytes, files and ratio.

    Raises
    ------
    DatasetError
        Names archive and member. Causes: a path outside the folder, a link, a device, a sparse or repeated file, a
        decompression bomb, a damaged or truncated archive, or no room for the files.
    """
    names: set[str] = set()
    try:
        regular_bytes(archive)
        with archive.open("rb") as raw:
            source = _Meter(gzip.GzipFile(fileobj=raw) if form == "tgz" else raw, archive, limits)
            # Stream the archive once from front to end, so that the meter sees every byte.
            with tarfile.open(fileobj=source, mode="r|") as tar:
                while (member := tar.next()) is not None:
                    _check(archive, member, names, limits)
                    source.allow(member.size + _HEADER_BYTES)
                    _extract(tar, member, folder / member.name)
                    # Otherwise the list of members grows without limit.
                    tar.members = []  # type: ignore[attr-defined]
            source.finish()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise DatasetError(at(str(folder), NO_ROOM(archive=archive, reason=error.strerror))) from error
        raise DatasetError(
            f"{archive}: after {len(names)} members: found damage ({error}), expected a whole {form} archive; "
            "fetch it again"
        ) from error


class _Meter(io.RawIOBase):
    """Passes an archive's content through and stops it at the limits, even inside headers, which tarfile reads."""

    def __init__(self, source: gzip.GzipFile | io.BufferedReader, archive: Path, limits: UnpackLimits) -> None:
        super().__init__()
        self._source, self._archive = source, archive
        total_bytes = int(archive.stat().st_size * limits.ratio) + _HEADER_BYTES
        self._limit_bytes = min(limits.content_bytes + limits.files * 2 * _END_BYTES, total_bytes)
        self._read_bytes, self._allowed_bytes, self._tail = 0, _HEADER_BYTES, b""

    def allow(self, size_bytes: int) -> None:
        """Allow this many more bytes from here on."""
        self._allowed_bytes = self._read_bytes + size_bytes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self._read_bytes += len(data)
        self._tail = (self._tail + data)[-_END_BYTES:]
        if self._read_bytes > self._limit_bytes:
            raise DatasetError(
                f"{self._archive}: found more than {self._limit_bytes} bytes of content, expected less; it is a "
                f"decompression bomb, or the limit is too low; {REFUSED}"
            )
        if self._read_bytes > self._allowed_bytes:
            raise DatasetError(at(str(self._archive), LONG_HEADER(most_bytes=_HEADER_BYTES, remedy=REFUSED)))
        return data

    def finish(self) -> None:
        """Read to the end: gzip verifies its checksum there, and a truncated archive lacks its end blocks."""
        self._allowed_bytes = self._limit_bytes
        while self.read(_BLOCK_BYTES):
            pass
        if self._tail.strip(b"\0") or not self._tail:
            raise DatasetError(f"{self._archive}: found no end mark, expected a whole archive; fetch it again")


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Write one checked member without the owner, mode and times from the archive.

    tarfile's filter="data" is not an option: it came with Python 3.11.4, and Debian 12 has 3.11.2.
    """
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    if content is None:
        raise tarfile.ReadError(f"member {member.name!r} has no content")
    # Exclusive: the folder holds only files of this call, and a repeated member fails.
    with content, path.open("xb") as stream:
        shutil.copyfileobj(content, stream, _BLOCK_BYTES)


def _check(archive: Path, member: tarfile.TarInfo, names: set[str], limits: UnpackLimits) -> None:
    """Refuse a member that no honest dataset has."""
    place = f"{archive}: member {member.name!r}"
    if not (member.isreg() or member.isdir()) or member.issparse():
        raise DatasetError(f"{place}: found a link, device or sparse file, expected files and folders; {REFUSED}")
    if not member.name.isprintable() or "\\" in member.name:
        raise DatasetError(f"{place}: found an unprintable name, expected a plain one; {REFUSED}")
    if member.name.startswith("/"):
        raise DatasetError(f"{place}: found an absolute name, expected one below the archive's folder; {REFUSED}")
    if ".." in Path(member.name).parts:
        raise DatasetError(f"{place}: found '..', expected a name below the archive's folder; {REFUSED}")
    name = str(Path(member.name))
    if name in names and not member.isdir():
        raise DatasetError(f"{place}: found it twice, expected each file once; {REFUSED}")
    names.add(name)
    if len(names) > limits.files:
        raise DatasetError(f"{place}: found more than {limits.files} members, expected fewer; {REFUSED}")
    if member.size > limits.content_bytes:
        raise DatasetError(
            f"{place}: found {member.size} bytes, expected at most {limits.content_bytes}: a bomb; {REFUSED}"
        )
