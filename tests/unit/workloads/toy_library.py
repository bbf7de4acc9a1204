"""A copy of the library with one more benchmark: a folder of its own, and nothing else that is changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]
TOY = TESTS / "data/toy_benchmark"


def copy_library(folder: Path) -> Path:
    """Return the folder to put on PYTHONPATH."""
    library = folder / "src"
    shutil.copytree(TESTS.parent / "src/hpcai", library / "hpcai", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(TOY, library / "hpcai/workloads/toy", ignore=shutil.ignore_patterns("__pycache__", "*.yaml"))
    return library


def call_python(library: Path, *arguments: str | Path) -> str:
    """Return what Python prints with this library instead of that of the checkout; the tests' helpers are there too."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(library), str(TESTS)])}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
