"""One accelerator for each rank, on real ranks and pretended accelerators."""

import sys
from pathlib import Path

import pytest
from end_to_end.rank_runs import Prepared, Run, prepared
from unit.refusals import told
from unit.training.training_plans import MACHINE, make_plan

from hpcai.config.runs import RunPlan
from hpcai.training.accelerators import SHARED

UUIDS = tuple(f"GPU-{digit * 8}-0000-1111-2222-333333333333" for digit in "ab")
LINES = [f"GPU 0: one (UUID: {uuid})" for uuid in UUIDS]
FAKED = Path(__file__).with_name("faked_gpus.py")


def gpu_plan(engine: str, **device: object) -> RunPlan:
    machine = {**MACHINE, "accelerators_per_node": 2, "device": {"kind": "gpu", **device}}
    return make_plan(2, point={"engine": engine}, plan={"kind": "profiled", "max_steps": 1, "machine": machine})


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Prepared:
    return prepared(gpu_plan("tensorflow"), tmp_path_factory.mktemp("faked"))


def run(data: Prepared, name: str, plan: RunPlan, *ranks: tuple[str, ...]) -> Run:
    """Run two ranks, each with its CUDA_VISIBLE_DEVICES and the lines that nvidia-smi tells it."""
    layout = data.folder / f"layout_{name}"
    layout.mkdir()
    for number, lines in enumerate(ranks):
        (layout / str(number)).write_text("\n".join(lines))
    return data.run(name, plan, program=[str(FAKED), str(layout)])


@pytest.mark.parametrize("engine", ["tensorflow", pytest.param("horovod", marks=pytest.mark.slow)])
def test_ranks_that_see_one_accelerator_each_take_it(data, engine):
    ran = run(data, f"one_each_{engine}", gpu_plan(engine), *(("0", line) for line in LINES))
    assert ran.exit_status == 0, ran.output
    assert [ran.rank(rank).placement.accelerator_uuid for rank in (0, 1)] == list(UUIDS)
    assert [ran.rank(rank).placement.device for rank in (0, 1)] == ["gpu0", "gpu0"]


def test_ranks_with_one_accelerator_end_before_the_training(data):
    ran = run(data, "shared", gpu_plan("tensorflow"), *[("0", LINES[1])] * 2)
    assert ran.exit_status == 1, ran.output
    facts = told(ran.output, SHARED)
    assert (facts["ranks"], facts["uuid"]) == ("[0, 1]", UUIDS[1])
    assert not (ran.raw / "mllog.txt").exists() or not ran.losses


@pytest.mark.slow
def test_sharing_is_allowed_where_the_machine_file_says_so(data):
    ran = run(data, "allowed", gpu_plan("tensorflow", shared_by_ranks=True), *[("0", LINES[1])] * 2)
    assert ran.exit_status == 0, ran.output
    assert [ran.rank(rank).placement.accelerator_uuid for rank in (0, 1)] == [UUIDS[1]] * 2
