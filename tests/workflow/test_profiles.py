"""Profiles: where it runs changes what a job asks for, and nothing else."""

import json
import re
import shutil
from base64 import urlsafe_b64encode

import pytest
import yaml
from workflow_project import ROOT, Project, call_snakemake, edit_yaml

from hpcai.machine.subprocess_measure import TOO_MANY_THREADS
from hpcai.setup.files import MACHINE_RULES
from hpcai.slurm.sbatch_request import Request, sbatch_options

PROFILES = sorted(path.parent.name for path in (ROOT / "profiles").glob("*/config.yaml"))
SLURM = ("site", "slurm", "slurm-gpu")
ROW = "cosmoflow_mini\tfp32\t2\t1\t1\tfp32\tnone\t\n"
TRAIN = "results/runs/cosmoflow_mini/fp32/n2x1/r1/record.json"


@pytest.fixture
def cluster_study(tmp_path):
    """A study with a run on two nodes of a machine of three."""
    shutil.copytree(ROOT / "tests/config", tmp_path / "config")
    edit_yaml(tmp_path / "config/machines/box.yaml", nodes=3, cores_per_node=64, memory_bytes="256 GiB")
    with (tmp_path / "config/runs/tiny.tsv").open("a") as table:
        table.write(ROW)
    return Project(tmp_path, study=tmp_path / "config/tiny.yaml")


def resources_of(project, rule, *arguments):
    """Resources that a rule's job would ask for, as a dry run prints them."""
    files = ["--snakefile", ROOT / "Snakefile", "--directory", project.directory, "--configfile", project.study]
    done = call_snakemake("--dry-run", TRAIN, *arguments, *files, "--config", f"config_dir={project.study.parent}")
    assert done.returncode == 0, done.stdout
    block = re.search(rf"rule {rule}:\n(.*?)\n\n?\[|rule {rule}:\n(.*?)Job stats", done.stdout, re.DOTALL)
    listed = re.search(r"resources: (.*)", block[0])[1]
    return dict(part.split("=", 1) for part in re.split(r", (?=\w+=)", listed))


def test_every_use_has_a_profile():
    assert {"default", "laptop", "workstation", *SLURM} == set(PROFILES)


def test_the_common_profile_decides_nothing_that_another_one_must():
    # Snakemake reads profiles/default on top of every other profile, unasked.
    common = yaml.safe_load((ROOT / "profiles/default/config.yaml").read_text())
    others = [yaml.safe_load((ROOT / f"profiles/{name}/config.yaml").read_text()) for name in PROFILES]
    assert all(not set(common) & set(other) for other in others if other != common)


@pytest.mark.parametrize(
    ("name", "launcher"), [("laptop", "horovodrun"), ("workstation", "mpirun"), ("slurm-gpu", "spawn")]
)
def test_a_profile_names_the_launcher(cluster_study, name, launcher):
    assert resources_of(cluster_study, "train", "--profile", ROOT / "profiles" / name)["launcher"] == launcher


@pytest.mark.parametrize(("cores", "lacking"), [(100_000, True), (2, False)])
def test_ceilings_that_this_host_cannot_measure_are_named_before_a_job_starts(cluster_study, cores, lacking):
    edit_yaml(cluster_study.study.parent / "machines/box.yaml", cores_per_node=cores)
    files = ["--snakefile", ROOT / "Snakefile", "--directory", cluster_study.directory]
    files += ["--configfile", cluster_study.study, "--config", f"config_dir={cluster_study.study.parent}"]
    done = call_snakemake("results/study.json", "--profile", ROOT / "profiles/laptop", *files)
    assert done.returncode == 0, done.stdout
    before, _, _ = done.stdout.partition("rule write_study")
    found = TOO_MANY_THREADS.find_in(before)
    assert (found is not None and found["threads"] == "100000") == lacking


def test_a_ceiling_that_cannot_be_measured_is_a_result_with_its_reason(cluster_study):
    edit_yaml(cluster_study.study.parent / "machines/box.yaml", cores_per_node=100_000)
    files = ["--snakefile", ROOT / "Snakefile", "--directory", cluster_study.directory]
    files += ["--configfile", cluster_study.study, "--config", f"config_dir={cluster_study.study.parent}"]
    report = "results/characterise/memory.json"
    done = call_snakemake(report, "--profile", ROOT / "profiles/laptop", *files)
    assert done.returncode == 0, done.stdout
    found = json.loads((cluster_study.directory / report).read_text())
    assert [one["threads"] for one in found["not_measured"]] == [100_000]
    assert {one["threads"] for one in found["samples"]} == {1}


def test_without_a_profile_the_launcher_is_horovodrun(cluster_study):
    assert (
        resources_of(cluster_study, "train", "--workflow-profile", "none", "--cores", "2")["launcher"] == "horovodrun"
    )


