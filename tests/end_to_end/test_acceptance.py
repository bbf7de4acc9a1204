"""`snakemake acceptance` on one machine without Slurm: everything is measured, and nothing is compared."""

import csv
import shutil

import pytest
from workflow_project import ROOT, Project, edit_yaml

from hpcai.metrics.acceptance import ALL, NO_FLEET, ONE_NODE
from hpcai.records.acceptance import Accepted
from hpcai.records.files import read_part

SETTINGS = {"measure_s": 3, "window_s": 0.1, "file_bytes": "32 MiB", "training_steps": 40}


@pytest.mark.slow
def test_one_machine_accepts_itself(tmp_path):
    config = tmp_path / "config"
    shutil.copytree(ROOT / "tests/config", config)
    edit_yaml(config / "benchmarks/cosmoflow_mini.yaml", target__value=1e-9, recipe__max_epochs=30)
    edit_yaml(config / "tiny.yaml", acceptance=SETTINGS)
    done = Project(tmp_path, study=config / "tiny.yaml").snakemake("acceptance", "--cores", "2")
    assert done.returncode == 0, done.stdout
    accepted = read_part(Accepted, tmp_path / "results/acceptance/acceptance.json")
    assert accepted.verdict == "healthy"
    assert ONE_NODE.find_in(accepted.reason) is not None
    with (tmp_path / "results/acceptance/acceptance.csv").open() as table:
        rows = {row["measure"]: row for row in csv.DictReader(table)}
    measured = {name for name, row in rows.items() if row["value"]}
    assert all(f"({name})" in accepted.reason for name in rows.keys() - measured - {ALL})  # such as reads from memory
    assert {"gemm fp32", "memory copy", "memory add", "scratch write and fsync", "training"} <= measured
    assert all(rows[name]["reason"] == NO_FLEET() and not rows[name]["fleet_median"] for name in measured)
    assert "training" in (tmp_path / "results/acceptance.html").read_text()
