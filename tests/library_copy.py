"""A copy of the library that a test may change."""

import shutil
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src/hpcai"


def copy_library(folder: Path) -> Path:
    """Copy the package into a folder, which is to be put on PYTHONPATH; return that folder.

    Its bytecode comes along: where Python may write none, each program would compile the package again.
    """
    # Bytecode that another process writes meanwhile has a number behind its name until it is whole.
    shutil.copytree(PACKAGE, folder / "hpcai", ignore=shutil.ignore_patterns("*.pyc.*"))
    return folder
