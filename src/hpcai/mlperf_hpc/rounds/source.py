"""Read the files of a result repository, from a folder or straight from an archive."""

import os
from pathlib import Path

from hpcai.core.errors import ParseError
from hpcai.core.files import real_path
from hpcai.mlperf_hpc.rounds import limits
from hpcai.mlperf_hpc.rounds.archives import read_archive
from hpcai.mlperf_hpc.rounds.limits import Budget
from hpcai.mlperf_hpc.rounds.model import Repair
from hpcai.mlperf_hpc.rounds.selection import (
    NO_TEXT,
    Entry,
    Files,
    Wanted,
    admit,
    fits,
    is_chosen,
    is_junk,
    left_out,
)
from hpcai.mlperf_hpc.rounds.texts import is_text, printable


def read_files(
    source: Path,
    wanted: Wanted,
    repairs: list[Repair],
    budget: Budget | None = None,
    entries: list[Entry] | None = None,
) -> Files:
    """Yield the wanted files of a folder or an archive, each as its path (with ``/``) below the source and its content.

    An archive is read once, from its beginning to its end. Nothing outside the folder or archive is ever read.

    Parameters
    ----------
    wanted
        Decides by path whether a file is read; others are skipped unread.
    repairs
        Collects skipped files with the reason. A file without read permission is yielded empty.
    budget
        What was read before, if several folders form one source; an archive is always a source of its own.
    entries
        Collects all files and folders of a folder, including those without results; None to skip these.

    Raises
    ------
    ParseError
        If the archive is damaged, truncated or encrypted, or the source exceeds
        :mod:`hpcai.mlperf_hpc.rounds.limits`.
    """
    if source.is_dir():
        yield from _read_folder(source, wanted, repairs, budget or Budget(source), entries)
    else:
        yield from read_archive(source, wanted, repairs)


def require_text(source: Path) -> None:
    """Refuse a source or a name that tables and figures cannot hold.

    Raises
    ------
    ParseError
        If a folder on the path has a name that is not UTF-8 or has control characters.
    """
    if not is_text(str(real_path(source))):
        raise ParseError(
            f"{printable(str(source))}: found {NO_TEXT} in the path, expected one that tables and figures can hold; "
            "rename the folder or archive"
        )


def _read_folder(
    root: Path, wanted: Wanted, repairs: list[Repair], budget: Budget, entries: list[Entry] | None
) -> Files:
    inside = real_path(root)

    def note(error: OSError) -> None:
        path = os.path.relpath(error.filename, root)
        if not _is_closed(Path(path)):
            words = str(error.strerror)
            repairs.append(Repair(printable(path), "folder", "unreadable_folder", words, "left out with all in it"))

    for folder, folders, files in os.walk(root, onerror=note):
        relative = Path(folder).relative_to(root)
        is_closed = _is_closed(relative)
        below = {name: (relative / name).as_posix() for name in sorted(folders)}
        for name, path in () if is_closed else below.items():
            if not is_text(name):
                repairs.append(left_out(path, "name_no_text", f"{NO_TEXT}, of a folder"))
            elif wanted(path):
                repairs.append(left_out(path, "no_file", "a folder"))
        if entries is None:
            folders[:] = [name for name in below if not _is_closed(Path(name))]
        else:
            folders[:] = [name for name in below if name != ".git"]
            entries += [_look_at(Path(folder, name), relative / name) for name in (*folders, *sorted(files))]
        for name in () if is_closed else sorted(files):
            path = (relative / name).as_posix()
            if is_chosen(path, wanted, repairs):
                yield from _read_one(Path(folder, name), path, inside, repairs, budget)


def _is_closed(folder: Path) -> bool:
    """Return whether to skip a folder: it or a parent holds no results, or has a name that is not valid text."""
    return any(is_junk(part) or not is_text(part) for part in folder.parts)


def _look_at(file: Path, path: Path) -> Entry:
    leads_to, size_bytes = "", 0
    if file.is_symlink() and not file.exists():
        leads_to = str(file.readlink())
    elif file.is_file():
        size_bytes = file.stat().st_size
    return Entry(path.as_posix(), leads_to, size_bytes)


def _read_one(file: Path, path: str, inside: Path, repairs: list[Repair], budget: Budget) -> Files:
    target = real_path(file)
    if not target.is_relative_to(inside):
        repairs.append(left_out(path, "link", f"a link out of the folder, to {target}"))
    elif not target.is_file():
        repairs.append(left_out(path, "link" if file.is_symlink() else "no_file", f"no regular file at {target}"))
    else:
        try:
            content = read_start(file)
        except OSError as error:
            repairs.append(Repair(path, "file", "unreadable_file", str(error.strerror), "taken as an empty file"))
            content = b""
        if fits(path, max(len(content), target.stat().st_size), repairs):
            yield from admit(path, content, budget, repairs)


def read_start(file: Path) -> bytes:
    """Return a file's content; of a file larger than any log, only the limit plus one byte."""
    with file.open("rb") as stream:
        return stream.read(limits.FILE_BYTES + 1)
