"""The public validator accepts the crate, and refuses one that lacks what its profile demands.

The validator lives in an environment of its own. It asks w3id.org for the JSON-LD context of RO-Crate 1.1; here it gets
the later one that the package `rocrate` holds, with the one term of ours that has moved since (compared by hand with
the specification's file of 1.1), so that the test needs the package index alone.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from unit.report.test_research_object import make_crate

from hpcai.report.research_object import CRATE

PACKAGES = ("roc-validator==0.13.0", "rocrate==0.16.0")
NO_INDEX = re.compile(r"Could not find a version|No matching distribution|Connection|resolution")
DRIVER = """
import json, sys
from importlib.resources import files
import requests
from rdflib.plugins.shared.jsonld.context import Context
from rocrate_validator import models, services
from rocrate_validator.utils.http import HttpRequester

held = json.loads(files("rocrate").joinpath("data/ro-crate.jsonld").read_text())["@context"]
terms = {key: term for part in (held if isinstance(held, list) else [held]) for key, term in part.items()}
CONTEXT = {"@context": {**terms, "ComputationalWorkflow": "https://bioschemas.org/ComputationalWorkflow"}}
ADDRESS = "https://w3id.org/ro/crate/1.1/context"
fetch = Context._fetch_context

def fetch_here(self, source, base, known):
    return CONTEXT if source == ADDRESS else fetch(self, source, base, known)

def get_here(self, address, **options):
    assert address == ADDRESS, address
    answer = requests.Response()
    answer.status_code, answer.url = 200, address
    answer.headers["Content-Type"] = "application/ld+json"
    answer._content = json.dumps(CONTEXT).encode()
    return answer

Context._fetch_context, HttpRequester.get = fetch_here, get_here
settings = services.ValidationSettings(
    rocrate_uri=sys.argv[1], profile_identifier="provenance-run-crate", abort_on_first=False, no_cache=True,
    requirement_severity=models.Severity.REQUIRED,
)
for issue in services.validate(settings).get_issues():
    print(issue.check.identifier, issue.message)
print("judged")
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def validator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("validator")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    python = folder / "env/bin/python"
    done = subprocess.run(
        [str(python), "-m", "pip", "install", "-q", *PACKAGES], capture_output=True, text=True, check=False
    )
    if done.returncode and NO_INDEX.search(done.stderr):
        pytest.skip(f"no package index can be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    (folder / "validate.py").write_text(DRIVER)
    return folder


def judge(validator: Path, crate: Path) -> list[str]:
    """Return the required checks of the Provenance Run Crate profile that a crate fails."""
    command = [str(validator / "env/bin/python"), str(validator / "validate.py"), str(crate)]
    environment = {**os.environ, "HOME": str(validator)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=validator)
    assert done.returncode == 0, done.stdout + done.stderr
    *issues, last = done.stdout.splitlines()
    assert last == "judged", done.stdout
    return issues


def test_the_public_validator_accepts_the_crate(validator: Path, tmp_path: Path) -> None:
    make_crate(tmp_path, licence="CC-BY-4.0", submission={"org": "A Centre"})
    assert judge(validator, tmp_path / "results") == []


@pytest.mark.parametrize("lacking", ["mainEntity", "license", "conformsTo"])
def test_the_validator_refuses_a_crate_without(validator: Path, tmp_path: Path, lacking: str) -> None:
    make_crate(tmp_path)
    file = tmp_path / "results" / CRATE
    content = json.loads(file.read_text())
    next(one for one in content["@graph"] if one["@id"] == "./").pop(lacking)
    file.write_text(json.dumps(content))
    assert judge(validator, tmp_path / "results") != []
