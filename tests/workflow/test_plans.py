"""Plans: the controller writes them for the jobs that will run, and a changed one calls its job again."""

import shutil

import pytest
from workflow_project import ROOT, edit_yaml

from hpcai.campaign.failures import FILE as FAILURES
from hpcai.config.load import load_study_file
from hpcai.config.plan_file import read_plan, write_plan
from hpcai.measure.publish import OTHER_SETTINGS

RUN = "cosmoflow_mini/fp32/n1x1/r1"
RECORD = f"results/runs/{RUN}/record.json"
GROUP = "results/weak/cosmoflow_mini/fp32/n1x1/group.json"
FAKE_HPCAI = """\
#!/bin/sh
# Takes the place of `hpcai measure`: checks that the plan is there and writes a file where the record belongs.
while [ $# -gt 0 ]; do
    case "$1" in
    --folder) folder=$2 ;;
    --plan) test -s "$2" || exit 1; record=record.json ;;
    --plans) test -s "$2" && test -s "$3" || exit 1; record=group.json ;;
    esac
    shift
done
echo '{}' > "$folder/$record"
"""


@pytest.fixture
def site(project, tmp_path, monkeypatch):
    """A project whose data are there, whose files may be changed, and whose runs take no time."""
    shutil.copytree(ROOT / "tests/config", tmp_path / "config")
    project.study = tmp_path / "config/weak.yaml"
    (tmp_path / "fake_hpcai").write_text(FAKE_HPCAI)
    # A function of the shell of each job: rules call the hpcai beside snakemake whatever comes first on the PATH.
    (tmp_path / "functions").write_text(f'hpcai() {{ sh "{tmp_path / "fake_hpcai"}" "$@"; }}\n')
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "functions"))
    for file in ("manifest.json", "packed/packed.json"):
        made = project.directory / "data/cosmoflow_mini" / file
        made.parent.mkdir(parents=True, exist_ok=True)
        made.write_text("{}")
    return project


def again(site):
    return site.snakemake(RECORD, GROUP, "--allowed-rules", "train", "train_together", "--dry-run").stdout


def test_plans_are_there_before_the_job_and_call_it_again_once_they_change(site):
    done = site.snakemake(RECORD, GROUP, "--allowed-rules", "train", "train_together")
    assert done.returncode == 0, done.stdout
    campaign = load_study_file(site.study)
    written = {str(file.parent.relative_to(site.directory / "results")) for file in site.directory.rglob("plan.json")}
    instances = [f"weak/{run}" for run in campaign.weak_plans() if run.startswith("cosmoflow_mini/fp32/n1x1/")]
    # Those of the other runs, which nobody asked for, are not.
    assert written == {f"runs/{RUN}", *instances}
    assert len(instances) > 1
    assert read_plan(site.directory / f"results/runs/{RUN}/plan.json") == campaign.plans()[RUN]
    before = {file: file.stat().st_mtime_ns for file in site.directory.rglob("plan.json")}
    edit_yaml(site.study, limits={"run_s": "7 min"})
    assert "Nothing to be done" in again(site)
    edit_yaml(site.study.parent / "benchmarks/cosmoflow_mini.yaml", recipe__base_learning_rate=0.02)
    assert {"rule train:", "rule train_together:"} <= set(again(site).splitlines())
    # A dry run writes none.
    assert before == {file: file.stat().st_mtime_ns for file in site.directory.rglob("plan.json")}


PEAKS = {"fp32": {"rate_flop_per_s": "1 TFLOP/s", "source": "data sheet, 2026-01-02"}}
LINK = {"bandwidth_bytes_per_s": "25 GB/s", "source": "data sheet, 2026-01-02"}
BEFORE, AFTER = (f"cosmoflow_mini/fp32/n1x2/{repetition}" for repetition in ("r1", "r2"))


