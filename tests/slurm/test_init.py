"""`hpcai init --here` on the cluster: what it writes passes the check, and Slurm takes its first job."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from slurm.cluster import Cluster, find_missing
from workflow_project import STUB_RANKS, edit_yaml

from hpcai.config.load import load_study_file
from hpcai.records.files import read_record
from hpcai.setup.files import open_gaps

PROGRAM = Path(sys.executable).parent / "hpcai"
CHECK = ("check", "config/study.yaml", "--profile", "profiles/slurm")


def write(cluster, folder, *options, inside=()):
    """Write a study where the nodes see it, on the login node or inside of an allocation; return what it holds."""
    said = cluster.run(*inside, PROGRAM, "init", folder, "--here", *options).stdout
    profile = yaml.safe_load((folder / "profiles/slurm/config.yaml").read_text())
    machine = load_study_file(folder / "config/study.yaml").machine
    asked = profile["default-resources"]
    return SimpleNamespace(folder=folder, said=said, machine=machine, profile=profile, asked=asked)


def check(cluster, written):
    done = cluster.run(PROGRAM, *CHECK, check=False, cwd=written.folder)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(cluster, tmp_path_factory):
    """A study of the default partition, from the login node."""
    return write(cluster, tmp_path_factory.mktemp("site") / "study")


def test_nodes_that_are_alike_are_found_with_their_limits(cluster, written):
    assert written.machine.name == "hpcai_cpu"
    # n3 has accelerators; a feature keeps jobs away from it.
    asked = (written.asked["slurm_partition"], written.asked["constraint"], written.machine.nodes)
    assert asked == ("cpu", "cpunode", 2)
    node = cluster.run("scontrol", "show", "node", "n1", "--oneliner").stdout
    assert f"RealMemory={int(written.machine.memory_bytes) >> 20} " in node
    assert written.profile["slurm-status-command"] == "squeue"


def test_what_is_written_passes_the_check(cluster, written):
    status, said = check(cluster, written)
    assert status == 0, said
    assert "Slurm would accept all kinds of jobs" in said
    # Gaps are named, and block nothing.
    assert ": open: peaks: " in said
    assert open_gaps(sorted(written.folder.glob("config/machines/*.yaml")))


@pytest.mark.slow
def test_the_first_submission_is_measured(cluster, written):
    """Data, packing and one run on both nodes, as three jobs; its ranks only obey their plan, for fewer epochs."""
    study = written.folder / "config/study.yaml"
    benchmark = yaml.safe_load(study.read_text())["benchmarks"][2]
    edit_yaml(study, limits__disturbance={"repeats": 0})  # tests share the machine
    edit_yaml(written.folder / f"config/benchmarks/{benchmark}.yaml", data__train_samples=64, recipe__max_epochs=5)
    run = f"results/runs/{benchmark}/fp32/n2x{written.machine.ranks_per_node}/r1/record.json"
    command = [sys.executable, Path(__file__).parent / "quick_snakemake.py", run, "--profile", "profiles/slurm"]
    command += ["--slurm-init-seconds-before-status-checks", "1", "--max-status-checks-per-second", "2"]
    environment = {**cluster.environment, **STUB_RANKS}
    done = subprocess.run(command, cwd=written.folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    record = read_record(written.folder / run)
    assert {rank.placement.hostname for rank in record.ranks} == {"n1", "n2"}


def test_inside_an_allocation_the_node_itself_is_described(cluster, tmp_path):
    inside = ("srun", "--partition=gpu", "--gres=gpu:2")
    written = write(cluster, tmp_path / "study", inside=inside)
    machine = written.machine
    assert (machine.name, machine.nodes, machine.accelerators_per_node) == ("hpcai_gpu", 1, 2)
    assert "constraint" not in written.asked
    status, said = check(cluster, written)
    assert status == 0, said


def test_limits_of_another_partition(cluster, tmp_path):
    written = write(cluster, tmp_path / "study", "--partition", "project")
    assert written.machine.nodes == 1
    node = cluster.run("scontrol", "show", "partition", "project", "--oneliner").stdout
    assert f"MaxMemPerNode={int(written.machine.memory_bytes) >> 20} " in node
    assert {one["runtime"] for one in written.profile["set-resources"].values()} == {45}
    assert written.asked["runtime"] == 45
    status, said = check(cluster, written)
    assert status == 0, said


def test_a_partition_without_room_for_a_run_is_refused(cluster, tmp_path):
    done = cluster.run(PROGRAM, "init", tmp_path / "study", "--here", "--partition", "short", check=False)
    assert done.returncode == 1
    assert "MaxTime of the partition is 1 minutes" in done.stderr
    assert [*tmp_path.iterdir()] == []


@pytest.fixture(scope="module")
def accounted(tmp_path_factory):
    """A second cluster, whose jobs need an account."""
    if missing := find_missing(has_accounting=True):
        pytest.skip(missing)
    with Cluster(tmp_path_factory.getbasetemp() / "acct", has_accounting=True) as cluster:
        yield cluster


def test_the_default_account_and_its_limits(accounted, tmp_path):
    written = write(accounted, tmp_path / "study")
    assert (written.asked["slurm_account"], written.machine.nodes) == ("teaching", 1)
    status, said = check(accounted, written)
    assert status == 0, said


def test_the_account_that_a_partition_is_for(accounted, tmp_path):
    written = write(accounted, tmp_path / "study", "--partition", "project")
    # The default account may not use it; the other one has limits of its own.
    assert written.asked["slurm_account"] == "bench"
    assert (written.asked["runtime"], written.profile["jobs"]) == (30, 5)
    assert load_study_file(written.folder / "config/study.yaml").study.limits.run_s == (30 * 60 - 600) / 2
    status, said = check(accounted, written)
    assert status == 0, said


def test_an_account_that_may_not_use_the_partition_is_said_and_refused(accounted, tmp_path):
    written = write(accounted, tmp_path / "study", "--partition", "project", "--account", "teaching")
    assert ": open: slurm_account: " in written.said
    status, said = check(accounted, written)
    assert status == 1
    assert "slurm_account" in said
