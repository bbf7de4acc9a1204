"""The cluster of the tests is a real one: separate nodes, limits that kill, nodes that die, nothing left behind."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from slurm.cluster import Cluster, ClusterError, find_missing

TESTS = Path(__file__).parents[1]
# Starts a cluster with a job on it, tells where it is, and does nothing until it is killed.
CALLER = """
import sys, time
from pathlib import Path
from slurm.cluster import Cluster
cluster = Cluster(Path(sys.argv[1]))
cluster.start()
cluster.submit("setsid sleep 600 & sleep 600", "--nodes=2", f"--output={cluster.folder}/job.out")
cluster.wait_for(lambda: "RUNNING" in cluster.jobs().values(), 60, "the job")
print(cluster.link, flush=True)
time.sleep(600)
"""


def test_all_nodes_are_idle(cluster):
    assert cluster.states() == dict.fromkeys(cluster.nodes, "idle")


def test_a_step_runs_on_three_nodes(cluster):
    assert sorted(cluster.run("srun", "--nodes=3", "hostname").stdout.split()) == ["n1", "n2", "n3"]


@pytest.mark.parametrize("place", ["/dev/shm", "/tmp", "$TMPDIR"])
def test_a_node_has_places_of_its_own(cluster, place):
    script = f"touch {place}/of_$(hostname); sleep 1; cd {place}; echo of_*"
    assert sorted(cluster.run("srun", "--nodes=3", "sh", "-c", script).stdout.split()) == ["of_n1", "of_n2", "of_n3"]


def test_scratch_of_a_node_is_seen_from_outside(cluster):
    cluster.run("srun", "--nodes=1", "--nodelist=n2", "sh", "-c", "echo kept > $TMPDIR/file")
    assert (cluster.folder / "nodes/n2/scratch/file").read_text() == "kept\n"
    assert cluster.on("n2", "cat", cluster.scratch / "file").stdout == "kept\n"
    assert cluster.on("n1", "cat", cluster.scratch / "file", check=False).returncode != 0


def test_other_folders_are_shared(cluster, tmp_path):
    cluster.run("srun", "--nodes=3", "sh", "-c", f"touch {tmp_path}/$(hostname)")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n1", "n2", "n3"]


def test_nodes_and_host_know_each_other_by_name(cluster):
    for name in (*cluster.nodes, "head", cluster.run("uname", "-n").stdout.strip()):
        assert cluster.on("n3", "getent", "hosts", name).stdout.startswith("10.213.")


def test_ranks_are_bound_to_cores_of_their_own(cluster):
    if "task/affinity" not in cluster.run("scontrol", "show", "config").stdout:
        pytest.skip("binding needs two cores")
    command = ("srun", "--nodes=1", "--ntasks=2", "--cpu-bind=cores", "grep", "Cpus_allowed_list", "/proc/self/status")
    first, second = cluster.run(*command).stdout.splitlines()
    assert first != second


def test_mpirun_finds_the_nodes_of_its_job(cluster, tmp_path):
    job = cluster.submit("mpirun --map-by node hostname", "--nodes=2", f"--output={tmp_path}/out")
    cluster.wait_for(lambda: cluster.jobs()[job] == "COMPLETED", 90, "mpirun")
    assert sorted((tmp_path / "out").read_text().split()) == ["n1", "n2"]


def test_a_gpu_job_is_told_its_devices(cluster):
    told = cluster.run("srun", "--partition=gpu", "--gres=gpu:2", "sh", "-c", "echo $(hostname) $CUDA_VISIBLE_DEVICES")
    assert told.stdout == "n3 0,1\n"


def test_an_impossible_request_is_refused(cluster):
    with pytest.raises(ClusterError, match="Node count specification invalid"):
        cluster.submit("true", "--nodes=4")


@pytest.fixture(scope="module")
def ended(cluster, tmp_path_factory):
    """Three jobs at once, each with an end of its own: over its time, over its memory, its node dead."""
    folder = tmp_path_factory.mktemp("ended")
    hog = f"{sys.executable} -c 'import time; kept = bytearray(300 << 20); time.sleep(600)'"
    places = {"late": ["--nodelist=n1"], "big": ["--nodelist=n1"], "lost": ["--nodelist=n[2-3]", "--nodes=2"]}
    jobs = {}
    for name, place in places.items():
        options = ["--mem=100", "--no-requeue", f"--output={folder}/{name}", *place]
        jobs[name] = cluster.submit(hog if name == "big" else "sleep 600", *options)
    cluster.wait_for(lambda: "PENDING" not in cluster.jobs().values(), 60, "the jobs")
    cluster.crash("n3")
    # Limits are whole minutes; the end of one job may be any second.
    end = time.strftime("%FT%T", time.localtime(time.time() + 2))
    cluster.run("scontrol", "update", f"JobId={jobs['late']}", f"EndTime={end}")
    cluster.wait_for(lambda: not cluster.run("squeue", "--noheader").stdout, 90, "the ends of the jobs")
    down = cluster.states()["n3"]
    cluster.restart("n3")
    cluster.wait_idle()
    texts = {name: (folder / name).read_text() for name in jobs}
    return SimpleNamespace(shown={name: cluster.show(job) for name, job in jobs.items()}, texts=texts, down=down)


def test_a_job_over_its_time_ends_as_timeout(ended):
    assert ended.shown["late"]["JobState"] == "TIMEOUT"
    assert "DUE TO TIME LIMIT" in ended.texts["late"]


def test_a_job_over_its_memory_is_killed(ended):
    assert (ended.shown["big"]["JobState"], ended.shown["big"]["ExitCode"]) == ("FAILED", "0:9")
    assert "exceeded memory limit" in ended.texts["big"]


def test_a_job_whose_node_died_ends_as_node_fail(ended):
    assert (ended.shown["lost"]["JobState"], ended.shown["lost"]["Reason"]) == ("NODE_FAIL", "NodeDown")
    assert "DUE TO NODE FAILURE" in ended.texts["lost"]


def test_a_dead_node_comes_back(cluster, ended):
    assert ended.down == "down*"
    assert cluster.run("srun", "--nodelist=n3", "hostname").stdout == "n3\n"


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_the_process_that_started_a_cluster(cluster, tmp_path_factory, end):
    """A second cluster beside the first, whose caller is killed in the middle of a job."""
    folder = tmp_path_factory.getbasetemp() / f"second{end.value}"
    command = [sys.executable, "-c", CALLER, folder]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True, env=cluster.environment) as caller:
        link = caller.stdout.readline().strip()
        assert link != cluster.link
        number = socket.if_nametoindex(link)  # another cluster may take the name afterwards, never the number
        inside = psutil.Process(caller.pid).children(recursive=True)
        assert len(inside) > 10, "daemons and the job"
        caller.send_signal(end)
    cluster.wait_for(lambda: all(_has_ended(process) for process in inside), 60, "the end of all processes")
    cluster.wait_for(lambda: number not in dict(socket.if_nameindex()), 60, "the end of the link")
    assert str(folder) not in Path("/proc/self/mountinfo").read_text()
    assert cluster.states()["n1"] == "idle", "the first cluster is unharmed"


def test_stop_leaves_nothing(tmp_path_factory):
    if missing := find_missing():
        pytest.skip(missing)
    with Cluster(tmp_path_factory.getbasetemp() / "third") as third:
        third.submit("sleep 600", f"--output={third.folder}/job.out")
        third.wait_for(lambda: "RUNNING" in third.jobs().values(), 60, "the job")
        inside, number = third.processes(), socket.if_nametoindex(third.link)
        assert len(inside) > 10
    third.wait_for(lambda: all(_has_ended(process) for process in inside), 60, "the end of all processes")
    assert number not in dict(socket.if_nameindex())


def test_a_folder_too_long_for_sockets_is_refused(tmp_path):
    with pytest.raises(ClusterError, match="too long"):
        Cluster(tmp_path / ("x" * 60)).start()


def test_installation_does_not_fail_and_names_what_is_missing(tmp_path):
    (tmp_path / "id").symlink_to("/usr/bin/id")
    environment = {"PATH": str(tmp_path), "HPCAI_NO_INSTALL": "1"}
    done = subprocess.run([TESTS / "install_packages.sh"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "mpicc" in done.stderr
    assert done.stderr.endswith("will be skipped\n")


def _has_ended(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
