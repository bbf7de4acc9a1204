"""Launchers in real jobs: where ranks are, how they end, and what is done on every node around a run."""

import csv
import importlib.util
import json
import sys
import textwrap
from pathlib import Path

import pytest
from end_to_end.test_ranks import make_cubes, small_plan
from slurm.cluster import ClusterError

from hpcai.config.plan_file import write_plan
from hpcai.data.stage_folder import MARKER

LAUNCHERS = ("srun", "mpirun", "horovodrun", "spawn")
ENDED_S = 120
PREAMBLE = """
import os, subprocess, sys, time
from pathlib import Path
for name in list(os.environ):
    if name.startswith(("SLURM_", "SRUN_")) and name != "SLURM_JOB_ID":  # as Snakemake's executor does
        del os.environ[name]
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import launch_command
from hpcai.measure.nodes import clean_nodes, prepare_nodes
from hpcai.records.weak import NodeShare
"""


def write_program(folder, text) -> list[str]:
    """Write what ranks run; return its command. Each line is to be one write: mpirun mixes the parts of others in."""
    program = folder / "rank.py"
    program.write_text("import os, sys, time\nfrom pathlib import Path\n" + textwrap.dedent(text))
    return [sys.executable, str(program)]


def run_job(cluster, folder, code, *options, nodes=2, ranks_per_node=2) -> str:
    """Run Python code in a job of its own; return all that it printed."""
    program, output = folder / "job.py", folder / "job.out"
    program.write_text(PREAMBLE + textwrap.dedent(code))
    layout = [f"--nodes={nodes}", f"--ntasks-per-node={ranks_per_node}", "--time=5", f"--output={output}", *options]
    job = cluster.submit(f"exec {sys.executable} {program}", *layout)
    try:
        cluster.wait_for(
            lambda: cluster.jobs().get(job) not in ("PENDING", "RUNNING", "COMPLETING"), ENDED_S, "the job"
        )
    except ClusterError as error:
        raise ClusterError(
            f"{error}\nThe job printed: {output.read_text() if output.exists() else 'nothing'}"
        ) from error
    return output.read_text()


def horovod_knows_mpi() -> bool:
    """Tell whether the installed Horovod was built with MPI, without the seconds that asking it takes."""
    (library,) = (Path(importlib.util.find_spec("horovod").origin).parent / "tensorflow").glob("mpi_lib.*.so")
    return b"MPI_Init" in library.read_bytes()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_are_where_the_plan_says(cluster, tmp_path, launcher):
    show = """
        from hpcai.launchers.registry import local_rank_of, rank_of
        os.write(1, f"rank {rank_of(os.environ)} {os.uname().nodename} {local_rank_of(os.environ)}\\n".encode())
    """
    code = f"""
        command = launch_command({launcher!r}, Ranks("r", 2, 2, 1), {write_program(tmp_path, show)})
        print(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    """
    lines = run_job(cluster, tmp_path, code).splitlines()
    found = sorted(line[line.index("rank") :] for line in lines if "rank" in line)
    assert found == ["rank 0 n1 0", "rank 1 n1 1", "rank 2 n2 0", "rank 3 n2 1"]


