"""Where a job's software comes from: environment modules, conda, and what happens where they are missing."""

import os
import re
import shutil
from pathlib import Path

import pytest
from workflow_project import edit_yaml

ROOT = Path(__file__).parents[2]
COMPUTING = {
    "prepare_data": "data",
    "pack_data": "pack",
    "train": "measure",
    "train_together": "weak",
    "measure_ceiling": "characterise",
    "measure_storage": "characterise",
    "measure_allreduce": "characterise",
    "profile_run": "characterise",
    "count_work": "profiles",
}
MODULES_START = [
    Path(os.environ.get("MODULESHOME", "/usr/share/modules")) / "init/bash",
    Path("/usr/share/lmod/lmod/init/bash"),
]
RECORD = "results/runs/cosmoflow_mini/fp32/n1x1/r1/record.json"


@pytest.fixture
def site(project, tmp_path):
    """A project whose machine file the test may change."""
    config = tmp_path / "config"
    shutil.copytree(ROOT / "tests/config", config)
    project.study = config / "tiny.yaml"
    return project


@pytest.fixture
def modules(site, tmp_path, monkeypatch):
    """Two modules: one sets a variable and puts a program before others, one does nothing."""
    start = next((path for path in MODULES_START if path.is_file()), None)
    if start is None:
        pytest.skip("no `module` command here: apt-get install --no-install-recommends environment-modules")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "hpcai").write_text(FAKE_HPCAI)
    (programs / "hpcai").chmod(0o755)
    for name, lines in {
        "site_mpi/4.1": f"setenv HPCAI_SITE_MPI loaded\nprepend-path PATH {programs}\n",
        "other/1": "setenv HPCAI_OTHER loaded\n",
    }.items():
        file = tmp_path / "modulefiles" / name
        file.parent.mkdir(parents=True)
        file.write_text(f"#%Module1.0\n{lines}")
    monkeypatch.setenv("MODULEPATH", str(tmp_path / "modulefiles"))
    monkeypatch.setenv("BASH_ENV", str(start))
    return site


FAKE_HPCAI = """\
#!/bin/sh
# Takes the place of `hpcai measure`: writes what it sees where the record belongs.
while [ $# -gt 0 ]; do [ "$1" = --folder ] && folder=$2; shift; done
echo "mpi=${HPCAI_SITE_MPI:-} other=${HPCAI_OTHER:-} modules=${LOADEDMODULES:-}" > "$folder/record.json"
"""


def declare(site, **software):
    edit_yaml(site.study.parent / "machines/box.yaml", software=software)


def train(site, *arguments):
    """Run or plan the job of one run, whose data are there already."""
    for file in ("manifest.json", "packed/packed.json"):
        made = site.directory / "data/cosmoflow_mini" / file
        if not made.exists():
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text("{}")
    return site.snakemake(RECORD, "--allowed-rules", "train", *arguments)


@pytest.mark.parametrize(("rule", "file"), COMPUTING.items())
def test_rules_that_compute_load_the_modules_of_the_machine(rule, file):
    text = (ROOT / f"workflow/rules/{file}.smk").read_text()
    block = re.search(rf"^( *)rule {rule}:\n(?:\1 +.*\n|\n)*", text, flags=re.MULTILINE)[0]
    assert re.search(r"envmodules:\n +\*CAMPAIGN\.machine\.modules,\n", block)


def test_no_rule_runs_in_an_image_of_its_own():
    # A launcher inside an image finds no Slurm: only the ranks are put into one, by hpcai.measure.container.
    for file in [ROOT / "Snakefile", ROOT / "workflow/Snakefile", *(ROOT / "workflow/rules").glob("*.smk")]:
        assert not re.search(r"^ *(container|containerized|singularity):", file.read_text(), flags=re.MULTILINE), file


def test_a_machine_without_modules_needs_no_module_command(site):
    assert site.dry_run("pack", "--sdm", "env-modules") == site.dry_run("pack")


def test_modules_and_an_image_change_no_job(site):
    before = site.dry_run("all")
    declare(site, modules=["site_mpi/4.1"], container="hpcai.sif", container_options=["--nv"])
    assert site.dry_run("all") == before
    assert site.dry_run("all", "--sdm", "env-modules") == before