@pytest.mark.parametrize("name", SLURM)
def test_a_run_asks_for_whole_nodes(cluster_study, name):
    asked = resources_of(cluster_study, "train", "--profile", ROOT / "profiles" / name)
    machine = {"nodes": "2", "tasks_per_node": "64", "cpus_per_task": "1", "mem_mb": str(256 * 1024)}
    assert {key: asked[key] for key in machine} == machine
    assert "--exclusive" in asked["slurm_extra"]
    assert "--no-requeue" in asked["slurm_extra"]
    assert asked["mpi"]  # else the executor would start it as a step of one node
    assert int(asked["runtime"]) == 15  # five minutes of the study's limit, and ten around it


def test_accelerators_are_asked_for_by_node(cluster_study):
    machine = cluster_study.directory / "config/machines/box.yaml"
    edit_yaml(machine, accelerators_per_node=4, device={"kind": "gpu", "model": "one"})
    asked = resources_of(cluster_study, "train", "--profile", ROOT / "profiles/slurm-gpu")
    assert (asked["gres"], asked["tasks_per_gpu"]) == ("gpu:4", "0")
    assert asked["slurm_partition"] == "gpu"


def test_packing_is_an_ordinary_job(cluster_study):
    asked = resources_of(cluster_study, "pack_data", "--profile", ROOT / "profiles/slurm")
    assert "mpi" not in asked
    assert "--exclusive" not in asked["slurm_extra"]
    assert int(asked["runtime"]) > 60


def test_a_profile_is_found_by_its_bare_name(cluster_study, tmp_path, monkeypatch):
    folder = tmp_path / "home/snakemake"
    folder.mkdir(parents=True)
    (folder / "slurm").symlink_to(ROOT / "profiles/slurm")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    assert resources_of(cluster_study, "train", "--profile", "slurm")["nodes"] == "2"


def test_a_restart_without_a_profile_makes_again_what_a_killed_controller_left(tmp_path):
    project = Project(tmp_path)
    left = "data/cosmoflow_mini/manifest.json"
    marker = tmp_path / ".snakemake/incomplete" / urlsafe_b64encode(left.encode()).decode()
    for file in (tmp_path / left, marker):
        file.parent.mkdir(parents=True)
        file.touch()
    assert project.dry_run(left)["prepare_data"] == 1


def test_an_error_of_a_dataset_is_told_once(cluster_study):
    """Another attempt would meet another error, such as a server that refuses: the first wrong file was moved away."""
    benchmark = cluster_study.directory / "config/benchmarks/cosmoflow_mini.yaml"
    edit_yaml(benchmark, data__source="existing", data__path="/absent/dataset")
    assert cluster_study.snakemake("data", "--cores", "1").returncode != 0
    log = cluster_study.directory / "logs/prepare_data/cosmoflow_mini.log"
    assert log.read_text().count("CRITICAL stopped") == 1


def test_what_requests_whole_nodes_runs_on_them(cluster_study):
    """A rule that is local runs on the login node, whatever it requests; a dry run does not tell which are."""
    told = cluster_study.directory / "told.json"
    (cluster_study.directory / "Snakefile").write_text(
        f"include: {str(ROOT / 'Snakefile')!r}\nimport json\n"
        "whole = [one.name for one in workflow.rules if 'mpi' in one.resources]\n"
        f"open({str(told)!r}, 'w').write(json.dumps([sorted(whole), sorted(workflow._localrules)]))\n"
    )
    files = ["--snakefile", cluster_study.directory / "Snakefile", "--directory", cluster_study.directory]
    files += ["--configfile", cluster_study.study, "--config", f"config_dir={cluster_study.study.parent}"]
    done = call_snakemake("--dry-run", TRAIN, *files)
    assert done.returncode == 0, done.stdout
    whole, here = map(set, json.loads(told.read_text()))
    runs = {"train", "train_together", "profile_run", "measure_acceptance"}
    # `hpcai init` writes the time limit of these into a profile.
    assert whole == runs | set(MACHINE_RULES)
    assert not here & whole
    assert not here & {"prepare_data", "pack_data", "count_work"}
    assert {"collect_runs", "predict_published"} <= here


def test_regressors_are_fitted_on_the_cores_of_a_node(cluster_study, tmp_path):
    """Not on as many as the host of the controller has, which Snakemake takes for the threads of the job."""
    journal = tmp_path / "journal.jsonl"
    cluster_study.environment["HPCAI_JOURNAL"] = str(journal)
    cluster_study.dry_run("regressors", "--profile", ROOT / "profiles/slurm")
    events = map(json.loads, journal.read_text().splitlines())
    (fitting,) = (one for one in events if one["event"] == "job_info" and one["rule"] == "fit_kernels")
    asked = sbatch_options(Request(("fit_kernels",), fitting["resources"], fitting["threads"]), {})
    assert "--cpus-per-task=64" in asked
    assert not [option for option in asked if option.startswith("--nodes")]
