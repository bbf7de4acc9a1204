"""The recipe of the ranks' image is in step with the set-up script, the lock file and the checkout."""

import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "envs/hpcai.def").read_text()
SECTIONS = dict(re.findall(r"^%(\w+)\n((?:(?!^%).*\n?)*)", RECIPE, flags=re.MULTILINE))
POST = SECTIONS["post"]
COPIED = dict(line.split() for line in SECTIONS["files"].splitlines() if line.strip())


def test_sections():
    assert RECIPE.splitlines()[0].startswith("#")
    assert re.search(r"^Bootstrap: docker\nFrom: debian:12$", RECIPE, flags=re.MULTILINE)
    assert set(SECTIONS) == {"arguments", "files", "post", "environment", "test", "labels"}


def test_what_is_copied_is_there_and_keeps_its_place():
    assert {source: f"/opt/hpcai/{source}" for source in COPIED} == COPIED
    assert all((ROOT / source).exists() for source in COPIED)
    # What envs/install.py reads, and what the project's metadata name.
    assert {"requirements.lock", "requirements-cuda.lock", "pyproject.toml", "envs", "src", "README.md"} == set(COPIED)


def test_the_set_up_script_makes_the_environment_that_is_on_the_path():
    script = re.search(r"^ *python3\.11 /opt/hpcai/(\S+) (\S+) --device", POST, flags=re.MULTILINE)
    assert (ROOT / script[1]).is_file()
    assert f"export PATH={script[2]}/bin:$PATH" in SECTIONS["environment"]
    assert f"export PATH={script[2]}/bin:$PATH" in SECTIONS["test"]


def test_what_the_set_up_script_asks_of_the_machine_is_installed_before_it():
    packages = re.search(r"apt-get install -y --no-install-recommends ((?:.*\\\n)?.*)", POST)
    installed = set(packages[1].replace("\\", " ").split())
    assert packages.end() < POST.index("install.py")
    spec = importlib.util.spec_from_file_location("install", ROOT / "envs/install.py")
    install = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(install)
    version = ".".join(map(str, install.PYTHON))
    assert {f"python{version}", f"python{version}-venv", "g++", "make", "libopenmpi-dev", "libpmix2"} <= installed


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_commands_are_a_script_that_makes_one_environment(device):
    assert re.findall(r"{{ *(\w+) *}}", RECIPE) == ["device"]
    assert SECTIONS["arguments"].split() == ["device=cpu"]
    script = POST.replace("{{ device }}", device)
    assert "{{" not in script
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    call = re.search(r"install\.py (.*)$", script, flags=re.MULTILINE)[1].split()
    spec = importlib.util.spec_from_file_location("install", ROOT / "envs/install.py")
    install = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(install)
    asked = install.parse_arguments(call)
    assert (asked.lock, asked.horovod) == (device, "yes")
    # Built once, from what is pinned: nothing is installed or compiled besides.
    assert install.LOCKS[asked.lock] in COPIED
    assert not re.search(r"\bpip\b|https?:|wget|\d+\.\d+\.\d+", POST)


def test_what_is_not_pinned_is_said():
    head = RECIPE[: RECIPE.index("Bootstrap")]
    assert "Not pinned" in head
    assert "device=cuda" in head
