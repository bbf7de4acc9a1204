"""A benchmark that was added from outside is measured and analysed; only its folder and YAML files are new."""

from pathlib import Path

import pandas as pd
from unit.workloads.toy_library import copy_project
from workflow_project import Project

TABLES = ("results/tables/runs.parquet", "results/characterise/work/toy.json")


def test_a_study_of_it_converges(tmp_path: Path) -> None:
    root = copy_project(tmp_path / "checkout")
    (tmp_path / "working").mkdir()
    project = Project(
        tmp_path / "working", root, root / "study/toy.yaml", {"PYTHONPATH": str(root / "src"), "TMPDIR": str(tmp_path)}
    )
    done = project.snakemake("--cores", "2", *TABLES)
    assert done.returncode == 0, done.stdout
    runs = pd.read_parquet(tmp_path / "working" / TABLES[0])
    assert list(runs["workload"]) == ["toy"] * 3
    assert list(runs["outcome"]) == ["converged"] * 3
    assert (runs["runs_by_rule"] == 3).all()
    assert (tmp_path / "working" / TABLES[1]).is_file()
