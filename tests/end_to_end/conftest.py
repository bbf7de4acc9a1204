"""One measured study of all five benchmarks, and what analyses it: nothing is measured twice.

Tests that change something of a study put it back.
"""

import shutil

import pytest
from end_to_end.studies import BENCHMARKS, CEILINGS, PROFILED, captures_of, copy_project, take_over
from workflow_project import ROOT, SHORT_MEASUREMENTS, Project


@pytest.fixture(scope="session")
def measured(tmp_path_factory):
    """The study of all five with a weak-scaling group; its output is what Snakemake said while it measured."""
    study = ROOT / "tests/config/five.yaml"
    project = Project(tmp_path_factory.mktemp("five"), study=study, environment=SHORT_MEASUREMENTS)
    characterise = [f"results/characterise/{name}.json" for name in CEILINGS]
    characterise += [f"results/characterise/work/{name}_mini.json" for name in BENCHMARKS]
    done = project.snakemake("measure", *characterise, *captures_of(PROFILED), cold=True)
    assert done.returncode == 0, done.stdout
    project.output = done.stdout
    return project


@pytest.fixture(scope="session")
def five_study(measured):
    """The report of the study of all five, made without measuring: of the profiles that are there."""
    done = measured.snakemake("report", config=["measure=false"])
    assert done.returncode == 0, done.stdout
    return measured


@pytest.fixture(scope="session")
def tiny_study(measured, tmp_path_factory):
    """The finished tiny study, made by a copy of the project from what the study of all five measured for it."""
    folder = tmp_path_factory.mktemp("study")
    copy_project(folder / "project")
    shutil.copytree(ROOT / "tests/config", folder / "config")
    take_over(measured.directory, folder)
    project = Project(folder, root=folder / "project", study=folder / "config/tiny.yaml")
    done = project.snakemake("all")
    assert done.returncode == 0, done.stdout
    project.output = done.stdout
    return project
