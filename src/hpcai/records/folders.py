"""Atomic creation of folders, and the manifest of their files."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcai.core.errors import RecordError
from hpcai.core.files import file_sha256, read_regular
from hpcai.core.messages import Message, at

MANIFEST = "MANIFEST.sha256"
NO_MANIFEST = Message("folders.no_manifest", "cannot be read ({reason}); expected the list of all files with SHA-256")
NOT_LISTED = Message("folders.not_listed", "not in the manifest; add nothing to a finished folder")
NOT_THERE = Message("folders.not_there", "in the manifest, but not in the folder; restore it")
CHANGED = Message("folders.changed", "found SHA-256 {found}, expected {expected} as in the manifest; restore the file")


@contextmanager
def written_whole(output: Path) -> Iterator[Path]:
    """Provide a temporary folder and move it to its place on success, replacing an existing one.

    Parameters
    ----------
    output
        Folder to write; an existing one is replaced as a whole.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{output.name}.", dir=output.parent))
    try:
        building.chmod(0o755)
        yield building
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
    old = output.with_name(f".{output.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if output.exists():
        os.rename(output, old)
    try:
        os.rename(building, output)
    except OSError:
        if old.exists():
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
