"""Lock file, pyproject.toml and envs/ say the same; the set-up script's checks speak plainly."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "envs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PINS = load("conda").pins()


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_direct_need_is_locked():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [*project["dependencies"], *(need for extra in project["optional-dependencies"].values() for need in extra)]
    pins = {canonical(name): version for name, version in PINS.items()}
    for need in map(Requirement, needs):
        assert need.specifier.contains(pins[canonical(need.name)]), f"{need} is not met by the lock: run `make lock`"


def test_every_locked_package_has_hashes_and_no_address():
    blocks = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(PINS) > 100
    assert all("--hash=sha256:" in block for block in blocks)
    assert not re.search(r"https?:|--index|--find-links|file:", LOCK)


def test_conda_environment_is_in_step():
    environment = yaml.safe_load((ROOT / "envs/hpcai.yaml").read_text())
    listed = dict(pin.split("==") for pin in environment["dependencies"][-1]["pip"])
    assert {**listed, "horovod": PINS["horovod"]} == PINS, "run `python3.11 envs/conda.py` and commit the result"
    assert f"horovod=={PINS['horovod']}" in (ROOT / "envs/hpcai.post-deploy.sh").read_text()


def test_what_runs_is_what_is_locked():
    installed = {canonical(found.name): found.version for found in metadata.distributions()}
    assert {name: installed.get(canonical(name)) for name in PINS} == PINS


def test_lock_is_split_into_wheels_and_sources():
    wheels, source = load("install").split_lock(LOCK)
    assert sorted(re.findall(r"^(\S+)==", source, flags=re.MULTILINE)) == ["connection-pool", "horovod"]
    assert "horovod==" not in wheels
    assert len(wheels) + len(source) == len(LOCK)


@pytest.mark.parametrize(("program", "package"), [("g++", "g++"), ("make", "make")])
def test_a_missing_compiler_gives_one_sentence(program, package, monkeypatch):
    install = load("install")
    monkeypatch.setattr(install.shutil, "which", lambda name: None if name == program else f"/usr/bin/{name}")
    with pytest.raises(SystemExit, match=re.escape(f"{program} is needed")) as caught:
        install.check_machine()
    assert package in str(caught.value)


def test_a_wrong_python_gives_one_sentence(monkeypatch):
    install = load("install")
    monkeypatch.setattr(install, "PYTHON", (3, 99))
    with pytest.raises(SystemExit, match=r"Python 3.11 is needed, this is 3\.11\."):
        install.check_machine()


def test_a_second_call_builds_nothing():
    prefix, install = Path(sys.prefix), load("install")
    if not (prefix / install.PACKAGES).exists():
        pytest.skip(f"{prefix} was not made by envs/install.py")
    # Never from within a test: the call would make the environment anew that the test runs in.
    assert install.is_current(prefix, install.PACKAGES), "call `make env` first: the lock file has changed"
    command = ["python3.11", str(ROOT / "envs/install.py"), str(prefix)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("is up to date")