def test_lint_with_modules(site):
    declare(site, modules=["site_mpi/4.1"])
    done = site.snakemake("--lint")
    assert done.returncode == 0, done.stdout


def test_shell_text_in_a_module_list_stops_before_any_job(site):
    declare(site, modules=["gcc; touch evil"])
    done = site.snakemake("--dry-run", "all")
    assert done.returncode != 0
    assert "software.modules.0: found 'gcc; touch evil'" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_job_sees_the_modules_that_the_machine_file_names(modules):
    declare(modules, modules=["site_mpi/4.1"])
    done = train(modules, "--sdm", "env-modules")
    assert done.returncode == 0, done.stdout
    assert (modules.directory / RECORD).read_text() == "mpi=loaded other= modules=site_mpi/4.1\n"


def test_what_was_loaded_before_is_unloaded(modules, monkeypatch):
    declare(modules, modules=["site_mpi/4.1"])
    started = f". {os.environ['BASH_ENV']}; module load other"
    loader = modules.directory.parent / "loader.sh"
    loader.write_text(f'[ -n "${{LOADEDMODULES:-}}" ] && . {os.environ["BASH_ENV"]} || {{ {started}; }}\n')
    monkeypatch.setenv("BASH_ENV", str(loader))
    done = train(modules, "--sdm", "env-modules")
    assert done.returncode == 0, done.stdout
    assert (modules.directory / RECORD).read_text() == "mpi=loaded other= modules=site_mpi/4.1\n"


def test_snakemake_runs_the_command_without_a_missing_module(modules):
    # Why `hpcai measure` looks for itself (hpcai.measure.container); once this fails, it need not any more.
    declare(modules, modules=["site_mpi/4.1", "not_there/1"])
    done = train(modules, "--sdm", "env-modules")
    assert done.returncode == 0, done.stdout
    assert "not_there/1" in done.stdout
    assert (modules.directory / RECORD).read_text() == "mpi=loaded other= modules=site_mpi/4.1\n"


def test_a_changed_list_calls_finished_runs_again_by_one_trigger(modules):
    declare(modules, modules=["site_mpi/4.1"])
    assert train(modules, "--sdm", "env-modules").returncode == 0
    declare(modules, modules=["site_mpi/4.1", "other/1"])
    again = ["--sdm", "env-modules", "--dry-run", "--rerun-triggers", "mtime", "input", "code"]
    kept = train(modules, *again)
    assert "Nothing to be done" in kept.stdout, kept.stdout
    called = train(modules, *again, "software-env")
    assert re.search(r"^train +1$", called.stdout, flags=re.MULTILINE), called.stdout


CONDA = """\
#!/bin/sh
case "$*" in
"info --json") echo '{"conda_version": "24.11.0", "conda_prefix": "/nowhere", "platform": "linux-64"}' ;;
--version) echo "conda 24.11.0" ;;
"config --get channel_priority --json") echo '{"get": {"channel_priority": "strict"}, "success": true}' ;;
*) echo "conda $*: not of a dry run" >&2; exit 1 ;;
esac
"""


@pytest.mark.parametrize("methods", [["conda"], ["apptainer", "conda"]])
def test_conda_is_planned_for_every_rule(site, methods, monkeypatch):
    programs = site.directory / "programs"
    programs.mkdir()
    (programs / "conda").write_text(CONDA)
    (programs / "conda").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    done = site.snakemake("--dry-run", "all", "--sdm", *methods)
    assert done.returncode == 0, done.stdout
    # One environment for all rules.
    assert done.stdout.count("envs/hpcai.yaml will be created") == 1
    assert re.search(r"^train +\d+$", done.stdout, flags=re.MULTILINE)


@pytest.mark.skipif(shutil.which("conda") is not None, reason="conda is here")
@pytest.mark.parametrize("methods", [["conda"], ["apptainer", "conda"]])
def test_a_missing_conda_is_named_before_any_job(site, methods):
    done = site.snakemake("data", "--sdm", *methods)
    assert done.returncode != 0
    assert "Is conda installed and accessible?" in done.stdout
    assert "Traceback" not in done.stdout
    assert not (site.directory / "data").exists()
