"""Engines take the same steps: equal seeds, data and batches give equal losses on real ranks."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import yaml
from end_to_end.rank_runs import RANK_PROGRAM, Run, prepared
from numpy.typing import NDArray
from unit.training.training_plans import plan_of
from workflow_project import ROOT

from hpcai.config.machine import Device
from hpcai.config.runs import RunPlan
from hpcai.core.accelerators import find_accelerators

STEPS = 20
MINI = ROOT / "tests/config/benchmarks"
TOLERANCE = 1e-5
PERTURBED = Path(__file__).with_name("perturbed_program.py")
FAST = {"cosmoflow_mini": {}}
"""A mean over all ranks alone."""
SHARED = {"batchnorm_group": 2}
"""Statistics that a group of ranks shares within the step."""
SLOW = {"resnet50_mini": SHARED, "deepcam_mini": SHARED, "extreme_weather_mini": {}, "opencatalyst_mini": {}}
UNREACHED = {"cosmoflow": 1e-6, "opencatalyst": 1e-6}
"""Errors that no run reaches; of the other workloads a share of 0.99."""


def plan(
    benchmark: str, engine: str, ranks: int, recipe: Mapping[str, float] | None = None, **point: object
) -> RunPlan:
    """Twenty steps that no target and no number of epochs ends."""
    settings = yaml.safe_load((MINI / f"{benchmark}.yaml").read_text())
    changes = {
        "recipe": {**(recipe or {}), "max_epochs": STEPS},
        "target": {"value": UNREACHED.get(settings["workload"], 0.99)},
    }
    few = {"kind": "profiled", "max_steps": STEPS}
    return plan_of(settings, ranks, point={"engine": engine, **point}, plan=few, **changes)


def run_both(folder, benchmark: str, ranks: int, **point: object) -> tuple[Run, Run]:
    data = prepared(plan(benchmark, "horovod", 1), folder)
    runs = [data.run(engine, plan(benchmark, engine, ranks, **point)) for engine in ("horovod", "tensorflow")]
    for run in runs:
        assert run.exit_status == 0, run.output
        assert len(run.losses) == STEPS
    return runs[0], runs[1]


@pytest.mark.parametrize(
    ("benchmark", "ranks", "point"),
    [
        *((name, 2, point) for name, point in FAST.items()),
        *(pytest.param(name, 2, point, marks=pytest.mark.slow) for name, point in SLOW.items()),
        *(pytest.param(name, 1, {}, marks=pytest.mark.slow) for name in (*FAST, *SLOW)),
    ],
    ids=[f"{name}-{ranks}" for ranks in (2, 1) for name in (*FAST, *SLOW)],
)
def test_losses_are_those_of_horovod(tmp_path, benchmark, ranks, point):
    horovod, tensorflow = run_both(tmp_path, benchmark, ranks, **point)
    np.testing.assert_allclose(tensorflow.losses, horovod.losses, rtol=TOLERANCE)


def test_ranks_end_with_equal_weights_and_the_same_quality(tmp_path):
    horovod, tensorflow = run_both(tmp_path, "cosmoflow_mini", 2, compression="fp16")
    assert tensorflow.rank(0).weights_sha256 == tensorflow.rank(1).weights_sha256
    assert len(tensorflow.epochs) == len(horovod.epochs)
    qualities = [[epoch.quality for epoch in run.epochs if epoch.quality is not None] for run in (tensorflow, horovod)]
    np.testing.assert_allclose(*qualities, rtol=1e-3)


CALM = {
    "cosmoflow_mini": {"base_learning_rate": 0.001},
    "resnet50_mini": {"base_learning_rate": 0.00002, "global_batch": 16, "base_batch": 16},
    "deepcam_mini": {"learning_rate": 0.00003},
}
"""Rates that let no loss rise, and at which neither DeepCAM's LAMB nor statistics of few images amplify rounding."""
ROUNDING, SEEDS = 1e-7, (1, 2)
JAX_POINTS = {
    "one_rank": ("cosmoflow_mini", 1, {}),
    "two_ranks": ("cosmoflow_mini", 2, {}),
    "micro_batches_in_half": ("cosmoflow_mini", 2, {"accumulation": 2, "compression": "fp16"}),
    "shared_statistics": ("resnet50_mini", 2, {"batchnorm_group": 2}),
    "statistics_of_each_rank": ("resnet50_mini", 2, {}),
    "deepcam_on_one_rank": ("deepcam_mini", 1, {}),
    "deepcam_on_two_ranks": ("deepcam_mini", 2, {}),
    "deepcam_with_shared_statistics": ("deepcam_mini", 2, {"batchnorm_group": 2}),
}


