"""The report of a study that was interrupted: of what is there, and nothing is measured for it."""

import os

import pytest
from workflow_project import ROOT, Project


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, study=ROOT / "tests/config/five.yaml")


@pytest.mark.parametrize("measured", [["cosmoflow_mini"], ["cosmoflow_mini", "resnet50_mini"]], ids=["one", "two"])
def test_benchmarks_without_a_record_are_left_out(project, measured):
    for benchmark in measured:
        record = project.directory / f"results/runs/{benchmark}/fp32/n1x1/r1/record.json"
        record.parent.mkdir(parents=True)
        record.touch()
    counts = project.dry_run("report", config=["measure=false"])
    assert counts.get("write_document", 0) == len({"resnet50_mini"} & set(measured))
    assert not {"train", "profile_run", "prepare_data", "pack_data", "measure_ceiling", "count_work"} & set(counts)
    assert counts["report"] == 1


def test_scales_are_predicted_again_from_the_runs_that_are_there(project):
    record = project.directory / "results/runs/cosmoflow_mini/fp32/n1x1/r1/record.json"
    record.parent.mkdir(parents=True)
    record.touch()
    table = project.directory / "results/tables/scale_cases.parquet"
    for _ in ("no table", "an old table"):
        counts = project.dry_run(str(table.relative_to(project.directory)), config=["measure=false"])
        assert counts["predict_scales"] == 1
        table.parent.mkdir(exist_ok=True)
        for file in (table, table.with_suffix(".csv")):
            file.touch()
            os.utime(file, (1e9, 1e9))


@pytest.mark.parametrize(("measured", "shown"), [("convolution2d", {"show_kernel_errors"}), (None, set())])
def test_kernels_that_were_not_measured_are_not_shown(tmp_path, measured, shown):
    """`predict` writes their tables, without a row, because the predictions of the study read them."""
    project = Project(tmp_path)
    tables = ("kernel_accuracy", "kernel_errors", "kernel_goals", "hpl_rates", "hpl_validation", "hpl_parts")
    files = [f"results/tables/{name}.{kind}" for name in tables for kind in ("csv", "parquet")]
    files += ["results/runs/cosmoflow_mini/fp32/n1x1/r1/record.json", "results/predict/box/regressors.json"]
    files += [f"results/predict/box/{measured}/times.parquet"] if measured else []
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    counts = project.dry_run("report", config=["measure=false"])
    assert {"show_kernel_errors", "show_hpl_validation"} & set(counts) == shown
    assert counts["report"] == 1


def test_a_script_that_fails_ends_the_workflow_badly(tmp_path):
    """Such scripts do not start Python anew in the tests (tests/warm_snakemake.py): their exit status must count."""
    project = Project(tmp_path)
    record = tmp_path / "results/runs/cosmoflow_mini/fp32/n1x1/r1/record.json"
    record.parent.mkdir(parents=True)
    record.write_text("{}")
    done = project.snakemake("results/tables/runs.csv", config=["measure=false"])
    assert done.returncode == 1, done.stdout
    assert "Error in rule collect_runs" in done.stdout
    assert str(record.relative_to(tmp_path)) in (tmp_path / "logs/collect_runs.log").read_text()
    assert not (tmp_path / "results/tables/runs.csv").exists()
