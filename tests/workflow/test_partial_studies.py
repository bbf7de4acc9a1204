"""The report of a study that was interrupted: of what is there, and nothing is measured for it."""

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
