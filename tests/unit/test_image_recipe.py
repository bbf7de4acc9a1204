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
    assert {"requirements.lock", "pyproject.toml", "envs", "src", "README.md"} == set(COPIED)


def test_the_set_up_script_makes_the_environment_that_is_on_the_path():
    script = re.search(r"^ *python3\.11 /opt/hpcai/(\S+) (\S+)$", POST, flags=re.MULTILINE)
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


@pytest.mark.parametrize("tensorflow", ["cpu", "gpu"])
def test_the_commands_are_a_script(tensorflow):
    assert re.findall(r"{{ *(\w+) *}}", RECIPE) == ["tensorflow"]
    assert SECTIONS["arguments"].split() == ["tensorflow=cpu"]
    script = POST.replace("{{ tensorflow }}", tensorflow)
    assert "{{" not in script
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_the_accelerators_variant_takes_its_versions_from_the_lock(tmp_path):
    line = re.search(r"^ *(sed -n .*) requirements\.lock > /tmp/pins\.txt$", POST, flags=re.MULTILINE)[1]
    pins = subprocess.check_output(["sh", "-c", f"{line} requirements.lock"], cwd=ROOT, text=True).splitlines()
    locked = re.findall(r"^([A-Za-z0-9._-]+==[^\s;\\]+)", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
    assert pins == locked
    (tmp_path / "pins.txt").write_text("\n".join(pins))
    for name, command in {
        "tensorflow": r"s/^tensorflow-cpu==//p",
        "horovod": r"/^horovod==/p",
    }.items():
        assert command in POST
        found = subprocess.check_output(["sed", "-n", command, str(tmp_path / "pins.txt")], text=True).split()
        assert len(found) == 1, name
    assert not re.search(r"\d+\.\d+\.\d+", POST.replace("1.1-1", "")), "a version that the lock does not know"


def test_what_is_not_pinned_is_said():
    head = RECIPE[: RECIPE.index("Bootstrap")]
    assert "Not pinned" in head
    assert "tensorflow=gpu" in head