def plan_for_jax(benchmark: str, engine: str, ranks: int, **point: object) -> RunPlan:
    return plan(benchmark, engine, ranks, CALM[benchmark], **point)


@pytest.mark.slow
@pytest.mark.parametrize("case", JAX_POINTS)
def test_losses_of_jax_are_those_of_tensorflow(tmp_path, case):
    benchmark, ranks, point = JAX_POINTS[case]
    data = prepared(plan_for_jax(benchmark, "horovod", 1), tmp_path)
    runs = [data.run(engine, plan_for_jax(benchmark, engine, ranks, **point)) for engine in ("tensorflow", "jax")]
    for run in runs:
        assert run.exit_status == 0, run.output
    losses = [run.losses for run in runs]
    assert len(losses[0]) == STEPS
    # Gradients that travel in half precision are rounded there: eleven bits.
    np.testing.assert_allclose(*losses, rtol=1e-3 if "compression" in point else TOLERANCE)
    jax = runs[1]
    assert len({jax.rank(number).weights_sha256 for number in range(ranks)}) == 1
    assert {"run_start", "run_stop"} <= {line["key"] for line in jax.log}


@pytest.mark.skipif(not find_accelerators(), reason="here is no NVIDIA GPU")
@pytest.mark.parametrize("benchmark", CALM)
def test_jax_takes_the_same_steps_on_a_gpu_and_on_a_processor(tmp_path, benchmark):
    on_processor = plan_for_jax(benchmark, "jax", 1)
    data = prepared(on_processor, tmp_path)
    device = {"device": Device(kind="gpu"), "accelerators_per_node": 1, "ranks_per_node": 1}
    machine = on_processor.machine.model_copy(update=device)
    runs = {
        "processor": data.run("processor", on_processor),
        "gpu": data.run("gpu", on_processor.model_copy(update={"machine": machine})),
    }
    for run in runs.values():
        assert run.exit_status == 0, run.output
    assert runs["gpu"].rank(0).placement.accelerator_uuid == find_accelerators()[0].uuid
    np.testing.assert_allclose(runs["gpu"].losses, runs["processor"].losses, rtol=TOLERANCE)


@pytest.mark.slow
def test_the_rate_at_which_jax_is_compared_does_not_amplify_rounding(tmp_path):
    """If rounding decides on some processor, this says so, and the comparison of engines there means nothing."""
    data = prepared(plan_for_jax("resnet50_mini", "horovod", 1), tmp_path)

    def losses(name: str, program: Sequence[str] = RANK_PROGRAM) -> NDArray[np.float64]:
        run = data.run(name, plan_for_jax("resnet50_mini", "tensorflow", 2), program=program)
        assert run.exit_status == 0, run.output
        return np.array(run.losses)

    exact = losses("exact")
    for seed in SEEDS:
        rounded = losses(f"seed{seed}", [str(PERTURBED), str(ROUNDING), str(seed)])
        np.testing.assert_allclose(rounded, exact, rtol=TOLERANCE)


def test_one_rank_needs_no_launcher_of_its_engine(tmp_path):
    data = prepared(plan("cosmoflow_mini", "tensorflow", 1), tmp_path)
    assert data.run("alone", plan("cosmoflow_mini", "tensorflow", 1)).exit_status == 0
