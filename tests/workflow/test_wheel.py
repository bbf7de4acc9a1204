"""The wheel in an empty environment: all that reads, judges and predicts is there, without what trains or schedules."""

import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from unit.compare.study_folders import make_runs, write_study
from unit.mlperf_hpc.analysis.test_prediction_command import SCALES, write_systems
from unit.record_factory import make_plan
from workflow_project import ROOT

from hpcai.config.plan_file import write_plan
from hpcai.core.extras import EXTRA_OF
from hpcai.parsers.xspace import xspace_class

BUILT_FROM = ("src", "reports", "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE")
NO_INDEX = re.compile(r"Failed to fetch|Could not connect|dns error|error sending request|network connectivity")
OSU = """
# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_FLOAT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
4                       1.09              1.07              1.11        1000
8                       1.12              1.10              1.14        1000
"""
HPL = [
    *["hpl", "--order", "125000", "--block", "256", "--gpus-per-node", "4", "--gpu-rate", "6.6 TFLOP/s"],
    *["--cpu-rate", "2.6624 TFLOP/s", "--host-link", "paper_Gen3", "--sweep", "block=128,256"],
]
TRAINING = ["training", "--network", "resnet50", "--data", "imagenet", "--preset", "hypothetical"]


class Installed:
    """An environment with the wheel alone, and how its programs are called: nothing else is on the PATH."""

    def __init__(self, folder):
        self.bin = folder / "bin"

    def call(self, *words):
        """Call a program of the environment; return the finished process."""
        return run(self.bin / words[0], *words[1:], PATH=str(self.bin))

    def same_as_here(self, *words):
        """Require a program to say what it says in this environment, which has everything; return what it says."""
        there, here = self.call(*words), run(Path(sys.executable).with_name(words[0]), *words[1:])
        assert (there.returncode, there.stdout, there.stderr) == (here.returncode, here.stdout, here.stderr)
        return there.stdout


def run(*command, **variables):
    words = [str(word) for word in command]
    environment = {**os.environ, **variables}
    environment.pop("PYTHONPATH", None)
    # Where it is set, as in many images, each call would compile all that it imports, as after no installation by pip.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


