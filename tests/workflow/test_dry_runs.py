"""What would run: job counts follow the run table, stages can be asked for one by one."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from workflow_project import call_snakemake, edit_yaml

from hpcai.catalogue.profiles import PROFILES
from hpcai.config.load import load_study_file
from hpcai.config.study import config_dir_setting

ROOT = Path(__file__).parents[2]
RUNS = 3
# What is measured for predictions, and the tables that are made from it.
MEASURED_FOR_PREDICTIONS = {
    *{"run_hpl", "list_layers", "measure_blocks", "sum_blocks", "predict_scales"},
    *{"fit_kernels", "validate_hpl", "predict_study"},
    *{"show_what_if", "show_hpl_validation", "show_scale_cases"},
}
MEASURED_FOR_REGRESSORS = {
    *{"measure_kernels", "measure_reference_steps", "fit_kernels", "judge_steps"},
    *{"show_kernel_errors", "show_step_accuracy"},
}


def test_job_counts_follow_the_run_table(project):
    counts = project.dry_run("all")
    assert counts["train"] == RUNS
    assert counts["prepare_data"] == counts["pack_data"] == counts["collect_runs"] == counts["report"] == 1
    assert counts["profile_run"] == len(PROFILES)
    assert counts["measure_ceiling"] == 3
    assert counts["measure_storage"] == counts["measure_allreduce"] == counts["count_work"] == 1
    assert sum(name.startswith("read_") for name in counts) == len(PROFILES)
    # One job makes all tables of a stage, one draws all of its figures and writes its pages.
    stages = ("runs", "views", "scores", "rounds", "published")
    assert {name for name in counts if name.startswith("show_")} == {f"show_{stage}" for stage in stages}
    assert all(counts[f"show_{stage}"] == 1 for stage in stages)
    assert counts["score_study"] == counts["predict_published"] == counts["workflow_report"] == 1
    assert "write_document" not in counts  # no benchmark of HPC AI500


@pytest.mark.parametrize(
    ("target", "present", "absent"),
    [
        ("data", {"prepare_data"}, {"pack_data", "train"}),
        ("pack", {"prepare_data", "pack_data"}, {"train"}),
        ("measure", {"train"}, {"collect_runs", "profile_run"}),
        ("characterise", {"profile_run", "measure_ceiling", "count_work"}, {"train", "collect_runs"}),
        ("analyse", {"train", "collect_runs", "show_runs"}, {"report", "profile_run"}),
        ("scores", {"score_study", "show_scores", "chart_scores", "profile_run"}, {"report", "show_runs"}),
        ("predict", MEASURED_FOR_PREDICTIONS, {"report", *(MEASURED_FOR_REGRESSORS - {"fit_kernels"})}),
        ("regressors", MEASURED_FOR_REGRESSORS, {"report", "run_hpl"}),
        (
            "report",
            {"train", "report", "profile_run", "collect_views", "score_study"},
            {"workflow_report", *MEASURED_FOR_PREDICTIONS, *MEASURED_FOR_REGRESSORS},
        ),
    ],
)
def test_each_stage_is_a_target(project, target, present, absent):
    counts = project.dry_run(target)
    assert present <= set(counts)
    assert not absent & set(counts)


def test_without_a_target_everything_is_made_but_predictions(project):
    counts = project.dry_run()
    assert counts == project.dry_run("all")
    assert not (MEASURED_FOR_PREDICTIONS | MEASURED_FOR_REGRESSORS) & set(counts)


def test_predictions_are_measured_once_for_all(project):
    counts = project.dry_run("predict")
    assert counts["run_hpl"] == counts["list_layers"] == counts["predict_study"] == 1
    assert sum(counts[name] for name in MEASURED_FOR_PREDICTIONS if name.startswith("show_")) == 3
    assert project.dry_run("regressors")["measure_kernels"] == 5


@pytest.mark.parametrize(
    ("target", "removed", "rule"),
    [
        ("predict", "step_blocks.json", "measure_blocks"),
        ("regressors", "convolution2d/times.parquet", "measure_kernels"),
        pytest.param("predict", "blas_rates.json", "run_hpl", marks=pytest.mark.slow),
        pytest.param("predict", "hpl.json", "run_hpl", marks=pytest.mark.slow),
        pytest.param("regressors", "reference_steps.json", "measure_reference_steps", marks=pytest.mark.slow),
    ],
)
def test_what_was_removed_is_measured_again_though_its_tables_are_there(project, target, removed, rule):
    planned = project.snakemake("--dry-run", target).stdout
    now_s = time.time()
    for name in ", ".join(re.findall(r"^ +output: (.+)$", planned, re.MULTILINE)).split(", "):
        file = project.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, (now_s, now_s))
    assert rule not in project.dry_run(target)
    (project.directory / "results/predict/box" / removed).unlink()
    assert project.dry_run(target)[rule] == 1


def test_hpl_is_compiled_where_the_machine_file_names_its_source_and_no_command(project, tmp_path):
    assert "build_hpl" not in project.dry_run("predict")
    shutil.copytree(ROOT / "tests/config", tmp_path / "config")
    project.study, machine = tmp_path / "config/tiny.yaml", tmp_path / "config/machines/box.yaml"
    edit_yaml(machine, hpl={"source": "/sources/hpl-2.3.tar.gz"})
    assert project.dry_run("predict")["build_hpl"] == 1
    edit_yaml(machine, hpl={"source": "/sources/hpl-2.3.tar.gz", "command": ["xhpl"]})
    assert "build_hpl" not in project.dry_run("predict")


def test_reports_show_the_predictions_that_are_there(project):
    names = ("rates", "validation", "parts")
    tables = [f"results/tables/hpl_{name}.{kind}" for name in names for kind in ("csv", "parquet")]
    for name in ["results/predict/box/blas_rates.json", "results/predict/box/hpl.json", *tables]:
        file = project.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    counts = project.dry_run("report")
    # The one figure whose tables are there, and nothing of the other predictors.
    assert counts["show_hpl_validation"] == 1
    assert MEASURED_FOR_PREDICTIONS & set(counts) == {"show_hpl_validation"}
    # Without what they were made from they would have to be measured again.
    (project.directory / "results/predict/box/hpl.json").unlink()
    assert not MEASURED_FOR_PREDICTIONS & set(project.dry_run("report"))


def test_the_default_study_fills_no_gap_of_another(project):
    # Its published results are no files of the tests' configuration folder: naming them would be an error.
    assert "published:" in (ROOT / "config/study.yaml").read_text()
    assert not (project.study.parent / "published/hpc_ai500_v2.yaml").exists()
    assert project.dry_run("scores")["score_study"] == 1


def test_until_stops_after_a_stage(project):
    assert "collect_runs" not in project.dry_run("all", "--until", "train")


@pytest.mark.parametrize("kind", ["--dag", "--rulegraph"])
def test_graphs_are_dot_and_nothing_else(project, kind):
    command = [Path(sys.executable).parent / "snakemake", "all", kind, "--snakefile", ROOT / "Snakefile"]
    done = subprocess.run(command, cwd=project.directory, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("digraph")
    assert "train" in done.stdout


def test_without_measuring_no_run_can_start(project):
    done = project.snakemake("--dry-run", "all", config=["measure=false"])
    assert done.returncode != 0
    assert "measure: found false" in done.stdout


def test_without_staging_nothing_is_packed(project, tmp_path):
    config = tmp_path / "config"
    shutil.copytree(ROOT / "tests/config", config)
    benchmark = config / "benchmarks/cosmoflow_mini.yaml"
    benchmark.write_text(benchmark.read_text() + "staging:\n  place: none\n")
    project.study = config / "tiny.yaml"
    assert "pack_data" not in project.dry_run("measure")


def test_each_benchmark_of_hpc_ai500_has_its_document(project):
    project.study = ROOT / "tests/config/five.yaml"
    assert project.dry_run("scores")["write_document"] == 2


def test_an_earlier_study_that_is_not_there_is_named(project):
    done = project.snakemake("--dry-run", "scores", config=["compare_with=['nowhere/results']"])
    assert done.returncode != 0
    assert "compare_with.0: found 'nowhere/results'" in done.stdout
    assert "nowhere/results/tables/runs.parquet must be there" in done.stdout


def test_bad_configuration_stops_before_any_job(project):
    done = project.snakemake("--dry-run", "all", config=["machine='$(touch evil)'", "seed=0", "colour=red"])
    assert done.returncode != 0
    assert "the configuration has 3 errors" in done.stdout
    for key in ("machine: found", "seed: found 0", "colour: found an unknown key"):
        assert key in done.stdout
    assert not list(project.directory.glob("evil"))
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize("profile", sorted(path.name for path in (ROOT / "profiles").iterdir()))
def test_every_profile_dry_runs(project, profile):
    done = project.snakemake("--dry-run", "all", "--profile", ROOT / "profiles" / profile)
    assert done.returncode == 0, done.stdout


READY = sorted((ROOT / "config/studies").glob("*/*.yaml"))


@pytest.mark.parametrize(
    "study",
    [pytest.param(path, marks=[] if path.parent.name == "evaluation" else pytest.mark.slow) for path in READY],
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_every_ready_study_dry_runs(project, study):
    # Without a config_dir, as users name it: the clone's config/ has what it names.
    folder = f"config_dir={ROOT / 'config'}"
    project.study = study
    counts = project.dry_run("report", config=[folder])
    rows = load_study_file(study).rows
    assert counts["train"] == sum(row.repeats for row in rows)
    assert counts["report"] == counts["show_runs"] == 1


def test_lint(project):
    done = project.snakemake("--lint")
    assert done.returncode == 0, done.stdout


def test_entry_point_and_scripts_stay_small():
    assert len((ROOT / "Snakefile").read_text().splitlines()) <= 5
    assert len((ROOT / "workflow/Snakefile").read_text().splitlines()) <= 70
    for script in (ROOT / "workflow/scripts").glob("*.py"):
        assert len(script.read_text().splitlines()) <= 40, script


def make_rounds(folder):
    """Write two published rounds, a folder and an archive: a dry run looks at their names and times alone."""
    (folder / "v1.0/A/results/x/strong/deepcam").mkdir(parents=True)
    (folder / "v1.0/A/results/x/strong/deepcam/result_1.txt").touch()
    (folder / "mlperf_hpc_v0.7.tar.xz").touch()
    return [f"rounds=['{folder}/v1.0','{folder}/mlperf_hpc_v0.7.tar.xz']"]


def test_without_rounds_none_is_imported(project):
    counts = project.dry_run("all")
    assert "import_round" not in counts
    assert counts["import_own_runs"] == counts["analyse_rounds"] == counts["show_rounds"] == 1


def test_each_round_is_imported_once_for_report_and_ranking(project, tmp_path):
    counts = project.dry_run("all", config=make_rounds(tmp_path))
    assert counts["import_round"] == 2
    assert counts["analyse_rounds"] == counts["score_study"] == 1
    assert counts["train"] == RUNS
    assert "import_round" in project.dry_run("scores", config=make_rounds(tmp_path / "others"))


def test_rounds_have_a_page_for_which_no_run_starts(project, tmp_path):
    rounds = make_rounds(tmp_path)
    counts = project.dry_run("rounds", config=rounds)
    assert counts["import_round"] == 2
    assert counts["import_own_runs"] == counts["write_rounds_page"] == 1
    measuring = {"train", "prepare_data", "pack_data", "profile_run", "collect_runs", "report"}
    assert not measuring & set(counts)
    # Nor is a run that is recorded made again, whatever happened to what it was made from.
    run = project.directory / "results/runs/cosmoflow_mini/fp32/n1x1/r1"
    run.mkdir(parents=True)
    (run / "record.json").touch()
    assert project.dry_run("rounds", config=rounds) == counts


def test_the_page_on_rounds_is_refused_without_a_round(project):
    done = project.snakemake("--dry-run", "rounds")
    assert done.returncode != 0
    assert "rounds: found none" in done.stdout


def test_rounds_that_cannot_be_imported_are_named(project, tmp_path):
    (tmp_path / "v1.0").mkdir()
    (tmp_path / "other/v1.0").mkdir(parents=True)
    done = project.snakemake("--dry-run", "rounds", config=[f"rounds=['{tmp_path}/v1.0','{tmp_path}/other/v1.0']"])
    assert done.returncode != 0
    assert "rounds.1: found" in done.stdout
    assert "another name than 'v1.0'" in done.stdout
    assert "Traceback" not in done.stdout


def test_no_caption_has_a_wildcard():
    # Snakemake fills none in: its report would end with a file that is not there.
    rules = sorted((ROOT / "workflow" / "rules").glob("*.smk"))
    found = [name for file in rules for name in re.findall(r'caption="([^"]*)"', file.read_text()) if "{" in name]
    assert rules
    assert found == []


def test_a_key_that_stands_twice_is_refused_as_the_check_does(project, tmp_path):
    folder = tmp_path / "config"
    shutil.copytree(project.study.parent, folder)
    study = folder / project.study.name
    study.write_text(study.read_text() + "\nname: another\n")
    own = type(project)(project.directory, study=study)
    ended = own.snakemake("all", "--dry-run")
    assert ended.returncode != 0
    assert "'name' stands 2 times" in ended.stdout


@pytest.mark.parametrize(("kernels", "here"), [(True, False), (False, True)])
def test_no_node_is_asked_for_kernels_that_were_not_measured(project, tmp_path, kernels, here):
    folder = tmp_path / "config"
    shutil.copytree(project.study.parent, folder)
    if not kernels:
        edit_yaml(folder / project.study.name, predict={})
    journal = tmp_path / "journal.jsonl"
    own = type(project)(
        project.directory, study=folder / project.study.name, environment={"HPCAI_JOURNAL": str(journal)}
    )
    assert own.dry_run("regressors")["fit_kernels"] == 1
    plan = json.loads(journal.read_text().splitlines()[0])
    assert ("fit_kernels" in plan["here"]) == here
    assert not {"train", "list_layers", "measure_ceiling"} & set(plan["here"])


def test_the_journal_of_a_dry_run_tells_what_slurm_would_be_asked_for(project, tmp_path):
    journal = tmp_path / "journal.jsonl"
    own = type(project)(project.directory, environment={"HPCAI_JOURNAL": str(journal)})
    own.dry_run("measure", "--profile", ROOT / "profiles/slurm")
    jobs = [json.loads(line) for line in journal.read_text().splitlines()]
    asked = {job["rule"]: job["resources"] for job in jobs if job["event"] == "job_info"}
    assert (asked["train"]["nodes"], asked["train"]["mpi"]) == (1, "launcher")
    assert asked["pack_data"]["runtime"] == 240


def setting_of_report(printed):
    """Setting that the Snakemake which writes Snakemake's report gets, in a dry run that prints its command."""
    (setting,) = shlex.split(re.search(r"--config (.+?)\s+--nolock", printed)[1])
    return setting


