"""A copy of the library with one more part: a single file, and nothing else that is changed."""

import shutil
from pathlib import Path

from library_copy import copy_library

TESTS = Path(__file__).parents[1]
PARTS = TESTS / "data/toy_parts"


def library_with(folder: Path, toy: str, place: str) -> Path:
    """Return the folder to put on PYTHONPATH.

    Parameters
    ----------
    folder
        An empty folder.
    toy
        Name of a file of ``tests/data/toy_parts``.
    place
        Where it belongs, below the package.
    """
    library = copy_library(folder / "src")
    shutil.copy(PARTS / toy, library / "hpcai" / place)
    return library


def project_with(folder: Path, toy: str, place: str) -> Path:
    """Return a copy of the checkout with this library."""
    library_with(folder, toy, place)
    shutil.copy(TESTS.parent / "Snakefile", folder)
    for name in ("config", "envs", "profiles", "reports", "workflow"):
        shutil.copytree(TESTS.parent / name, folder / name)
    return folder
