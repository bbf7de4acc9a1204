"""The workflow as a module of another one: from a folder that holds nothing but a Snakefile of a few lines."""

import json
import os
import shutil

import pytest
import yaml
from workflow_project import ROOT, call_snakemake, edit_yaml

from hpcai.setup.command import init

MODULE = f"""
module hpcai:
    snakefile: "{ROOT}/workflow/Snakefile"
    config: config

use rule * from hpcai
"""
OWN_STUDY = """
configfile: "config/tiny.yaml"
config.setdefault("config_dir", "config")
"""
OWN_RULE = """
rule summarise:
    output: "own/summary.txt"
    shell: "touch {output}"
"""


class Folder:
    """A folder with a Snakefile of its own."""

    def __init__(self, path, snakefile):
        self.path = path
        (path / "Snakefile").write_text(snakefile)

    def snakemake(self, *arguments, **variables):
        # The folder of the checkout is no longer the working directory: what is found, is found from here.
        place = ["--snakefile", self.path / "Snakefile", "--directory", self.path, "--cores", "2"]
        return call_snakemake(*arguments, *place, environment={**os.environ, **variables})


@pytest.fixture
def with_study(tmp_path):
    shutil.copytree(ROOT / "tests/config", tmp_path / "config")
    return Folder(tmp_path, OWN_STUDY + MODULE + OWN_RULE)


def test_an_empty_folder_plans_the_default_study(tmp_path):
    done = Folder(tmp_path, MODULE).snakemake("--dry-run")
    assert done.returncode == 0, done.stdout
    for entry in ("Snakefile", "workflow/Snakefile"):
        there = call_snakemake("--dry-run", "--snakefile", ROOT / entry, "--directory", tmp_path, "--cores", "2")
        assert stats(done.stdout) == stats(there.stdout)
    assert int(stats(done.stdout)["train"]) > 20


@pytest.mark.parametrize("entry", ["Snakefile", "workflow/Snakefile"])
def test_lint(tmp_path, entry):
    done = call_snakemake("--lint", "--snakefile", ROOT / entry, "--directory", tmp_path)
    assert done.returncode == 0, done.stdout


def test_settings_of_the_command_line_reach_the_default_study(tmp_path):
    done = Folder(tmp_path, MODULE).snakemake("--dry-run", "--config", "seed=0")
    assert "seed: found 0" in done.stdout
    assert "Traceback" not in done.stdout


def test_data_are_made_and_a_table_is_written_there(with_study, tmp_path):
    """One rule with a script that reads no file of the checkout, and one that reads machines and library of it."""
    files = ["data/cosmoflow_mini/manifest.json", "results/tables/hpl_published.csv", "own/summary.txt"]
    done = with_study.snakemake(*files)
    assert done.returncode == 0, done.stdout
    for file in files:
        assert (tmp_path / file).exists()
    assert (tmp_path / "results/campaign.json").exists(), "what is done at the start is done in a module as well"
    again = with_study.snakemake("--dry-run", *files)
    assert "Nothing to be done" in again.stdout, again.stdout


def test_rules_of_the_folder_are_not_made_local(with_study, tmp_path):
    journal = tmp_path / "journal.jsonl"
    done = with_study.snakemake("--dry-run", "own/summary.txt", "data", HPCAI_JOURNAL=str(journal))
    assert done.returncode == 0, done.stdout
    first = journal.read_text().splitlines()[0]
    assert '"summarise"' not in first.partition('"here"')[2]
    assert '"write_study"' in first.partition('"here"')[2]


def test_a_study_that_is_not_valid_is_named(with_study):
    edit_yaml(with_study.path / "config/tiny.yaml", seed=0)
    done = with_study.snakemake("--dry-run")
    assert done.returncode != 0
    assert "seed: found 0" in done.stdout


@pytest.mark.parametrize(("name", "run_s"), [("", 900), ("large", 3600)])
def test_a_second_study_takes_nothing_from_that_of_a_new_folder(tmp_path, name, run_s):
    folder = tmp_path / "new"
    init(folder)
    first = yaml.safe_load((folder / "config/study.yaml").read_text())
    second = {key: value for key, value in first.items() if key != "limits"}
    (folder / "config/large.yaml").write_text(yaml.safe_dump({**second, "name": "large"}))
    asked = ["--configfile", folder / f"config/{name}.yaml"] if name else []
    place = ["--snakefile", folder / "Snakefile", "--directory", folder, "--cores", "2"]
    done = call_snakemake("results/study.json", *place, *asked)
    assert done.returncode == 0, done.stdout
    written = json.loads((folder / "results/study.json").read_text())
    assert (written["name"], written["limits"]["run_s"]) == (name or first["name"], run_s)


def stats(text):
    """How often each rule would run."""
    lines = text.splitlines()
    table = lines[lines.index("Job stats:") + 3 :]
    return dict(line.split() for line in table[: table.index("")])
