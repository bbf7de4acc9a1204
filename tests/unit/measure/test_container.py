"""Ranks in an image, tried with a program that takes Apptainer's words, checks them and executes what is inside."""

import json
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from hpcai.config.machine import Software
from hpcai.core.errors import LaunchError
from hpcai.launchers.ranks import Ranks
from hpcai.launchers.registry import launch_command
from hpcai.measure.container import computing_software, contained

SOURCES = Path(__file__).parents[3] / "src"
APPTAINER = """\
#!{python}
import json, os, subprocess, sys
if sys.argv[1:] == ["--version"]:
    print("apptainer version 0 of a test")
    sys.exit()
words, options, binds = sys.argv[2:], [], []
while words[0].startswith("--"):
    option = words.pop(0)
    options.append(option)
    if option in ("--bind", "--pwd"):
        value = words.pop(0)
        if not os.path.isdir(value):
            sys.exit(f"FATAL: {{value}} does not exist")
        if option == "--bind":
            binds.append(value)
        else:
            os.chdir(value)
image, *program = words
if sys.argv[1] != "exec" or not os.path.exists(image):
    sys.exit(f"FATAL: could not open image {{image}}")
with open({seen!r}, "a") as file:
    print(json.dumps([image, options, binds, program]), file=file)
sys.exit(subprocess.run(program, env={{**os.environ, "PATH": {inside!r}, "APPTAINER_CONTAINER": image}}).returncode)
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site with an image, whose Python is this one under another name, and a program that runs it."""
    inside, programs = tmp_path / "inside", tmp_path / "bin"
    for folder in (inside, programs):
        folder.mkdir()
    (inside / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    text = APPTAINER.format(python=sys.executable, seen=str(tmp_path / "seen"), inside=f"{inside}:/usr/bin:/bin")
    (programs / "apptainer").write_text(text)
    for file in (inside / "python", programs / "apptainer"):
        file.chmod(0o755)
    (tmp_path / "hpcai.sif").write_bytes(
        b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\x0001\x0002\0" + bytes(range(16))
    )
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("SITE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


SOFTWARE = Software(container="${SITE}/hpcai.sif", container_options=("--nv",))
RANK = [sys.executable, "-c", "import os, sys, hpcai; print(os.getcwd(), os.environ['HOROVOD_RANK'], hpcai.__file__)"]


@pytest.mark.parametrize("software", [None, Software(modules=("gcc",))])
def test_without_an_image_the_program_is_as_it_was(software):
    assert contained(RANK, software) == RANK


def test_a_rank_runs_inside_with_its_folders_and_variables(site, monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "3")
    (site / "data").mkdir()
    command = contained(RANK, SOFTWARE, [site / "data", Path("/usr/share/yet/to/be/made")])
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(site), "3", str(SOURCES / "hpcai/__init__.py")]
    image, options, binds, program = json.loads((site / "seen").read_text())
    assert image == str(site / "hpcai.sif")
    assert options[-1] == "--nv"
    assert {str(site), "/usr/share", str(SOURCES.parent)} == set(binds)
    assert "python" in program
    assert sys.executable not in program


def test_each_rank_of_a_launcher_is_inside_and_the_launcher_outside(site):
    (site / "bin/mpirun").write_text("#!/bin/sh\n")
    (site / "bin/mpirun").chmod(0o755)
    command = launch_command("mpirun", Ranks("x", 1, 2, 1), contained(RANK, SOFTWARE))
    assert command.index(str(site / "bin/mpirun")) < command.index(str(site / "bin/apptainer"))
    assert command.count(str(site / "bin/apptainer")) == 1


def test_what_a_tool_puts_before_a_rank_is_inside_as_well(site):
    wrapped = contained([sys.executable, "-m", "hpcai.training.first_rank", "nsys", "--", *RANK], SOFTWARE)
    assert sys.executable not in wrapped
    assert wrapped.count("python") == 2


def test_versions_are_those_of_the_image(site):
    (site / "inside/python").write_text('#!/bin/sh\necho \'{"python": "3.11.99", "tensorflow": "2.18.1"}\'\n')
    facts = computing_software(SOFTWARE)
    assert facts["python"] == "3.11.99"
    assert "tensorflow-cpu" not in facts
    assert facts["container"] == str(site / "hpcai.sif")
    assert facts["container_runtime"] == "apptainer version 0 of a test"
    assert UUID(facts["container_id"]).bytes == bytes(range(16))


def test_the_image_is_asked_with_this_library(site):
    assert computing_software(SOFTWARE)["python"] == ".".join(map(str, sys.version_info[:3]))


def test_an_image_that_does_not_answer_gives_a_reason_and_no_version(site):
    (site / "inside/python").write_text("#!/bin/sh\necho 'no module named hpcai' >&2\nexit 1\n")
    facts = computing_software(SOFTWARE)
    assert facts["container_software"].endswith("no module named hpcai")
    assert "python" not in facts


def test_an_unpacked_image_has_no_number(site):
    (site / "unpacked").mkdir()
    assert "container_id" not in computing_software(Software(container=str(site / "unpacked")))


def test_without_an_image_the_versions_are_those_of_this_environment():
    facts = computing_software(None)
    assert "tensorflow-cpu" in facts
    assert "container" not in facts


@pytest.mark.parametrize(
    ("software", "words"),
    [
        (
            Software(container="/nowhere/x.sif"),
            r"container: found no /nowhere/x.sif.*build /nowhere/x.sif envs/hpcai.def",
        ),
        (Software(container="${NOT_SET_HERE}/x.sif"), r"NOT_SET_HERE.*variable that is not set"),
        (Software(container="hpcai.sif", container_command="singularity"), r"no program singularity on the PATH"),
        (Software(container="hpcai.sif", container_options=("--bind", "${NOT_SET_HERE}")), r"NOT_SET_HERE"),
    ],
)
def test_what_is_not_there_is_named(site, software, words):
    with pytest.raises(LaunchError, match=words):
        contained(RANK, software)