def uv(*words):
    """Call uv with the index that pip uses here."""
    index = run(sys.executable, "-m", "pip", "config", "get", "global.index-url").stdout.strip()
    return run(Path(sys.executable).with_name("uv"), *words, **({"UV_DEFAULT_INDEX": index} if index else {}))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout: of a copy, because setuptools keeps in build/ what is no longer in the tree."""
    folder = tmp_path_factory.mktemp("wheel")
    (folder / "tree").mkdir()
    for name in BUILT_FROM:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, folder / "tree" / name)
    words = ["wheel", "-q", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, folder / "tree"]
    done = run(sys.executable, "-m", "pip", *words)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("empty") / "env"
    assert uv("venv", "-q", "--python", sys.executable, folder).returncode == 0
    words = ["pip", "install", "-q", "--python", folder / "bin/python", "-c", ROOT / "requirements.lock", wheel]
    started = time.monotonic()
    done = uv(*words)
    if done.returncode and NO_INDEX.search(done.stderr):
        pytest.skip(f"no package index can be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    print(f"installed in {time.monotonic() - started:.1f} s")
    return Installed(folder)


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("v2.0")
    write_systems(folder, SCALES)
    return folder


def test_every_file_is_in_the_wheel(wheel):
    source = ROOT / "src"
    files = {str(path.relative_to(source)) for path in (source / "hpcai").rglob("*") if path.is_file()}
    assert {file for file in files if "__pycache__" not in file} <= set(zipfile.ZipFile(wheel).namelist())


def test_nothing_of_an_extra_is_there(installed):
    asked = f"from importlib.util import find_spec; print(*(name for name in {list(EXTRA_OF)} if find_spec(name)))"
    assert installed.call("python", "-c", asked).stdout.split() == []


def test_it_answers_like_the_checkout(installed):
    assert installed.same_as_here("hpcai", "--version").startswith("HPC-AI Bench ")
    assert "MLPerf HPC" in installed.same_as_here("hpcai", "rules")
    assert "published" in installed.same_as_here("hpcai", "schema")


@pytest.mark.slow
def test_readers(installed, tmp_path):
    (tmp_path / "osu.txt").write_text(OSU)
    assert len(installed.same_as_here("hpcai", "read", tmp_path / "osu.txt").splitlines()) == 3
    trace = xspace_class()()
    plane = trace.planes.add(name="/host:CPU")
    plane.event_metadata.add(key=1, value={"name": "product:MatMul"})
    plane.lines.add(id=1, timestamp_ns=5).events.add(metadata_id=1, offset_ps=1000, duration_ps=2000)
    window = trace.planes.add(name="Task Environment")
    for number, (name, time_ns) in enumerate({"profile_start_time": 1, "profile_stop_time": 2_000}.items(), start=1):
        window.stat_metadata.add(key=number, value={"name": name})
        window.stats.add(metadata_id=number, uint64_value=time_ns)
    (tmp_path / "steps.xplane.pb").write_bytes(trace.SerializeToString())
    assert "MatMul" in installed.same_as_here("hpcai", "read", tmp_path / "steps.xplane.pb")


@pytest.mark.slow
def test_published_rounds(installed, rounds, tmp_path):
    assert "does not comply" in installed.same_as_here("hpcai", "mlperf", "check", rounds)
    imported = installed.call("hpcai", "mlperf", "import", rounds, "--output", tmp_path / "there")
    assert imported.returncode == 0, imported.stderr
    run(Path(sys.executable).with_name("hpcai"), "mlperf", "import", rounds, "--output", tmp_path / "here")
    tables = sorted(path.relative_to(tmp_path / "here") for path in (tmp_path / "here/tables").glob("*.csv"))
    assert len(tables) > 5
    assert all((tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes() for name in tables)
    asked = ["--benchmark", "cosmoflow", "--system", "ORG/machine_64", "--units", "512"]
    assert "512 units" in installed.same_as_here("hpcai", "mlperf", "predict", rounds, *asked)


@pytest.mark.slow
def test_the_page_on_rounds(installed, rounds, tmp_path):
    """Templates, captions and definitions are in the wheel, and drawings are the same."""
    programs = {"there": installed.bin / "hpcai", "here": Path(sys.executable).with_name("hpcai")}
    assert run(programs["here"], "mlperf", "import", rounds, "--output", tmp_path / "imported").returncode == 0
    for place, program in programs.items():
        done = run(program, "mlperf", "page", tmp_path / "imported", "--output", tmp_path / place)
        assert done.returncode == 0, done.stderr
    page = (tmp_path / "there/rounds.html").read_text()
    assert page == (tmp_path / "here/rounds.html").read_text()
    assert page.count("<figure") >= 4
    assert "ORG/machine_64" in page


@pytest.mark.slow
def test_comparison(installed, tmp_path):
    base = write_study(tmp_path / "base", make_runs())
    new = write_study(tmp_path / "new", make_runs(factor=1.5, day=3))
    assert installed.same_as_here("hpcai", "compare", base, new)
    assert "regression" in installed.same_as_here("hpcai", "regress", base, new)


@pytest.mark.parametrize("words", [HPL, TRAINING], ids=lambda words: words[0])
def test_predictors(installed, words):
    assert "modelled" in installed.same_as_here("hpcai", "predict", *words)


def test_a_missing_extra_is_one_sentence(installed, tmp_path):
    plan = make_plan()
    write_plan(plan, tmp_path / "plan.json")
    data = ["--manifest", tmp_path / "manifest.json", "--launcher", "horovodrun", "--folder", tmp_path / "r1"]
    measured = ["measure", "--plan", tmp_path / "plan.json", *data]
    estimated = ["estimate", ROOT / "config/study.yaml"]
    for words, extra in ((measured, "train"), (["run", "-n"], "workflow"), (estimated, "data")):
        done = installed.call("hpcai", *words)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert f"pip install '.[{extra}]'" in done.stderr
    assert not (tmp_path / "r1").exists()
