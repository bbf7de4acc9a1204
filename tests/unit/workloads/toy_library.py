"""A copy of the library with one more benchmark, added as a folder without other changes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import library_copy
import yaml

TESTS = Path(__file__).parents[2]
TOY = TESTS / "data/toy_benchmark"


def copy_library(folder: Path) -> Path:
    """Return the folder to put on PYTHONPATH; the rules table of its suite contains the toy."""
    library = library_copy.copy_library(folder / "src")
    shutil.copytree(TOY, library / "hpcai/workloads/toy", ignore=shutil.ignore_patterns("__pycache__", "*.yaml"))
    rules = library / "hpcai/rules/mlperf_hpc.yaml"
    rules.write_text(rules.read_text().replace("  runs: {", "  runs: {toy: 3, "))
    return library


def copy_project(folder: Path) -> Path:
    """Return a copy of the checkout with the toy in its library, and in ``study/toy.yaml`` a study of it."""
    copy_library(folder)
    shutil.copy(TESTS.parent / "Snakefile", folder)
    for name in ("config", "envs", "profiles", "reports", "workflow"):
        shutil.copytree(TESTS.parent / name, folder / name)
    write_study(folder / "study")
    return folder


def write_study(config: Path) -> None:
    """Write the configuration of a study of the toy with one run at each of two scales."""
    shutil.copytree(TESTS / "config", config)
    shutil.copy(TOY / "toy.yaml", config / "benchmarks")
    table = (config / "runs/tiny.tsv").read_text()
    (config / "runs/toy.tsv").write_text(table.replace("cosmoflow_mini", "toy").replace("\t1\t2\t2\t", "\t1\t2\t1\t"))
    study = yaml.safe_load((config / "tiny.yaml").read_text()) | {"name": "toy", "benchmarks": ["toy"], "runs": "toy"}
    (config / "toy.yaml").write_text(yaml.safe_dump(study))


def call_python(library: Path, *arguments: str | Path) -> str:
    """Return what Python prints with this library in place of the checkout's; test helpers are importable."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(library), str(TESTS)])}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
