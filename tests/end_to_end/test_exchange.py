"""What ranks exchange in a step: one message, exact where it must be, so that two ranks take the step of one."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import yaml
from end_to_end.rank_runs import Prepared, Run, prepared
from unit.training.training_plans import plan_of
from workflow_project import ROOT

from hpcai.config.runs import RunPlan
from hpcai.metrics.profiles.communication import is_allreduce_transfer, merge_batches
from hpcai.parsers.horovod.timeline import read_timeline

STEPS = 6
WARM_UP = 1
BENCHMARK = yaml.safe_load((ROOT / "tests/config/benchmarks/opencatalyst_mini.yaml").read_text())
# Adsorbates of one and of two atoms: batches differ in their free atoms.
SLABS = {"metals": ["Cu"], "adsorbates": ["H", "CO"], "systems": 4}


def test_what_is_exchanged_is_the_mean_and_the_same_on_all_ranks() -> None:
    program = str(Path(__file__).with_name("exchange_program.py"))
    launcher = [sys.executable, "-m", "hpcai.training.launch", "-np", "3", "--gloo"]
    done = subprocess.run([*launcher, sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the same mean") == 3


@dataclass(frozen=True)
class Catalysts:
    """Graphs with different numbers of free atoms, and what a few steps on them left behind."""

    prepared: Prepared

    def run(self, name: str, ranks: int, **point: object) -> Run:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOROVOD_TIMELINE", str(self.prepared.folder / f"{name}.json"))
            run = self.prepared.run(name, plan(ranks, **point))
        assert run.exit_status == 0, run.output
        assert len(run.losses) == STEPS
        return run

    def messages(self, name: str) -> int:
        """Return the number of transfers between the ranks in the steps of a run."""
        spans = read_timeline(self.prepared.folder / f"{name}.json").table
        moved = spans[is_allreduce_transfer(spans["activity"])]
        return len(merge_batches(moved[moved["tensor"].astype(str).str.contains("gradient|numbers|loss|atoms")]))


def plan(ranks: int, **point: object) -> RunPlan:
    few = {"kind": "profiled", "max_steps": STEPS}
    data = {**BENCHMARK["data"], "slabs": SLABS}
    return plan_of(BENCHMARK, ranks, data=data, target={"value": 1e-6}, point=point, plan=few)


@pytest.fixture(scope="module")
def catalysts(tmp_path_factory: pytest.TempPathFactory) -> Catalysts:
    return Catalysts(prepared(plan(1), tmp_path_factory.mktemp("catalysts")))


@pytest.fixture(scope="module")
def alone(catalysts: Catalysts) -> Run:
    return catalysts.run("alone", 1)


@pytest.mark.parametrize(
    ("name", "point", "rounding"),
    [
        ("plain", {}, 1e-4),
        pytest.param("compressed", {"compression": "fp16"}, 1e-2, marks=pytest.mark.slow),
        pytest.param("accumulated", {"accumulation": 2}, 1e-4, marks=pytest.mark.slow),
    ],
)
def test_ranks_exchange_once_in_a_step_and_take_the_step_of_one_rank(
    catalysts: Catalysts, alone: Run, name: str, point: dict[str, object], rounding: float
) -> None:
    run = catalysts.run(name, 2, **point)
    assert run.rank(0).weights_sha256 == run.rank(1).weights_sha256
    assert run.losses[0] == pytest.approx(alone.losses[0], rel=1e-5)
    np.testing.assert_allclose(run.losses, alone.losses, rtol=rounding)
    assert catalysts.messages(name) == STEPS + WARM_UP
