"""Staging folders: mark them, lock them by process, remove them, and clean up unlocked ones."""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hpcai.config.benchmark import SPLITS
from hpcai.config.machine import this_node
from hpcai.core.errors import StagingError
from hpcai.core.files import file_system_of
from hpcai.core.messages import Message, at

FOREIGN_FILES = Message(
    "stage_folder.foreign_files",
    "found files that were not staged, expected an empty folder; choose another one",
)
REMOVED_MEANWHILE = Message(
    "stage_folder.removed_meanwhile",
    "another process removes this folder, but it must persist while it is in use; choose another storage.node_local",
)
CANNOT_READ = Message("stage_folder.cannot_read", "cannot be read ({reason}), expected a staging folder")
FOREIGN_FOLDER = Message(
    "stage_folder.foreign_folder", "found no {marker} in it, so it was not created by staging; it is left unchanged"
)
A_LINK_OR_FILE = Message(
    "stage_folder.a_link_or_file", "found a link or a file, expected a staging folder; it is left unchanged"
)

MARKER = ".hpcai-stage"
"""Marker file: the folder was created for staging and may be removed with all its content.

Staging processes hold a shared lock on it. The kernel releases the lock when the process ends, however it ends, so an
unlocked marker is a leftover.
"""
NODE_SIGN = "@"
"""Separates attempt and node in the names of staging folders."""
NETWORK = frozenset(
    (
        *("afs", "beegfs", "ceph", "cifs", "dvs", "fuse.ceph", "fuse.dfuse", "fuse.glusterfs", "fuse.sshfs", "gpfs"),
        *("lustre", "nfs", "nfs4", "orangefs", "panfs", "pvfs2", "smb3", "wekafs"),
    )
)
"""Network file systems, by their type in /proc/mounts."""
CLAIM_TRIES = 5
_held: dict[Path, int] = {}
"""Descriptors of the markers locked by this process."""


def own_stage(scratch: Path) -> Path:
    """Return this node's own staging folder for an attempt; several nodes may see the same scratch folder.

    Parameters
    ----------
    scratch
        Folder of the attempt, as passed to all its ranks.
    """
    return _stage_of(scratch, this_node())


def every_stage(scratch: Path) -> Path:
    """Return the pattern of the staging folders of an attempt's nodes."""
    return _stage_of(scratch, "*")


def _stage_of(scratch: Path, node: str) -> Path:
    return scratch.with_name(f"{scratch.name}{NODE_SIGN}{node}")


def announce_stage(scratch: Path) -> None:
    """Create this node's folder for an attempt, so that nodes sharing the storage see it; staging recreates it.

    Raises
    ------
    OSError
        If the folder cannot be written.
    """
    target = own_stage(scratch)
    target.mkdir(parents=True, exist_ok=True)
    (target / MARKER).touch()


def nodes_here(scratch: Path) -> int:
    """Return how many nodes of an attempt stage to this folder's parent; above 1, the storage is not node-local.

    Call this only after all nodes have created their folders.
    """
    return sum(1 for _ in scratch.parent.glob(every_stage(scratch).name))


def is_shared(scratch: Path) -> bool:
    """Return whether an attempt stages to shared storage: other nodes use it too, or it is on a network."""
    return nodes_here(scratch) > 1 or file_system_of(scratch.parent) in NETWORK


def claim_stage(target: Path) -> None:
    """Create a staging folder, or join the other ranks in it; hold it until it is cleaned or this process ends.

    Raises
    ------
    StagingError
        If the folder contains foreign files.
    OSError
        If the folder cannot be written.
    """
    for _ in range(CLAIM_TRIES):
        target.mkdir(parents=True, exist_ok=True)
        if not (target / MARKER).exists() and any(name != MARKER for name in os.listdir(target)):  # noqa: PTH208
            raise StagingError(at(str(target), FOREIGN_FILES()))
        if _hold(target):
            for split in SPLITS:
                (target / split).mkdir(exist_ok=True)
            return
    raise StagingError(at(str(target), REMOVED_MEANWHILE()))


def _hold(target: Path) -> bool:
    """Lock the marker; False if a sweep removed it before it was locked."""
    if target in _held:
        return (target / MARKER).exists()
    try:
        descriptor = os.open(target / MARKER, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except FileNotFoundError:
        return False
    # A file system without locks is never swept either.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    if _is_file_of(target / MARKER, descriptor):
        _held[target] = descriptor
        return True
    os.close(descriptor)
    return False


def _is_file_of(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _let_go(target: Path) -> None:
    descriptor = _held.pop(target, None)
    if descriptor is not None:
        os.close(descriptor)


def clean_stage(target: Path) -> None:
    """Remove a staging folder; it may be incomplete or gone, and other processes may be removing it too.

    Raises
    ------
    StagingError
        If the folder was not created by staging, or cannot be removed.
    """
    try:
        _remove(target)
    except OSError as error:
        raise StagingError(f"{target}: could not be removed ({error.strerror}); remove it") from error
    finally:
        _let_go(target)


def _remove(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise StagingError(at(str(target), A_LINK_OR_FILE()))
    try:
        names = os.listdir(target)  # noqa: PTH208
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise StagingError(at(str(target), CANNOT_READ(reason=error.strerror))) from error
    if names and MARKER not in names:
        raise StagingError(at(str(target), FOREIGN_FOLDER(marker=MARKER)))
    # Remove the marker last, so that an interrupted removal can be repeated.
    for name in sorted(names, key=MARKER.__eq__):
        path = target / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        target.rmdir()


def sweep_stages(parent: Path) -> list[str]:
    """Remove this user's abandoned staging folders on this node; return the names of the attempts.

    Folders in ``parent`` stay if a process holds them, another node made them, or staging did not make them: not every
    shared file system shows that a process on another node holds a file.
    """
    swept = []
    ending = f"{NODE_SIGN}{this_node()}"
    for folder in _own_stages(parent, ending):
        with _unheld(folder) as is_left_behind:
            if is_left_behind:
                with suppress(StagingError):
                    clean_stage(folder)
                    swept.append(folder.name.removesuffix(ending))
    return swept


def _own_stages(parent: Path, ending: str) -> list[Path]:
    """Return this user's folders in ``parent`` that have a marker and this suffix."""
    found = []
    with suppress(FileNotFoundError, NotADirectoryError, PermissionError), os.scandir(parent) as entries:
        for entry in entries:
            with suppress(OSError):
                is_own = entry.name.endswith(ending) and entry.is_dir(follow_symlinks=False)
                marker = Path(entry.path, MARKER).lstat() if is_own else None
                if marker and stat.S_ISREG(marker.st_mode) and marker.st_uid == os.geteuid():
                    found.append(Path(entry.path))
    return sorted(found)


@contextmanager
def _unheld(folder: Path) -> Iterator[bool]:
    """Return whether nobody holds a staging folder, and keep it unheld during the block."""
    try:
        descriptor = os.open(folder / MARKER, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield _is_file_of(folder / MARKER, descriptor)
    finally:
        os.close(descriptor)
