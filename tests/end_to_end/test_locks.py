"""Environments from the other lock files train, with the losses of the environment that runs the tests.

Each is made here by envs/install.py, in a temporary folder that is removed at the end; Horovod's wheel is kept where
every set-up keeps it.
"""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from end_to_end.rank_runs import Run, prepared
from end_to_end.test_engines import STEPS, plan
from workflow_project import ROOT

from hpcai.launchers.registry import launcher_of
from hpcai.records.files import read_record

SET_UP_LIMIT_S = 5400
CUDA_ROOM_BYTES = 12 * 2**30
NEWEST_TOLERANCE = 1e-4
"""Kernels of another TensorFlow sum in another order."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(SET_UP_LIMIT_S)]


@contextmanager
def environment(folder: Path, *options: str, path: str | None = None):
    """Make an environment and yield its Python; it is removed, since it may be of some GB."""
    venv = folder / "venv"
    command = [shutil.which("python3.11"), str(ROOT / "envs/install.py"), str(venv), *options]
    variables = {**os.environ, "PATH": path or os.environ["PATH"]}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
        assert done.returncode == 0, done.stdout + done.stderr
        yield str(venv / "bin/python"), done.stdout
    finally:
        shutil.rmtree(venv, ignore_errors=True)


def versions(python: str) -> str:
    program = "import keras, tensorflow; print(tensorflow.__version__, keras.__version__)"
    return subprocess.check_output([python, "-c", program], text=True, stderr=subprocess.DEVNULL)


def runs(folder: Path, python: str, engine: str) -> list[Run]:
    """Train two ranks with this environment and with the other one, on the same data."""
    data = prepared(plan("cosmoflow_mini", engine, 1), folder)
    two = plan("cosmoflow_mini", engine, 2)
    made = [replace(data, python=one).run(name, two) for name, one in (("here", sys.executable), ("there", python))]
    for run in made:
        assert run.exit_status == 0, run.output
        assert len(run.losses) == STEPS
    return made


def test_the_newest_tensorflow_trains_without_horovod(tmp_path):
    with environment(tmp_path, "--lock", "newest") as (python, said):
        assert "no Horovod" in said
        assert versions(python) != versions(sys.executable)
        here, there = runs(tmp_path, python, "tensorflow")
    np.testing.assert_allclose(there.losses, here.losses, rtol=NEWEST_TOLERANCE)
    assert there.rank(0).weights_sha256 == there.rank(1).weights_sha256


def path_without(folder: Path, *programs: str) -> str:
    """Return a PATH on which these programs are not found, but everything else is."""
    places = os.environ["PATH"].split(os.pathsep)
    for number, place in enumerate(places):
        if any(Path(place, program).exists() for program in programs):
            shown = folder / f"programs{number}"
            shown.mkdir()
            for program in Path(place).iterdir():
                if program.name not in programs:
                    (shown / program.name).symlink_to(program)
            places[number] = str(shown)
    return os.pathsep.join(places)


def test_a_site_without_compiler_and_mpi_gets_to_a_first_result(tmp_path):
    path, study = path_without(tmp_path, "g++", "make", "mpicxx", "mpirun"), ROOT / "tests/config/tiny.yaml"
    with environment(tmp_path, path=path) as (python, said):
        assert "g++ is needed to compile Horovod" in said
        own, here = Path(python).parent, str(Path(sys.executable).parent)
        bare = os.pathsep.join([str(own), *(place for place in path.split(os.pathsep) if place != here)])
        result = "results/runs/cosmoflow_mini/fp32/n1x2/r1/record.json"
        command = [own / "hpcai", "run", result, "--snakefile", ROOT / "Snakefile", "-d", tmp_path / "here"]
        command += ["--configfile", study, "--config", f"config_dir={study.parent}"]
        variables = {**os.environ, "PATH": bare}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=variables)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "engine tensorflow" in done.stdout.splitlines()[0]
        record = read_record(tmp_path / "here" / result)
    assert record.outcome == "converged"
    assert (record.plan.point.engine, launcher_of(record)) == ("tensorflow", "spawn")
    assert "horovod" not in record.provenance.software


def test_cuda_and_nccl_from_wheels_alone(tmp_path, monkeypatch):
    if shutil.disk_usage(tmp_path).free < CUDA_ROOM_BYTES:
        pytest.skip(f"less than {CUDA_ROOM_BYTES / 2**30:g} GiB free in {tmp_path}: the environment has seven")
    monkeypatch.delenv("HOROVOD_CUDA_HOME", raising=False)
    with environment(tmp_path, "--device", "cuda", path=path_without(tmp_path, "nvcc")) as (python, said):
        assert "with NCCL" in said, said
        asked = "import horovod.tensorflow as hvd; print(hvd.nccl_built(), hvd.gloo_built())"
        built = subprocess.check_output([python, "-c", asked], text=True, stderr=subprocess.DEVNULL).split()
        assert int(built[0]) >= 22000, "NCCL 2.20 or later"
        assert built[1] == "True"
        here, there = runs(tmp_path, python, "horovod")
    np.testing.assert_array_equal(there.losses, here.losses)
