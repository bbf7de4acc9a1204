"""The launcher spawn over nodes: a step of the job, started by itself, without Horovod and MPI."""

import sys

import pytest
from unit.launchers.test_commands import RANKS, options
from unit.measure.slurm_jobs import Scontrol, enter_job, outside_of_jobs

from hpcai.core.errors import LaunchError
from hpcai.launchers.registry import LAUNCHERS, launch_command
from hpcai.training import spawn
from hpcai.training.launch_nodes import parse_arguments


@pytest.fixture(autouse=True)
def _machine(monkeypatch):
    outside_of_jobs(monkeypatch)
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("socket.gethostname", lambda: "n1")


def test_over_nodes_it_is_a_step_of_the_job(monkeypatch):
    enter_job(monkeypatch, Scontrol())
    command = launch_command("spawn", RANKS, ["train", "--fast"])
    assert command[:8] == [
        sys.executable,
        "-m",
        "hpcai.training.spawn",
        "--hosts",
        "n1,n2",
        "--ranks-per-node",
        "4",
        "--",
    ]
    assert command[-5:] == [sys.executable, "-m", "hpcai.training.join_step", "train", "--fast"]
    assert {"--ntasks=8", "--mpi=none", "--kill-on-bad-exit=1"} <= set(options(command))
    assert LAUNCHERS["spawn"].packages == ()


def test_over_nodes_its_program_meets_at_the_address_between_them(monkeypatch):
    enter_job(monkeypatch, Scontrol())
    asked = []
    monkeypatch.setattr(
        "hpcai.training.launch_nodes.main", lambda: asked.append(parse_arguments().hosts) or sys.exit(0)
    )
    monkeypatch.setattr("sys.argv", launch_command("spawn", RANKS, ["train"])[2:])
    with pytest.raises(SystemExit):
        spawn.main()
    assert asked == ["n1,n2"]


def test_outside_of_a_job_other_nodes_are_out_of_reach():
    with pytest.raises(LaunchError, match="inside a job of Slurm"):
        launch_command("spawn", RANKS, ["train"])
