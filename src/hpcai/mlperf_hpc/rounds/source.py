"""Files of a result repository, from a folder or straight out of an archive, which is never extracted to disk."""

import bz2
import gzip
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from hpcai.errors import ParseError
from hpcai.mlperf_hpc.rounds.model import Repair

LARGEST_FILE_BYTES = 1 << 30
"""The longest published log has 2.7 MB; what is larger than this is a bomb or no log."""
Stream = IO[bytes] | gzip.GzipFile | lzma.LZMAFile | bz2.BZ2File
COMPRESSIONS: dict[bytes, Callable[[Path], Stream]] = {
    b"\x1f\x8b": gzip.GzipFile,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}
"""First bytes of compressed tar archives. The streams check their own sums, which tarfile's stream mode does not."""
ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, struct.error),
    *(EOFError, OSError, RuntimeError, ValueError, IndexError, OverflowError),
)
"""What the archive libraries raise at damaged, encrypted or unsupported archives (NotImplementedError among them)."""
Wanted = Callable[[str], bool]
Files = Iterator[tuple[str, bytes]]


def is_archive(source: Path) -> bool:
    """Tell an archive by its content, not by its name."""
    with source.open("rb") as stream:
        head = stream.read(262)
    return head.startswith((*COMPRESSIONS, *ZIP_STARTS)) or head[257:262] == b"ustar"


def read_files(source: Path, wanted: Wanted, repairs: list[Repair]) -> Files:
    """Yield the wanted files of a folder or an archive, each as its path (with ``/``) below the source and its content.

    An archive is read once, from its beginning to its end. Nothing outside the folder or archive is ever read.

    Parameters
    ----------
    wanted
        Tells by the path whether a file is read; the others are passed over unread.
    repairs
        Takes what was left out, and why. A file that may not be read is yielded empty.

    Raises
    ------
    ParseError
        If the archive is damaged, truncated or encrypted.
    """
    if source.is_dir():
        yield from _read_folder(source, wanted, repairs)
        return
    try:
        yield from _read_archive(source, wanted, repairs)
    except DAMAGE as error:
        raise ParseError(
            f"{source}: found an archive that cannot be read to its end ({error or type(error).__name__}), expected a "
            "whole .tar, .tar.gz, .tar.xz, .tar.bz2 or .zip; nothing of it was imported, copy or download it again"
        ) from error


def _read_archive(source: Path, wanted: Wanted, repairs: list[Repair]) -> Files:
    with source.open("rb") as stream:
        head = stream.read(6)
    if head.startswith(ZIP_STARTS):
        yield from _read_zip(source, wanted, repairs)
        return
    opener = next((function for start, function in COMPRESSIONS.items() if head.startswith(start)), None)
    with opener(source) if opener else source.open("rb") as stream:
        yield from _read_tar(stream, wanted, repairs)
        while stream.read(1 << 20):  # to the end, where the compressed stream's sum stands
            pass


class _Member(tarfile.TarInfo):
    """A member whose damaged header is an error: tarfile takes it for the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> "_Member":
        try:
            return super().fromtarfile(tarfile)
        except _END:
            raise
        except _DAMAGED_HEADERS as error:
            raise _damaged(error) from error


# typeshed does not list them; they are documented by tarfile's source alone
_END = getattr(tarfile, "EOFHeaderError")  # noqa: B009
_DAMAGED_HEADERS = getattr(tarfile, "HeaderError")  # noqa: B009


def _damaged(error: Exception) -> tarfile.ReadError:
    return tarfile.ReadError(f"damaged or cut off at a member's head: {error}")


def _read_tar(stream: Stream, wanted: Wanted, repairs: list[Repair]) -> Files:
    with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 18, tarinfo=_Member) as archive:
        for member in archive:
            path = _safe_path(member.name, wanted, repairs)
            if path is None or not wanted(path):
                continue
            if member.issym() or member.islnk():
                repairs.append(_left_out(path, "link", f"a link to {member.linkname}"))
            elif not member.isfile():
                repairs.append(_left_out(path, "no_file", "a folder or device"))
            elif member.size > LARGEST_FILE_BYTES:
                repairs.append(_too_large(path, member.size))
            elif content := archive.extractfile(member):
                yield path, content.read()


def _read_zip(source: Path, wanted: Wanted, repairs: list[Repair]) -> Files:
    with zipfile.ZipFile(source) as archive:
        for member in sorted(archive.infolist(), key=lambda info: info.header_offset):
            path = _safe_path(member.filename, wanted, repairs)
            if path is None or not wanted(path):
                continue
            if stat.S_ISLNK(member.external_attr >> 16):
                repairs.append(_left_out(path, "link", "a link"))
            elif member.is_dir():
                repairs.append(_left_out(path, "no_file", "a folder"))
            elif member.file_size > LARGEST_FILE_BYTES:
                repairs.append(_too_large(path, member.file_size))
            else:
                yield path, archive.read(member)


def _read_folder(root: Path, wanted: Wanted, repairs: list[Repair]) -> Files:
    inside = root.resolve()

    def note(error: OSError) -> None:
        path = os.path.relpath(error.filename, root)
        repairs.append(Repair(path, "folder", "unreadable_folder", str(error.strerror), "left out with all in it"))

    for folder, folders, files in os.walk(root, onerror=note):
        relative = Path(folder).relative_to(root)
        below = [(relative / name).as_posix() for name in sorted(folders)]
        repairs += [_left_out(path, "no_file", "a folder") for path in below if wanted(path)]
        folders[:] = sorted(name for name in folders if not is_junk(name))
        for name in sorted(files):
            path = (relative / name).as_posix()
            if wanted(path):
                yield from _read_one(Path(folder, name), path, inside, repairs)


def _read_one(file: Path, path: str, inside: Path, repairs: list[Repair]) -> Files:
    target = file.resolve()
    if not target.is_relative_to(inside):
        repairs.append(_left_out(path, "link", f"a link out of the folder, to {target}"))
    elif not target.is_file():
        repairs.append(_left_out(path, "link" if file.is_symlink() else "no_file", f"no regular file at {target}"))
    elif target.stat().st_size > LARGEST_FILE_BYTES:
        repairs.append(_too_large(path, target.stat().st_size))
    else:
        try:
            content = file.read_bytes()
        except OSError as error:
            repairs.append(Repair(path, "file", "unreadable_file", str(error.strerror), "taken as an empty file"))
            content = b""
        yield path, content


def is_junk(folder: str) -> bool:
    """Tell folders that hold no results: code, hidden ones and what macOS leaves in archives."""
    return folder in ("benchmarks", "__MACOSX") or (folder.startswith(".") and folder not in (".", ".."))


def _safe_path(name: str, wanted: Wanted, repairs: list[Repair]) -> str | None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts:
        if wanted(path.as_posix()):
            repairs.append(_left_out(name, "unsafe_path", "a path that leaves the archive"))
        return None
    return None if any(is_junk(part) for part in path.parts[:-1]) else path.as_posix()


def _left_out(path: str, kind: str, found: str) -> Repair:
    return Repair(path, "file", kind, found, "left out, not read")


def _too_large(path: str, size_bytes: int) -> Repair:
    return _left_out(path, "too_large", f"{size_bytes} bytes, more than {LARGEST_FILE_BYTES}")
