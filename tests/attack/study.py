"""A small finished study to attack: most of its runs by ranks that only obey their plan, one of each kind for real."""

import os
import shutil
import sys
from pathlib import Path

from workflow_project import ROOT, STUB_RANKS, Project, edit_yaml

HEADER = "benchmark\tvariant\tnodes\tranks_per_node\t{}\tprecision\tcompression\tglobal_batch"
RUNS = ("cosmoflow_mini w 1 1 2", "cosmoflow_mini real 1 2 1", "resnet50_mini real 1 2 1")
WEAK = ("cosmoflow_mini w 1 1 2",)
MEASURED = (
    "measure",
    "results/weak/cosmoflow_mini/w/n1x1/group.json",
    "results/profiles/timeline/cosmoflow_mini/real/n1x2/r1/capture.json",
    "results/characterise/gemm.json",
    "results/characterise/allreduce_n1x2.json",
    "results/characterise/work/cosmoflow_mini.json",
    "results/characterise/work/resnet50_mini.json",
)


def write_config(folder: Path) -> Path:
    """Write a study with its files into a folder; return the study file."""
    shutil.copytree(ROOT / "tests/config", folder)
    edit_yaml(
        folder / "tiny.yaml",
        name="attacked",
        benchmarks=["cosmoflow_mini", "resnet50_mini"],
        runs="attacked",
        weak_runs="attacked_weak",
        profile_variants=["real"],
    )
    for name, count, rows in (("attacked", "repeats", RUNS), ("attacked_weak", "instances", WEAK)):
        lines = ["\t".join([*row.split(), "fp32", "none", ""]) for row in rows]
        (folder / f"runs/{name}.tsv").write_text("\n".join([HEADER.format(count), *lines]) + "\n")
    return folder / "tiny.yaml"


def write_stub_config(folder: Path) -> Path:
    """Write the study without the runs that are trained for real, nor profiles of them; return the study file."""
    study = write_config(folder)
    table = folder / "runs/attacked.tsv"
    table.write_text("".join(line for line in table.read_text().splitlines(True) if "\treal\t" not in line))
    edit_yaml(study, profile_variants=[])
    return study


def make_study(folder: Path) -> Path:
    """Measure a small study and make its report; return its working folder. A finished one is only looked at."""
    study = folder / "config/tiny.yaml"
    if not study.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_config(folder / "config")
    project = Project(folder, study=study, environment=STUB_RANKS)
    for targets, settings in ((MEASURED, ()), (("report",), ("measure=false",))):
        done = project.snakemake(*targets, config=settings)
        if done.returncode:
            sys.exit(f"the study to be attacked could not be made:\n{done.stdout}")
    return folder


def copy_study(source: Path, target: Path) -> Path:
    """Copy results and data of a finished study; return the copy, in which files may be changed."""
    for name in ("results", "data", "config"):
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, symlinks=True)
    for folder, _, files in os.walk(target):
        for file in (Path(folder, name) for name in files):
            if not file.is_symlink():
                file.chmod(0o644)
    return target
