"""The resources of each instance, and how they are passed to the launchers."""

import subprocess

import pytest
from unit.measure.slurm_jobs import Scontrol, enter_job, outside_of_jobs
from unit.record_factory import make_machine, make_plan
from unit.refusals import refused

from hpcai.core.errors import LaunchError
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import launch_command
from hpcai.measure.weak import NEEDS_A_JOB, NO_CORES, TOO_FEW_ACCELERATORS, TOO_FEW_NODES, share_machine

outside = pytest.fixture(autouse=True)(outside_of_jobs)
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
    """A node of four cores, called here, with all launchers."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {2, 3, 6, 7})
    monkeypatch.setattr("socket.gethostname", lambda: "here")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")


@pytest.fixture
def job(monkeypatch):
    """A job of three nodes."""

    enter_job(monkeypatch, Scontrol("here", "there", "far"))


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
        assert not {"/usr/bin/taskset", "--host", "--nodelist=here", "env"} & set(command)


def test_accelerators_are_shared_as_cores_are(monkeypatch):
    plan = group_plan(ranks_per_node=2, **GPUS)
    shares = share_machine(plan, "horovodrun")
    assert [share.nodes[0].accelerators for share in shares] == [("0", "1"), ("2", "3")]
    command = launch_command("horovodrun", Ranks.of(plan, shares[1].nodes), ["train"])
    assert command[-7:-4] == ["--gloo", "env", "CUDA_VISIBLE_DEVICES=2,3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    with refused(LaunchError, TOO_FEW_ACCELERATORS, found="5, 7", expected=4):
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
    assert "SLURM_NODELIST=here" in commands[0]
    assert "SLURM_NODELIST=there" in commands[2]


@pytest.mark.usefixtures("job")
def test_steps_of_a_job_have_cores_of_their_own():
    plan = group_plan(nodes=1, ranks_per_node=2, instances=3)
    shares = share_machine(plan, "srun")
    assert [share.nodes[0].host for share in shares] == ["here", "here", "there"]
    assert [share.nodes[0].cores for share in shares] == [(2, 3), (6, 7), (2, 3)]
    command = launch_command("srun", Ranks.of(plan, shares[1].nodes), ["train"])
    assert {"--overlap", "--nodelist=here"} <= set(command)
    assert command[-4:] == ["/usr/bin/taskset", "--cpu-list", "6,7", "train"]


def test_slurm_chooses_the_cores_of_jobs_of_their_own():
    assert {share.nodes[0].cores for share in share_machine(group_plan(), "srun")} == {()}


@pytest.mark.usefixtures("job")
def test_too_few_nodes():
    with refused(LaunchError, TOO_FEW_NODES, found=3, expected=4):
        share_machine(group_plan(nodes=2, ranks_per_node=3, instances=2), "srun")


@pytest.mark.parametrize("name", ["horovodrun", "mpirun", "srun"])
def test_several_nodes_need_a_job(name):
    with refused(LaunchError, NEEDS_A_JOB, nodes=2, launcher=name):
        share_machine(group_plan(nodes=2, instances=1), name)


@pytest.mark.parametrize("there", ["0 1 2 3\n", None])
def test_a_shell_outside_of_the_nodes_asks_the_first_for_its_cores(monkeypatch, there):
    scontrol, steps = Scontrol("there", "far"), []

    def run(command, **options):
        if command[0] == "scontrol":
            return scontrol(command, **options)
        steps.append(command)
        return subprocess.CompletedProcess(command, 1 if there is None else 0, stdout=there or "", stderr="down\n")

    enter_job(monkeypatch, run)
    plan = group_plan(ranks_per_node=2, instances=3)
    if there is None:
        with refused(LaunchError, NO_CORES, words="down"):
            share_machine(plan, "srun")
    else:
        assert [share.nodes[0].cores for share in share_machine(plan, "srun")] == [(0, 1), (2, 3), (0, 1)]
    ((program, *words),) = steps
    assert program == "/usr/bin/srun"
    assert "--nodelist=there" in words


@pytest.mark.usefixtures("job")
def test_horovodrun_reaches_the_nodes_of_a_job():
    plan = group_plan(ranks_per_node=2, instances=3)
    commands = [
        launch_command("horovodrun", Ranks.of(plan, share.nodes), ["train"])
        for share in share_machine(plan, "horovodrun")
    ]
    assert ["--hosts" in command for command in commands] == [False, False, True]
    assert "--nodelist=there" in commands[2]
