"""Remove from a site what earlier builds wrote: withdrawn and embargoed results leave no file behind."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def remove_others(site: Path, folders: Iterable[str], kept: Iterable[str]) -> None:
    """Remove the files directly in some folders of a site, except those to keep.

    Parameters
    ----------
    site, folders
        The site, and paths of folders in it that hold only what a build wrote; one may be missing.
    kept
        Paths of files in the site; those in other folders do not matter.
    """
    names: dict[str, set[str]] = {folder: set() for folder in folders}
    for path in kept:
        folder, _, name = path.rpartition("/")
        if folder in names:
            names[folder].add(name)
    for folder, known in names.items():
        with suppress(FileNotFoundError), os.scandir(site / folder) as entries:
            gone = [entry.path for entry in entries if entry.name not in known and not entry.is_dir()]
            for path in gone:
                Path(path).unlink()
