"""Atomic file operations: a file appears completely or not at all."""

import errno
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcai.core.errors import ConfigError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""The file system, or the user's quota, is full."""
PROBE_BYTES = 1 << 16
MOST_BYTES = 1 << 30
"""Larger than any of our files that is read whole."""
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)
"""Errors of file systems that cannot sync a folder by itself."""


def read_regular(path: Path | str, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file; a folder, FIFO or device is refused without opening it.

    Opening a FIFO blocks, reading a device may never end, and a sparse file can be larger than memory.

    Raises
    ------
    OSError
        If it is not a regular file, larger than ``most_bytes``, or unreadable; ``strerror`` has the description.
    """
    size_bytes = regular_bytes(path)
    if size_bytes > most_bytes:
        raise OSError(errno.EFBIG, f"found {size_bytes} bytes, expected at most {most_bytes}", str(path))
    # Half the time of path.read_bytes(), which counts where half a million files are read.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = os.read(descriptor, size_bytes + 1)
    finally:
        os.close(descriptor)
    # Another size: it changes meanwhile, or one call does not return as much (Linux: 2 GiB).
    return content if len(content) == size_bytes else Path(path).read_bytes()


def regular_bytes(path: Path | str) -> int:
    """Return the size of a regular file, without opening it.

    Raises
    ------
    OSError
        If it does not exist, or is not a regular file.
    """
    facts = os.stat(path)  # a Path for each of half a million files would take as long as reading them
    if not stat.S_ISREG(facts.st_mode):
        words = "a folder" if stat.S_ISDIR(facts.st_mode) else "no regular file"
        raise OSError(errno.EINVAL, f"found {words}, expected a file", str(path))
    return facts.st_size


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hex digits."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_atomically(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write a file under a temporary name and rename it, so that no partial file is ever visible.

    Parameters
    ----------
    path
        The file; an existing one is replaced.
    data
        Its content.
    durable
        Return only when the file is on storage and survives the loss of the node; costs one fsync per file.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o644)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(descriptor)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file, or a folder's entries, are on storage (fsync(2))."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def real_path(path: Path) -> Path:
    """Return a path without links; a circular link is returned unchanged."""
    return Path(os.path.realpath(path))  # Path.resolve() raises RuntimeError for it


def why_full(folder: Path) -> str:
    """Return why a folder accepts no more data, such as No space left on device; blank if it does."""
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return str(error.strerror) if error.errno in NO_SPACE else ""
    return ""


@contextmanager
def written_where_asked(path: Path) -> Iterator[None]:
    """Turn failures to write a file that the user requested into one clear sentence.

    Raises
    ------
    ConfigError
        If the system refuses the write in the block.
    """
    if not path.parent.is_dir():
        raise ConfigError(
            f"{path}: the folder {path.parent} does not exist; create it, or specify a file in another folder"
        )
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written ({error.strerror}); specify a file in a folder that you can write to"
        ) from error


def write_asked(path: Path, text: str) -> None:
    """Write a file requested by the user atomically.

    Raises
    ------
    ConfigError
        If it cannot be written there.
    """
    with written_where_asked(path):
        write_atomically(path, text.encode())


def write_asked_json(path: Path, values: object) -> None:
    """Write plain values as a JSON file requested by the user.

    Raises
    ------
    ConfigError
        If it cannot be written there.
    """
    write_asked(path, json.dumps(values, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Return the type of a folder's file system; blank if the kernel does not report it."""
    try:
        lines = [line.split() for line in mounts.read_text(errors="replace").splitlines()]
    except OSError:
        return ""
    above = {str(folder.resolve()), *(str(parent) for parent in folder.resolve().parents)}
    # The longest mount point contains the folder; among equal ones, the last is on top.
    found = [(len(line[1]), number, line[2]) for number, line in enumerate(lines) if len(line) > 2 and line[1] in above]
    return max(found)[2] if found else ""
