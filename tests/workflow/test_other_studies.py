"""Scores are made again when what they read of other studies and of HPL changes, which are no inputs of their rule."""

import re
import shutil

import pytest
from workflow_project import ROOT, Project

STUB = """\
from pathlib import Path
for file in map(Path, snakemake.output):
    file.touch()
"""
ASKED = ("results/scoring.json", "--allowed-rules", "score_study")


@pytest.fixture
def scored(tmp_path):
    """A project whose scores are there, made by a script that takes no time; and the settings of its study."""
    root = tmp_path / "root"
    root.mkdir()
    for name in ("Snakefile", "src", "reports", "profiles", "envs"):
        (root / name).symlink_to(ROOT / name)
    for name in ("workflow", "config"):
        shutil.copytree(ROOT / name, root / name)
    (root / "workflow/scripts/score_study.py").write_text(STUB)
    shutil.copytree(ROOT / "tests/config", tmp_path / "config")
    with (tmp_path / "config/machines/box.yaml").open("a") as machine:
        machine.write(f"\nhpl: {{outputs: [{tmp_path}/hpl.out]}}\n")
    for name in ("earlier", "ranked"):
        (tmp_path / name / "tables").mkdir(parents=True)
        for table in ("runs", "scores"):
            (tmp_path / name / f"tables/{table}.parquet").touch()
    project = Project(tmp_path / "project", root=root, study=tmp_path / "config/tiny.yaml")
    settings = [f"compare_with=['{tmp_path}/earlier']", f"rank_with=['{tmp_path}/ranked']"]
    planned = project.snakemake("--dry-run", "results/scoring.json", config=settings).stdout
    inputs = re.search(r"^rule score_study:\n(?:    .+\n)*?    input: (.+)$", planned, re.MULTILINE)[1].split(", ")
    for name in inputs:
        file = project.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    assert project.snakemake(*ASKED, config=settings).returncode == 0
    return project, settings


CHANGED = [
    "earlier/tables/run_scores.parquet",
    "earlier/tables/scales.parquet",
    "earlier/study.json",
    "earlier/runs/cosmoflow_mini/fp32/n1x1/r1/record.json",
    "ranked/tables/mlperf_systems.parquet",
    "hpl.out",
]


def test_scores_are_made_again_after_a_change_elsewhere_and_only_then(scored):
    project, settings = scored
    assert project.dry_run(*ASKED, config=settings) == {}
    again = []
    for name in CHANGED:
        file = project.directory.parent / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        again += [name] * project.dry_run(*ASKED, config=settings).get("score_study", 0)
        file.unlink()
    assert again == CHANGED
