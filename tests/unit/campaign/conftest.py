"""A working folder whose workflow has ended."""

import pytest
from unit.campaign.result_folders import note_of_dead_controller

from hpcai.campaign import live


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A working folder with data, whose workflow has ended, and a PATH without Slurm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(live, "POLL_S", 0.01)
    (tmp_path / "bin").mkdir()
    results = tmp_path / "results"
    note_of_dead_controller(results)
    packed = tmp_path / "data" / "cosmoflow_mini" / "packed"
    packed.mkdir(parents=True)
    for file in (packed / "packed.json", packed.parent / "manifest.json"):
        file.touch()
    return results
