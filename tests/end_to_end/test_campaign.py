"""A campaign of stub ranks survives the death of its Snakemake, twice, with every run there once."""

import subprocess
import sys

import pytest
from workflow_project import ROOT


@pytest.mark.slow
def test_sixty_runs_and_two_kills(tmp_path):
    command = [sys.executable, ROOT / "bench/bench_campaign.py", "--runs", "60", "--kills", "2", "--folder", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("results/runs/*/*/*/r*/record.json"))) == 60
    assert (tmp_path / "results/report.html").is_file()
