"""Parts that were added from outside, each a single file, work in a study."""

import json
import os
from pathlib import Path

from unit.toy_parts import project_with
from workflow_project import STUB_RANKS, Project

RECORD = "results/runs/cosmoflow_mini/fp32/n1x2/r1/record.json"


def test_a_launcher_starts_a_run(tmp_path: Path) -> None:
    root = project_with(tmp_path / "checkout", "toy_launcher.py", "launchers/toy.py")
    (tmp_path / "working").mkdir()
    paths = os.pathsep.join([str(root / "src"), STUB_RANKS["PYTHONPATH"]])
    project = Project(tmp_path / "working", root, environment={"PYTHONPATH": paths})
    done = project.snakemake(RECORD, "--cores", "2", "--default-resources", "launcher=toy")
    assert done.returncode == 0, done.stdout
    record = json.loads((project.directory / RECORD).read_text())
    assert record["outcome"] == "converged"
    assert record["provenance"]["command"][:1] == ["bash"]
    assert "toy-ranks" in record["provenance"]["command"]
    assert [rank["placement"]["local_rank"] for rank in record["ranks"]] == [0, 1]
