"""What tells others who made this, and under which terms: one version, one licence, in every file that names them."""

import json
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_one_version():
    told = subprocess.run(["hpcai", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    assert told == metadata.version("hpcai") == PROJECT["version"] == CITATION["version"]


def test_one_licence():
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert PROJECT["license"]["text"] == CITATION["license"] == "Apache-2.0"


def test_citation_has_what_the_format_demands():
    """Citation File Format 1.2.0; the file was also checked by cffconvert 2.0."""
    assert {"cff-version", "message", "title", "authors"} <= CITATION.keys()
    assert CITATION["cff-version"] == "1.2.0"
    assert json.dumps(CITATION)  # no dates or other types that the format does not know


def test_cleaning_leaves_every_measurement(tmp_path):
    measured = ("gpu.html", "gpu/raw/steps.json", "runs/a/record.json", "predict/box/hpl.json", "acceptance/history/x")
    made = ("report.html", "rounds.html", "tables/runs.csv", "scoring.json")
    for name in (*measured, *made):
        file = tmp_path / "results" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    subprocess.run(["make", "-f", ROOT / "Makefile", "clean"], cwd=tmp_path, check=True)
    left = {str(file.relative_to(tmp_path / "results")) for file in tmp_path.rglob("*") if file.is_file()}
    assert left == set(measured)


def test_hooks_run_what_lint_runs():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    lint = (ROOT / "Makefile").read_text().partition("\nlint:")[2].partition("\n\n")[0]
    assert {hook["id"].partition("-")[0] for hook in hooks} == {"ruff", "mypy", "snakefmt", "lint", "codespell"}
    assert all(hook["id"].replace("ruff-", "ruff ") in lint for hook in hooks)


def test_the_workflow_catalogue_finds_what_it_asks_for():
    """Its page on adding workflows, and the keys that its generator reads (snakemake/snakemake-workflow-catalog)."""
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage.keys() == {"mandatory-flags", "software-stack-deployment", "report"}
    assert usage["mandatory-flags"].keys() == {"desc", "flags"}
    assert isinstance(usage["mandatory-flags"]["flags"], list)
    ways = usage["software-stack-deployment"]
    assert ways.keys() == {"conda", "apptainer", "apptainer+conda"}
    assert all(isinstance(way, bool) for way in (*ways.values(), usage["report"]))
    assert any(ways.values())
    assert (ROOT / "workflow/Snakefile").is_file()
    assert list((ROOT / "workflow/rules").glob("*.smk"))
    assert {"snakemake", "workflow"} <= set(re.findall(r"[a-z]+", (ROOT / "README.md").read_text().lower()))


def test_the_page_on_the_configuration_names_every_kind_of_file():
    """The catalogue shows it beside the workflow."""
    page = (ROOT / "config/README.md").read_text()
    files = [path.relative_to(ROOT / "config") for path in (ROOT / "config").rglob("*.*") if path.name != "README.md"]
    assert files
    assert [file for file in files if f"`{file if len(file.parts) == 1 else file.parts[0]}" not in page] == []
