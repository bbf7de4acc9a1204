"""Folders for staging: marked, locked by their processes, removed, and cleaned up once unlocked."""

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
"""File that says that a folder was made for staging, and may be removed with all that is in it.

Who stages holds a shared lock on it. The kernel takes it away with the process, however that ends: a marker that nobody
holds was left behind.
"""
NODE_SIGN = "@"
"""Between the name of an attempt and that of a node, in the names of their staging folders."""
NETWORK = frozenset(
    (
        *("afs", "beegfs", "ceph", "cifs", "dvs", "fuse.ceph", "fuse.dfuse", "fuse.glusterfs", "fuse.sshfs", "gpfs"),
        *("lustre", "nfs", "nfs4", "orangefs", "panfs", "pvfs2", "smb3", "wekafs"),
    )
)
"""File systems on storage that nodes reach by a network, as /proc/mounts names them."""
CLAIM_TRIES = 5
_held: dict[Path, int] = {}
"""Descriptors of the markers that this process holds."""


def own_stage(scratch: Path) -> Path:
    """Return this node's own folder for what an attempt stages; nodes may see the same scratch folder.

    Parameters
    ----------
    scratch
        Folder of the attempt, as all its ranks are told it.
    """
    return _stage_of(scratch, this_node())


def every_stage(scratch: Path) -> Path:
    """Return the pattern of the folders that the nodes of an attempt stage to."""
    return _stage_of(scratch, "*")


def _stage_of(scratch: Path, node: str) -> Path:
    return scratch.with_name(f"{scratch.name}{NODE_SIGN}{node}")


def announce_stage(scratch: Path) -> None:
    """Make this node's own folder for an attempt, so that nodes which share it can see that; who stages makes it anew.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    target = own_stage(scratch)
    target.mkdir(parents=True, exist_ok=True)
    (target / MARKER).touch()


def nodes_here(scratch: Path) -> int:
    """Return how many nodes of an attempt stage to where this one does: above 1 the folder is not local to a node.

    To be asked when all of them have made their folders.
    """
    return sum(1 for _ in scratch.parent.glob(every_stage(scratch).name))


def is_shared(scratch: Path) -> bool:
    """Return whether an attempt stages to shared storage: other nodes use it, too, or it is on a network."""
    return nodes_here(scratch) > 1 or file_system_of(scratch.parent) in NETWORK


def claim_stage(target: Path) -> None:
    """Make a folder for staging, or join the other ranks in it, and hold it until it is cleaned or this process ends.

    Raises
    ------
    StagingError
        If the folder has foreign files.
    OSError
        If it cannot be written.
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
    """Hold the marker; False if a sweep has removed it between its making and the lock."""
    if target in _held:
        return (target / MARKER).exists()
    try:
        descriptor = os.open(target / MARKER, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except FileNotFoundError:
        return False
    # Where the file system knows no locks nothing is swept either.
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
    """Remove a staging folder; it may be incomplete or gone, and others may be removing it at the same time.

    Raises
    ------
    StagingError
        If the folder was not made by staging, or cannot be removed.
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
    # The marker goes last, so that a removal that is interrupted can be repeated.
    for name in sorted(names, key=MARKER.__eq__):
        path = target / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        target.rmdir()


def sweep_stages(parent: Path) -> list[str]:
    """Remove what processes of this user left behind of their staging on this node; return the names of the attempts.

    Folders in ``parent`` that anybody holds, that other nodes made, and that no staging made, are left as they are: who
    holds a file on another node cannot be seen on every shared file system.
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
    """Return the folders with a marker and this end of their names in ``parent`` that belong to this user."""
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
    """Return whether nobody holds a staging folder, and keep it from being held while the block runs."""
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
