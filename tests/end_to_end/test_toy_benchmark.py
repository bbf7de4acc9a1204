"""A benchmark that was added from outside is measured, analysed and shown; only its folder and YAML files are new."""

from pathlib import Path

import pandas as pd
import pytest
from unit.workloads.toy_library import copy_project
from workflow_project import Project

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("toy")
    root = copy_project(folder / "checkout")
    (folder / "working").mkdir()
    environment = {"PYTHONPATH": str(root / "src"), "TMPDIR": str(folder)}
    return Project(folder / "working", root, root / "study/toy.yaml", environment)


def make(project: Project, *files: str) -> list[Path]:
    done = project.snakemake("--cores", "2", *files)
    assert done.returncode == 0, done.stdout
    return [project.directory / file for file in files]


def test_a_study_of_it_converges(project: Project) -> None:
    table, work = make(project, "results/tables/runs.parquet", "results/characterise/work/toy.json")
    runs = pd.read_parquet(table)
    assert list(runs["workload"]) == ["toy"] * 2
    assert list(runs["outcome"]) == ["converged"] * 2
    assert (runs["runs_by_rule"] == 3).all()
    assert work.is_file()


def test_its_report_shows_it(project: Project) -> None:
    """No list names it, yet all is there: profiles, scores, predictions and the page."""
    report, scores, steps = make(
        project, "results/report.html", "results/tables/scores.parquet", "results/tables/run_scores.parquet"
    )
    assert "toy/fp32" in report.read_text()
    assert set(pd.read_parquet(scores)["benchmark"]) == {"toy"}
    assert set(pd.read_parquet(steps)["benchmark"]) == {"toy"}
