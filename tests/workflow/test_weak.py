"""Weak-scaling groups in the workflow: one job for each, after the plans of its instances."""

import shutil

import pytest
from unit.refusals import told
from workflow_project import ROOT

from hpcai.config.load import TOO_MANY_INSTANCES

HEADER = (ROOT / "tests/config/runs/weak.tsv").read_text().splitlines()[0]


@pytest.fixture
def weak(project, tmp_path):
    shutil.copytree(ROOT / "tests/config", tmp_path / "config")
    rows = ["cosmoflow_mini\tfp32\t1\t1\t2\tfp32\tnone\t", "cosmoflow_mini\talone\t1\t1\t1\tfp32\tnone\t"]
    (tmp_path / "config/runs/weak.tsv").write_text("\n".join([HEADER, *rows]) + "\n")
    project.study = tmp_path / "config/weak.yaml"
    return project


def test_job_counts_follow_the_table_of_groups(weak):
    counts = weak.dry_run("measure")
    assert (counts["train"], counts["train_together"]) == (3, 2)
    assert counts["prepare_data"] == counts["pack_data"] == 1  # runs and groups share their data


def test_one_group_needs_its_instances_alone(weak):
    counts = weak.dry_run("results/weak/cosmoflow_mini/fp32/n1x1/group.json")
    assert counts["train_together"] == 1
    assert "train" not in counts


def test_groups_belong_to_a_whole_study_and_to_no_table_of_runs(weak):
    assert weak.dry_run("all")["train_together"] == 2
    assert "train_together" not in weak.dry_run("results/tables/runs.csv")


def test_a_study_without_groups_has_none(project):
    assert "train_together" not in project.dry_run("all")


def test_too_many_instances_stop_before_any_job(weak):
    table = weak.study.parent / "runs/weak.tsv"
    table.write_text(f"{HEADER}\ncosmoflow_mini\tfp32\t1\t1\t3\tfp32\tnone\t\n")
    done = weak.snakemake("--dry-run", "measure")
    assert done.returncode != 0
    assert "weak.tsv: line 2: instances: found 3" in done.stdout
    assert told(done.stdout, TOO_MANY_INSTANCES)["most"] == "2"
    assert "Traceback" not in done.stdout
