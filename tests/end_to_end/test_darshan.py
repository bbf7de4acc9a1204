"""Darshan, where it is, and the kernel's counters of the ranks agree in the bytes that a training read.

Darshan's run-time library is in no package: `docs/how-to/characterise.md` says how to build it.
"""

from pathlib import Path

import pytest
import yaml
from end_to_end.rank_runs import prepared
from unit.training.training_plans import plan_of

from hpcai.data.stage_folder import every_stage
from hpcai.parsers.darshan.log import read_darshan_files
from hpcai.profiles.io import PROFILE
from hpcai.profiles.io.darshan_library import find_darshan

MINI = Path(__file__).resolve().parents[1] / "config/benchmarks"


@pytest.fixture(scope="module", autouse=True)
def library():
    """The library, which is searched for when these tests run and not whenever tests are collected."""
    found = find_darshan(None)
    if isinstance(found, str):
        pytest.skip(found)


@pytest.mark.parametrize(
    "benchmark", ["cosmoflow_mini", "resnet50_mini", "extreme_weather_mini", "deepcam_mini", "opencatalyst_mini"]
)
def test_darshan_and_the_kernel_count_the_same_bytes_within_2_percent(tmp_path, benchmark):
    settings = yaml.safe_load((MINI / f"{benchmark}.yaml").read_text())
    settings["recipe"]["max_epochs"] = 2
    settings["target"] = {"value": 0.99 if settings["workload"].startswith("image") else 1e-9}
    settings["data"]["train_samples"] *= 4  # the ranks read some kilobytes of /proc besides
    plan = plan_of(settings, 2)
    data = prepared(plan, tmp_path)
    run = data.run("watched", plan, instrument=PROFILE.find_instrument(plan))
    assert run.exit_status == 0, run.output
    logs = list(run.raw.rglob("*.darshan"))
    ranks = [run.rank(number) for number in (0, 1)]

    def seen_bytes(folder: Path, name: str) -> float:
        files = read_darshan_files(logs, str(folder)).table
        return files.loc[files["file"].str.fullmatch(name), "read_bytes"].sum()

    # The archives' index, which every rank reads as well, is no part of what staging counts.
    staged_bytes = sum(rank.staging_read_bytes for rank in ranks)
    assert seen_bytes(data.pack.parent, r".*\.tar\b.*") == pytest.approx(staged_bytes, rel=0.02)
    called_bytes = sum(rank.reads.called_bytes for rank in ranks)
    assert seen_bytes(every_stage(data.scratch("watched")), r".*") == pytest.approx(called_bytes, rel=0.02)