@pytest.mark.parametrize("launcher", ["srun", "mpirun", "spawn"])
def test_each_rank_sees_all_accelerators_of_its_node(cluster, tmp_path, launcher):
    """A rank takes the one of its number."""
    show = "os.write(1, f\"sees {os.environ.get('CUDA_VISIBLE_DEVICES')}\\n\".encode())"
    code = f"""
        command = launch_command({launcher!r}, Ranks("r", 1, 2, 1), {write_program(tmp_path, show)})
        print(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    """
    output = run_job(cluster, tmp_path, code, "--partition=gpu", "--gres=gpu:2", nodes=1)
    assert output.count("sees 0,1\n") == 2, output


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_instances_run_at_the_same_time_on_cores_of_their_own(cluster, tmp_path, launcher):
    """Each waits for the others: one that had to wait for another's end would never begin."""
    show = """
        folder = Path(__file__).parent
        (folder / sys.argv[1]).touch()
        while len(list(folder.glob("i?"))) < 4:
            time.sleep(0.1)
        place = f"{os.uname().nodename} {sorted(os.sched_getaffinity(0))}"
        os.write(1, f"instance {sys.argv[1]} {place}\\n".encode())
    """
    code = f"""
        processes = []
        for number, (host, core) in enumerate((h, c) for h in ("n1", "n2") for c in (0, 1)):
            ranks = Ranks("r", 1, 1, 1, (NodeShare(host=host, cores=(core,)),))
            program = [*{write_program(tmp_path, show)}, f"i{{number}}"]
            processes.append(subprocess.Popen(launch_command({launcher!r}, ranks, program)))
        print([process.wait() for process in processes])
    """
    lines = run_job(cluster, tmp_path, code).splitlines()
    found = sorted(line[line.index("instance") :] for line in lines if "instance" in line)
    assert found == ["instance i0 n1 [0]", "instance i1 n1 [1]", "instance i2 n2 [0]", "instance i3 n2 [1]"]
    assert lines[-1] == "[0, 0, 0, 0]"


@pytest.mark.parametrize("dies", [True, False], ids=["a rank dies", "the launcher is told to end"])
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_all_ranks_end_together(cluster, tmp_path, launcher, dies):
    wait = """
        folder = Path(__file__).parent
        (folder / f"on_{os.uname().nodename}").touch()
        while len(list(folder.glob("on_*"))) < 2:
            time.sleep(0.1)
        if "dies" in sys.argv and os.uname().nodename == "n2":
            os.kill(os.getpid(), 9)
        time.sleep(600)
    """
    program = [*write_program(tmp_path, wait), *(["dies"] if dies else [])]
    code = f"""
        process = subprocess.Popen(launch_command({launcher!r}, Ranks("r", 2, 1, 1), {program}))
        while len(list(Path({str(tmp_path)!r}).glob("on_*"))) < 2:
            time.sleep(0.1)
        if not {dies}:
            process.terminate()
        print("ended well:", process.wait() == 0, flush=True)
        look = "pgrep -f '^[^ ]*python[^ ]* [^ ]*/[r]ank.py' || echo nothing left"
        subprocess.run(["srun", "--overlap", "--mem=0", "-N2", "-n2", "--input=none", "bash", "-c", look])
    """
    output = run_job(cluster, tmp_path, code)
    assert "ended well: False" in output
    assert output.count("nothing left") == 2, output


def test_every_node_is_prepared_and_cleaned(cluster, tmp_path):
    files = [tmp_path / f"shard {number}.tar" for number in range(3)]
    for file in files:
        file.write_bytes(bytes(10_000))
    dead = "$TMPDIR/stages/dead@$SLURMD_NODENAME"
    leave = f"mkdir -p {dead}/train $TMPDIR/stages/thesis; touch {dead}/{MARKER}"
    hold = "import os, time; from pathlib import Path; from hpcai.data.stage_folder import claim_stage, own_stage"
    hold += "; claim_stage(own_stage(Path(os.environ['TMPDIR']) / 'stages/mine')); time.sleep(600)"
    code = f"""
        on_both = ["srun", "--overlap", "--mem=0", "-N2", "-n2", "--input=none"]
        subprocess.run([*on_both, "bash", "-c", {leave!r}], check=True)
        environment = {{**os.environ, "HPCAI_ATTEMPT": "mine"}}
        live = subprocess.Popen([*on_both, {sys.executable!r}, "-c", {hold!r}], env=environment)
        scratch, ranks = Path(os.environ["TMPDIR"], "stages/mine"), Ranks("r", 2, 1, 1)
        look = "while ! [ -d $TMPDIR/stages/mine@$SLURMD_NODENAME/validation ]; do sleep 0.1; done"
        subprocess.run([*on_both, "bash", "-c", look], check=True)
        report = prepare_nodes("srun", ranks, scratch, [Path(name) for name in {list(map(str, files))!r}])
        print([(f.node, f.hostname, f.swept_names, f.problem, f.free_bytes > 0) for f in report.nodes], report.problem)
        subprocess.run([*on_both, "bash", "-c", "ls $TMPDIR/stages/mine@$SLURMD_NODENAME"], check=True)
        clean_nodes("srun", ranks, [scratch], ["mine"])
        live.wait()
        subprocess.run([*on_both, "bash", "-c", "ls -x $TMPDIR/stages; pgrep -fc '[c]laim_stage'"])
    """
    lines = run_job(cluster, tmp_path, code).splitlines()
    expected = [(node, node, ("dead",), "", True) for node in ("n1", "n2")]
    assert f"{expected} " in lines
    assert lines.count("validation") == 2
    assert lines.count("thesis") == 2
    assert lines.count("0") == 2