def finish(site):
    """Leave beside each plan what a finished run does: its plan with the seed that it had, and the digest of that."""
    for file in list(site.directory.glob("results/**/plan.json")):
        raw = file.parent / "raw"
        if raw.exists() or file.parent.name == "raw":
            continue
        plan = read_plan(file)
        seeded = plan.model_copy(update={"seed": plan.seed or plan.repetition})
        raw.mkdir()
        write_plan(seeded, raw / "plan.json")
        (raw / "plan.sha256").write_text(seeded.digest + "\n")


@pytest.mark.parametrize("seeds", ["derived", "entropy"])
def test_what_the_machine_file_only_declares_may_be_filled_in_between_runs(site, seeds):
    edit_yaml(site.study, seeds=seeds)
    early, late = [RECORD, f"results/runs/{BEFORE}/record.json", GROUP], f"results/runs/{AFTER}/record.json"
    train = ("--allowed-rules", "train", "train_together")
    assert site.snakemake(*early, *train).returncode == 0
    finish(site)
    machine = site.study.parent / "machines/box.yaml"
    edit_yaml(machine, nodes=3, device__peaks=PEAKS, links={"network": LINK}, storage__shared="a file system")
    assert "Nothing to be done" in site.snakemake(*early, *train, "--dry-run").stdout
    # A run that is still to be measured has the file as it is now, and none is measured again for it.
    done = site.snakemake(*early, late, *train)
    assert done.returncode == 0, done.stdout
    finish(site)
    assert done.stdout.count("rule train:") == 1
    assert "rule train_together:" not in done.stdout
    plans = {run: read_plan(site.directory / f"results/runs/{run}/plan.json") for run in (RUN, BEFORE, AFTER)}
    declared = {run: (plan.machine.nodes, len(plan.machine.device.peaks)) for run, plan in plans.items()}
    assert declared == {RUN: (1, 0), BEFORE: (1, 0), AFTER: (3, 1)}
    assert "Nothing to be done" in site.snakemake(*early, late, *train, "--dry-run").stdout
    edit_yaml(machine, memory_bytes="8 GiB")
    changed = site.snakemake(*early, late, *train, "--dry-run").stdout
    assert "Nothing to be done" not in changed
    assert (OTHER_SETTINGS.find_in(changed) is not None) == (seeds == "derived")


def test_touching_files_changes_neither_note_nor_plans_nor_what_failed(site):
    train = ("--allowed-rules", "train")
    assert site.snakemake(RECORD, *train).returncode == 0
    note, plan = site.directory / "results/campaign.json", site.directory / f"results/runs/{RUN}/plan.json"
    noted, failures = note.read_bytes(), site.directory / FAILURES
    failures.parent.mkdir(exist_ok=True)
    failures.write_text("{}\n")
    plan.unlink()
    done = site.snakemake("--touch", "--force", RECORD, *train)
    assert done.returncode == 0, done.stdout
    assert "rule train:" in done.stdout
    assert (note.read_bytes(), failures.exists(), plan.exists()) == (noted, True, False)
    # The next start notes itself, and forgets what failed before.
    assert site.snakemake("--force", RECORD, *train).returncode == 0
    assert note.read_bytes() != noted
    assert (failures.exists(), plan.exists()) == (False, True)


def test_the_snakemake_of_a_training_job_reads_the_rules_of_runs_alone(site):
    wildcards = dict(zip(("benchmark", "variant", "scale", "repetition"), RUN.split("/"), strict=True))
    target = "train:" + ",".join(f"{name}={value}" for name, value in wildcards.items())
    remote = ["--allowed-rules", "train", "--mode", "remote", "--nolock", "--no-hooks"]
    done = site.snakemake("--target-jobs", target, "--force", *remote, "--dry-run")
    assert done.returncode == 0, done.stdout
    assert "rule train:" in done.stdout.splitlines()
    assert "report" not in rules_listed(site, *remote)
    assert {"train", "report"} <= rules_listed(site)


def rules_listed(site, *options):
    return set(site.snakemake(*options, "--list-rules").stdout.split())