def test_the_tables_above_a_study_are_taken_rather_than_those_of_the_clone(tmp_path):
    folder = shutil.copytree(ROOT / "tests/config", tmp_path / "mine")
    table = folder / "runs/tiny.tsv"
    table.write_text(table.read_text().replace("1\t2\t2", "1\t2\t5"))
    (folder / "studies").mkdir()
    study = shutil.move(folder / "tiny.yaml", folder / "studies/tiny.yaml")
    place = ["--snakefile", ROOT / "Snakefile", "--directory", tmp_path, "--configfile", study, "--cores", "2"]
    done = call_snakemake("measure", "--dry-run", *place)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^train +6$", done.stdout, re.MULTILINE), done.stdout
    # The Snakemake that writes its report starts from results/study.json, above which there are no tables.
    done = call_snakemake("workflow_report", "--dry-run", "--printshellcmds", *place)
    assert setting_of_report(done.stdout) == config_dir_setting(folder)


def test_a_study_may_lie_in_a_folder_of_any_name(tmp_path):
    """Its report is made by another Snakemake, which is told where its tables are, after all runs have finished."""
    folder = shutil.copytree(ROOT / "tests/config", tmp_path / "größe a: b [c] ~d #e/config")
    place = ["--snakefile", ROOT / "Snakefile", "--directory", tmp_path, "--cores", "2", "--configfile"]
    assert call_snakemake("results/study.json", *place, folder / "tiny.yaml").returncode == 0
    told = call_snakemake("workflow_report", "--dry-run", "--printshellcmds", *place, folder / "tiny.yaml")
    assert told.returncode == 0, told.stdout
    again = ["--config", setting_of_report(told.stdout)]
    done = call_snakemake("measure", "--dry-run", *place, tmp_path / "results/study.json", *again)
    assert done.returncode == 0, done.stdout
    assert re.search(rf"^train +{RUNS}$", done.stdout, re.MULTILINE), done.stdout


def test_variables_of_the_folder_of_the_tables_are_replaced(project, monkeypatch):
    monkeypatch.setenv("MY_TABLES", str(project.study.parent))
    assert project.dry_run("measure", config=["config_dir=${MY_TABLES}"])["train"] == RUNS