@pytest.fixture(scope="module")
def cubes(tmp_path_factory):
    return make_cubes(tmp_path_factory.mktemp("cubes"))


@pytest.mark.parametrize(
    ("launcher", "partition"),
    [
        ("srun", "whole"),
        ("horovodrun", "split"),
        pytest.param("spawn", "whole", marks=pytest.mark.slow),
        pytest.param("srun", "split", marks=pytest.mark.slow),
        pytest.param("horovodrun", "whole", marks=pytest.mark.slow),
    ],
)
def test_two_nodes_train_as_two_ranks_of_one_do(cluster, tmp_path, cubes, launcher, partition):
    """Staged whole, the losses are the same to the last bit; staged in parts, all is still evaluated once.

    The parts lie side by side in a folder that both nodes see. Ranks that spawn starts have the engine tensorflow, and
    no Horovod.
    """
    if launcher == "srun" and not horovod_knows_mpi():
        pytest.skip("ranks that srun starts meet through MPI, which this Horovod lacks: make env MPI=yes")
    engine = "tensorflow" if launcher == "spawn" else "horovod"
    (tmp_path / "without/horovod").mkdir(parents=True)
    (tmp_path / "without/horovod/__init__.py").write_text("raise ImportError('there is no Horovod')")
    hidden = str(tmp_path / "without") if launcher == "spawn" else ""
    scratch = "$TMPDIR" if partition == "whole" else str(tmp_path / "scratch")
    losses = {}
    for nodes in (1, 2):
        raw = tmp_path / f"raw{nodes}"
        (raw / "ranks").mkdir(parents=True)
        staging = {"place": "node_local", "partition": partition}
        plan = small_plan(2 // nodes, staging=staging, point={"nodes": nodes, "engine": engine})
        write_plan(plan, raw / "plan.json")
        data = ["--manifest", str(cubes.manifest), "--pack", str(cubes.pack), "--page-cache", "kept"]
        code = f"""
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [{hidden!r}, os.environ.get("PYTHONPATH", "")]))
            program = [sys.executable, "-m", "hpcai.training", "--plan", {str(raw / "plan.json")!r}, *{data!r}]
            program += ["--raw", {str(raw)!r}, "--scratch", os.path.expandvars({scratch!r}) + "/train{nodes}"]
            command = launch_command({launcher!r}, Ranks("r", {nodes}, {2 // nodes}, 1), program)
            sys.exit(subprocess.run(command).returncode)
        """
        output = run_job(cluster, tmp_path, code, nodes=nodes, ranks_per_node=2 // nodes)
        assert (raw / "training.json").exists(), output
        places = [json.loads(path.read_text())["placement"] for path in sorted((raw / "ranks").iterdir())]
        expected = [("n1", 0, 0), ("n2", 0, 1)] if nodes == 2 else [("n1", 0, 0), ("n1", 1, 0)]
        assert [(p["hostname"], p["local_rank"], p["node_index"]) for p in places] == expected
        report = json.loads((raw / "training.json").read_text())
        assert report["staging"]["place"] == ("shared" if partition == "split" and nodes == 2 else "node_local")
        assert {epoch["evaluation_samples"] for epoch in report["epochs"]} == {15}
        losses[nodes] = [row["train_loss"] for row in csv.DictReader((raw / "steps.csv").open())]
    assert partition == "split" or losses[1] == losses[2]
    assert list(Path(cluster.folder, "nodes").glob("n?/scratch/train*")) == []
    assert list(tmp_path.glob("scratch/*")) == []
