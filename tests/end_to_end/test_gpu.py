"""The command `hpcai gpu`: refused without a GPU, and the whole path on the processor, labelled so."""

import subprocess
from pathlib import Path

import pandas as pd
import pytest
from unit.refusals import told

from hpcai.core.accelerators import find_accelerators
from hpcai.measure.gpu import NO_GPU


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["hpcai", "gpu", "--results", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(bool(find_accelerators()), reason="here is a GPU")
def test_without_a_gpu_one_line_says_so_and_nothing_starts(tmp_path):
    done = call(tmp_path / "results")
    assert done.returncode == 1
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    told(done.stderr, NO_GPU)
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_the_whole_path_on_the_processor(tmp_path):
    done = call(tmp_path, "--device", "cpu", "--tiny", "--engine", "tensorflow", "--seconds", "0.5")
    assert done.returncode == 0, done.stdout + done.stderr
    steps = pd.read_parquet(tmp_path / "gpu/tables/gpu_steps.parquet").set_index(["benchmark", "precision"])
    assert set(steps["device_kind"]) == {"cpu"}
    timed = steps[steps.index.get_level_values("precision") != "tf32"]
    numbers = ["rate_samples_per_s", "rate_flop_per_s", "gemm_rate_flop_per_s", "intensity_flop_per_byte", "roof_ratio"]
    assert (timed[numbers] > 0).all(axis=None)
    assert steps.drop(timed.index)["rate_samples_per_s"].isna().all()
    kernels = pd.read_parquet(tmp_path / "gpu/tables/gpu_kernels.parquet").dropna(subset=["share_ratio"])
    shares = kernels.groupby(["benchmark", "precision"])["share_ratio"].sum()
    assert shares.round(6).eq(1).all()
    assert set(shares.index) == set(timed.index)
    page = (tmp_path / "gpu.html").read_text()
    assert "This is a processor" in page
    assert "data:image/svg+xml" in page
