"""Command lines of the launchers, inside and outside of a job of Slurm."""

import sys

import pytest
from unit.measure.slurm_jobs import Scontrol, enter_job, outside_of_jobs
from unit.refusals import refused

from hpcai.core.errors import LaunchError
from hpcai.launchers.ranks import Ranks, hosts_of
from hpcai.launchers.registry import launch_command
from hpcai.launchers.spawn import ONLY_HERE
from hpcai.records.weak import NodeShare
from hpcai.slurm.step import LAST_RANK_WAIT_S, step_command

RANKS = Ranks("b/v/n2x4/r1", nodes=2, ranks_per_node=4, cores_per_rank=8)
outside = pytest.fixture(autouse=True)(outside_of_jobs)


@pytest.fixture(autouse=True)
def programs(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr("socket.gethostname", lambda: "n1")


@pytest.fixture
def job(monkeypatch):
    enter_job(monkeypatch, Scontrol())


def options(command, first="/usr/bin/srun"):
    """Options of a program within a command line."""
    start = command.index(first) + 1
    return [part for part in command[start:] if part.startswith("--")]


@pytest.mark.usefixtures("job")
def test_srun_leaves_nothing_of_the_layout_to_the_environment():
    command = launch_command("srun", RANKS, ["train"])
    assert command[0] == "/usr/bin/srun"
    assert command[-1] == "train"
    found = set(options(command))
    assert {"--nodes=2", "--ntasks=8", "--ntasks-per-node=4", "--nodelist=n1,n2", "--mpi=pmix"} <= found
    assert {"--kill-on-bad-exit=1", f"--wait={LAST_RANK_WAIT_S}", "--cpu-bind=none"} <= found
    # Steps at the same time neither wait for each other's cores and accelerators nor for their memory.
    assert {"--overlap", "--mem=0"} <= found
    # Slurm 22.05 hides the accelerators from steps that are not to bind them.
    assert not {name for name in found if name.startswith(("--cpus-per-task", "--exact", "--gpu-bind"))}


def test_srun_outside_of_a_job_asks_for_what_it_needs():
    found = set(options(launch_command("srun", RANKS, ["train"])))
    assert {"--nodes=2", "--ntasks=8", "--cpus-per-task=8", "--mpi=pmix", "--kill-on-bad-exit=1"} <= found
    assert not {"--overlap", "--mem=0", "--nodelist=n1,n2"} & found


@pytest.mark.usefixtures("job")
def test_horovodrun_over_nodes_is_one_step_around_which_ranks_meet():
    command = launch_command("horovodrun", RANKS, ["train", "--fast"])
    assert command[:4] == [sys.executable, "-m", "hpcai.training.launch_nodes", "--gloo"]
    assert command[4:9] == ["--hosts", "n1,n2", "--ranks-per-node", "4", "--"]
    assert command[-5:] == [sys.executable, "-m", "hpcai.training.join_step", "train", "--fast"]
    assert {"--ntasks=8", "--mpi=none", "--kill-on-bad-exit=1"} <= set(options(command))


@pytest.mark.usefixtures("job")
def test_spawn_over_nodes_is_the_same_step_under_its_own_name():
    spawned, run = (launch_command(name, RANKS, ["train"]) for name in ("spawn", "horovodrun"))
    assert spawned == [sys.executable, "-m", "hpcai.training.spawn", *run[4:]]
    one = Ranks("r", nodes=1, ranks_per_node=2, cores_per_rank=1)
    assert launch_command("spawn", one, ["train"])[1:] == ["-m", "hpcai.training.spawn", "-np", "2", "train"]


def test_spawn_does_not_reach_other_nodes_by_itself():
    with refused(LaunchError, ONLY_HERE, run=RANKS.name, nodes=2):
        launch_command("spawn", RANKS, ["train"])


@pytest.mark.usefixtures("job")
def test_horovodrun_on_one_node_needs_no_step():
    one = Ranks("r", nodes=1, ranks_per_node=2, cores_per_rank=1)
    assert launch_command("horovodrun", one, ["train"])[1:] == [
        "-m", "hpcai.training.launch", "-np", "2", "--gloo", "train",
    ]  # fmt: skip


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("name", ["horovodrun", "spawn"])
def test_a_run_on_one_node_does_not_stay_on_a_login_node(monkeypatch, name):
    """The shell of salloc may be on a node that is none of the job."""
    one = Ranks("r", nodes=1, ranks_per_node=2, cores_per_rank=1)
    monkeypatch.setattr("socket.gethostname", lambda: "login")
    found = options(launch_command(name, one, ["train"]))
    assert {"--nodes=1", "--ntasks=2", "--nodelist=n1"} <= set(found)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    assert "-np" in launch_command(name, one, ["train"])


def test_horovodrun_does_not_reach_other_nodes_by_itself():
    with pytest.raises(LaunchError, match=r"b/v/n2x4/r1: horovodrun reaches other nodes only inside a Slurm job"):
        launch_command("horovodrun", RANKS, ["train"])


@pytest.mark.usefixtures("job")
def test_mpirun_is_told_the_nodes_that_the_executor_has_hidden():
    command = launch_command("mpirun", RANKS, ["train"])
    variables = dict(part.split("=", 1) for part in command[1 : command.index("/usr/bin/mpirun")])
    assert command[0] == "env"
    assert variables["SLURM_JOBID"] == "7"
    assert variables["SLURM_NODELIST"] == variables["SLURM_JOB_NODELIST"] == "n1,n2"
    assert variables["SLURM_TASKS_PER_NODE"] == "4(x2)"
    assert variables["SLURM_OVERLAP"] == "1"
    assert "ppr:4:node" in command
    assert "-x" not in command  # srun hands the environment on


@pytest.mark.usefixtures("job")
def test_mpirun_starts_on_the_first_of_its_own_nodes():
    shares = tuple(NodeShare(host=host, cores=(0,)) for host in ("n2", "n5"))
    command = launch_command("mpirun", Ranks("r", 2, 1, 1, shares), ["train"])
    assert command[0] == "/usr/bin/srun"
    assert {"--nodes=1", "--ntasks=1", "--nodelist=n2", "--mpi=none"} <= set(options(command))
    assert {"SLURM_NODELIST=n2,n5", "SLURM_TASKS_PER_NODE=1(x2)"} <= set(command)


def test_mpirun_without_slurm_takes_along_what_steers_the_ranks(monkeypatch):
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "1")
    monkeypatch.setenv("HOME", "/home/ada")
    command = launch_command("mpirun", RANKS, ["train"])
    taken = {command[number + 1] for number, part in enumerate(command) if part == "-x"}
    assert {"PATH", "TF_NUM_INTEROP_THREADS"} <= taken
    assert "HOME" not in taken
    one = Ranks("r", nodes=1, ranks_per_node=2, cores_per_rank=1)
    assert "-x" not in launch_command("mpirun", one, ["train"])


@pytest.mark.usefixtures("job")
def test_a_job_that_is_too_small():
    with pytest.raises(LaunchError, match=r"r: found 3 nodes in job 7, expected 4; request more nodes from Slurm"):
        hosts_of(Ranks("r", nodes=4, ranks_per_node=1, cores_per_rank=1))


@pytest.mark.usefixtures("job")
@pytest.mark.parametrize("name", ["srun", "horovodrun"])
def test_an_instance_keeps_to_its_share_on_another_node(name):
    share = NodeShare(host="n5", cores=(2, 3), accelerators=("1",))
    command = launch_command(name, Ranks("r", 1, 1, 2, (share,)), ["train"])
    assert {"--nodes=1", "--ntasks=1", "--nodelist=n5"} <= set(options(command))
    assert command[-6:] == ["env", "CUDA_VISIBLE_DEVICES=1", "/usr/bin/taskset", "--cpu-list", "2,3", "train"]


def test_a_step_with_one_process_on_each_node():
    found = options(step_command(("n1", "n5"), 1))
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--nodelist=n1,n5"} <= set(found)
