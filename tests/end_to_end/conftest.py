"""One finished study for the tests that look at it and for those that take over what it measured of the machine."""

import shutil

import pytest
from workflow_project import ROOT, Project

PROJECT_FILES = ("Snakefile", "workflow", "src", "config", "profiles", "reports", "envs")


@pytest.fixture(scope="session")
def tiny_study(tmp_path_factory):
    """The finished tiny study, made by a copy of the project; tests that change something put it back."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "project").mkdir()
    for name in PROJECT_FILES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / "project" / name)
    shutil.copytree(ROOT / "tests/config", folder / "config")
    project = Project(folder, root=folder / "project", study=folder / "config/tiny.yaml")
    done = project.snakemake("all")
    assert done.returncode == 0, done.stdout
    project.output = done.stdout
    return project


@pytest.fixture(scope="session")
def machine_reports(tiny_study):
    """Reports of what the machine of all tests can do: ceilings, storage, links; no benchmark is in them."""
    return sorted((tiny_study.directory / "results/characterise").glob("*.json"))
