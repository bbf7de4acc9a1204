"""Atomic creation of folders, and the manifest of their files."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcai.core.errors import ConfigError, RecordError
from hpcai.core.files import file_sha256, read_regular
from hpcai.core.messages import Message, at

MANIFEST = "MANIFEST.sha256"
NO_MANIFEST = Message("folders.no_manifest", "cannot be read ({reason}); expected the list of all files with SHA-256")
NOT_LISTED = Message("folders.not_listed", "not in the manifest; add nothing to a finished folder")
NOT_THERE = Message("folders.not_there", "in the manifest, but not in the folder; restore it")
NO_FOLDER = Message("folders.no_folder", "found {found}, expected a folder to write; name another one")
NOT_EARLIER = Message(
    "folders.not_earlier",
    "found a folder with other files (no {marker} with {manifest}), expected an empty one, none, or one that this "
    "command wrote; nothing was changed, name another one",
)
CHANGED = Message("folders.changed", "found SHA-256 {found}, expected {expected} as in the manifest; restore the file")


def require_replaceable(output: Path, marker: str | None) -> None:
    """Refuse to replace what no earlier call has written; call it before long work.

    Parameters
    ----------
    output
        Folder to write.
    marker
        File beside the manifest by which an earlier output is known; None if the folder is the caller's own,
        whatever it holds.

    Raises
    ------
    ConfigError
        If there is a file or link, or a folder that holds anything else.
    """
    if output.is_symlink() or (output.exists() and not output.is_dir()):
        raise ConfigError(at(str(output), NO_FOLDER(found="a link" if output.is_symlink() else "a file")))
    if marker is None or not output.exists() or not any(output.iterdir()):
        return
    if not all((output / name).is_file() for name in (marker, MANIFEST)):
        raise ConfigError(at(str(output), NOT_EARLIER(marker=marker, manifest=MANIFEST)))


@contextmanager
def written_whole(output: Path, *, marker: str | None) -> Iterator[Path]:
    """Provide a temporary folder and move it to its place on success, replacing an earlier one as a whole.

    Parameters
    ----------
    output, marker
        Folder to write, and what an earlier one is known by (:func:`require_replaceable`).

    Raises
    ------
    ConfigError
        If something else is there.
    """
    require_replaceable(output, marker)
    output.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        building.chmod(0o755)
        yield building
        require_replaceable(output, marker)  # it may have been written meanwhile
        _replace(building, output)
    finally:
        shutil.rmtree(building, ignore_errors=True)


def write_manifest(folder: Path) -> None:
    """List every file of a folder with its SHA-256 in ``MANIFEST.sha256``, in the format of sha256sum."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    lines = [f"{file_sha256(folder / name)}  {name}\n" for name in files]
    (folder / MANIFEST).write_text("".join(lines), encoding="utf-8")


def _replace(building: Path, output: Path) -> None:
    """Put the finished folder in place; the old one is removed afterwards."""
    if not output.exists():
        os.rename(building, output)
        return
    # A name of its own: one that follows from the output's could be somebody's folder.
    old = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    os.rename(output, old)
    try:
        os.rename(building, output)
    except OSError:
        os.rename(old, output)
        raise
    shutil.rmtree(old, ignore_errors=True)


def check_manifest(folder: Path) -> None:
    """Check that a folder has exactly the files of its ``MANIFEST.sha256``, unchanged.

    Raises
    ------
    RecordError
        If the manifest is missing or malformed, or a file is missing, changed or not listed.
    """
    try:
        lines = read_regular(folder / MANIFEST).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(at(str(folder / MANIFEST), NO_MANIFEST(reason=error))) from error
    pairs = (line.partition("  ") for line in lines)
    listed = {name: digest for digest, _, name in pairs}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file() or path.is_symlink()}
    apart = sorted((there - {MANIFEST}) ^ set(listed))
    if apart:
        words = NOT_LISTED() if apart[0] in there else NOT_THERE()
        raise RecordError(at(str(folder / apart[0]), words))
    for name, digest in listed.items():
        found = "a link" if (folder / name).is_symlink() else file_sha256(folder / name)
        if found != digest:
            raise RecordError(at(str(folder / name), CHANGED(found=found[:12], expected=digest[:12])))
