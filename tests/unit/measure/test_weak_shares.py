"""What each instance is given, and how the launchers are told."""

import subprocess

import pytest
from unit.record_factory import make_machine, make_plan

from hpcai.errors import LaunchError
from hpcai.measure import launcher, weak_shares
from hpcai.measure.launcher import Ranks, launch_command
from hpcai.measure.weak_shares import share_machine

GPUS = {"device": {"kind": "gpu"}, "accelerators_per_node": 4}


def group_plan(nodes=1, ranks_per_node=1, instances=2, **machine):
    return make_plan(
        kind="weak",
        instances=instances,
        nodes=nodes,
        ranks_per_node=ranks_per_node,
        machine=make_machine(nodes=4, ranks_per_node=4, **machine),
    )


@pytest.fixture(autouse=True)
def node(monkeypatch):
    """A node of four cores, called here, with all launchers, and outside any job."""
    for name in ("SLURM_JOB_NODELIST", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3, 6, 7})
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    monkeypatch.setattr(launcher, "_find", lambda name: f"/usr/bin/{name}")


@pytest.fixture
def job(monkeypatch):
    """A job of three nodes."""

    def scontrol(command, **_):
        assert command == ["scontrol", "show", "hostnames"]
        return subprocess.CompletedProcess(command, 0, stdout="here\nthere\nfar\n")

    monkeypatch.setenv("SLURM_JOB_NODELIST", "here,there,far")
    monkeypatch.setattr(weak_shares.subprocess, "run", scontrol)


def test_a_node_is_shared_by_its_usable_cores():
    shares = share_machine(group_plan(ranks_per_node=2), "horovodrun")
    assert [(node.host, node.cores) for share in shares for node in share.nodes] == [("here", (2, 3)), ("here", (6, 7))]
    command = launch_command("horovodrun", Ranks.of(group_plan(ranks_per_node=2), shares[1].nodes), ["train"])
    assert command[-4:] == ["/usr/bin/taskset", "--cpu-list", "6,7", "train"]


def test_a_run_that_is_no_instance_is_launched_as_before():
    ranks = Ranks.of(make_plan(ranks_per_node=2))
    for name in ("horovodrun", "mpirun", "srun"):
        command = launch_command(name, ranks, ["train", "--fast"])
        assert command[-2:] == ["train", "--fast"]
        assert not {"/usr/bin/taskset", "--host", "--exact", "env"} & set(command)


def test_accelerators_are_shared_as_cores_are(monkeypatch):
    plan = group_plan(ranks_per_node=2, **GPUS)
    shares = share_machine(plan, "horovodrun")
    assert [share.nodes[0].accelerators for share in shares] == [("0", "1"), ("2", "3")]
    command = launch_command("horovodrun", Ranks.of(plan, shares[1].nodes), ["train"])
    assert command[-7:-4] == ["--gloo", "env", "CUDA_VISIBLE_DEVICES=2,3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    with pytest.raises(LaunchError, match="found the accelerators 5, 7 on this node, expected 4"):
        share_machine(plan, "horovodrun")


@pytest.mark.usefixtures("job")
def test_nodes_of_a_job_are_filled_one_after_the_other():
    plan = group_plan(ranks_per_node=2, instances=3)
    shares = share_machine(plan, "mpirun")
    assert [(share.nodes[0].host, share.nodes[0].cores) for share in shares] == [
        ("here", (2, 3)),
        ("here", (6, 7)),
        ("there", (2, 3)),
    ]
    commands = [launch_command("mpirun", Ranks.of(plan, share.nodes), ["train"]) for share in shares]
    assert "--host" not in commands[0]
    assert commands[2][commands[2].index("--host") + 1] == "there:2"


@pytest.mark.usefixtures("job")
def test_slurm_chooses_the_cores_of_its_steps():
    plan = group_plan(nodes=1, ranks_per_node=3, instances=3)
    shares = share_machine(plan, "srun")
    assert [share.nodes[0].host for share in shares] == ["here", "there", "far"]
    assert {share.nodes[0].cores for share in shares} == {()}
    command = launch_command("srun", Ranks.of(plan, shares[1].nodes), ["train"])
    assert command[-3:] == ["--exact", "--nodelist=there", "train"]


@pytest.mark.usefixtures("job")
def test_too_few_nodes():
    with pytest.raises(LaunchError, match="found 3 nodes in the job, expected 4"):
        share_machine(group_plan(nodes=2, ranks_per_node=3, instances=2), "srun")


@pytest.mark.parametrize(("name", "message"), [("horovodrun", "on one node here"), ("mpirun", "inside a job of Slurm")])
def test_several_nodes_need_a_job_and_a_launcher_that_reaches_them(name, message):
    with pytest.raises(LaunchError, match=message):
        share_machine(group_plan(nodes=2, instances=1), name)
