"""Parts that were added from outside, each a single file, work in a study."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from unit.toy_parts import project_with
from workflow_project import STUB_RANKS, Project

RECORD = "results/runs/cosmoflow_mini/fp32/n1x2/r1/record.json"


def project_of(folder: Path, toy: str, place: str) -> Project:
    root = project_with(folder / "checkout", toy, place)
    (folder / "working").mkdir()
    paths = os.pathsep.join([str(root / "src"), STUB_RANKS["PYTHONPATH"]])
    return Project(folder / "working", root, environment={"PYTHONPATH": paths})


def test_a_launcher_starts_a_run(tmp_path: Path) -> None:
    project = project_of(tmp_path, "toy_launcher.py", "launchers/toy.py")
    done = project.snakemake(RECORD, "--cores", "2", "--default-resources", "launcher=toy")
    assert done.returncode == 0, done.stdout
    record = json.loads((project.directory / RECORD).read_text())
    assert record["outcome"] == "converged"
    assert record["provenance"]["command"][:1] == ["bash"]
    assert "toy-ranks" in record["provenance"]["command"]
    assert [rank["placement"]["local_rank"] for rank in record["ranks"]] == [0, 1]


@pytest.mark.slow
def test_a_profile_is_captured_read_and_collected(tmp_path: Path) -> None:
    project = project_of(tmp_path, "toy_profile.py", "profiles/toy.py")
    files = [f"results/characterise/toy/{table}.parquet" for table in ("captures", "node_time")]
    done = project.snakemake(*files, "--cores", "2")
    assert done.returncode == 0, done.stdout
    captures, times = (pd.read_parquet(project.directory / file) for file in files)
    assert captures[["profile", "tool", "status"]].to_numpy().tolist() == [["toy", "node clock", "measured"]]
    assert (times["user_s"] > 0).all()
    assert list(times["scale"]) == ["n1x2"]
    later = project.snakemake("results/tables/node_time.parquet", "-n")  # by a Snakemake that knows this library
    assert "rule collect_views:" in later.stdout
    assert "rule read_toy:" not in later.stdout
