"""Atomic creation of folders, and the manifest of their files."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hpcai.records.run import file_sha256

MANIFEST = "MANIFEST.sha256"


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
