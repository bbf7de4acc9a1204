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
