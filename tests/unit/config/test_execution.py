"""Settings of how a point is executed, and which of them cannot be."""

import pytest
from unit.training.training_plans import make_plan

from hpcai.config.execution import (
    EVALUATION_TOO_LARGE,
    HIERARCHICAL_BY_HOROVOD,
    NO_SKIPPING_BY_FP16,
    NO_TOPOLOGY_OF_TENSORFLOW,
    NO_TOPOLOGY_ON_PROCESSORS,
    WHOLE_CUBES,
    check_execution,
)
from hpcai.config.runs import UNWRITTEN, Point

GPU = {"device": {"kind": "gpu", "model": "a device"}, "accelerators_per_node": 2}


def refusals(device: dict | None = None, ranks: int = 2, recipe: dict | None = None, **point: object) -> list[tuple]:
    plan = make_plan(ranks, point=point, recipe=recipe or {})
    machine = plan.machine.model_validate({**plan.machine.model_dump(), **(device or {})})
    return [(name, said.code) for name, _, said in check_execution(plan.benchmark, machine, plan.point)]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"evaluation_batch": 4}, []),  # 7 samples on two ranks
        ({"evaluation_batch": 5}, [("evaluation_batch", EVALUATION_TOO_LARGE.code)]),
        ({"evaluation_cache": "memory", "training_cache": "memory"}, []),
        ({"allreduce_topology": "ring"}, [("allreduce_topology", NO_TOPOLOGY_ON_PROCESSORS.code)]),
        *(
            ({"allreduce_topology": way, "device": GPU, "engine": engine}, [])
            for way in ("ring", "tree")
            for engine in ("horovod", "jax")
        ),
        # TensorFlow's collectives take their own ring unless they are told to use NCCL, whose variables they ignore:
        # the plan would record a topology that the run does not have.
        *(
            (
                {"allreduce_topology": way, "device": GPU, "engine": "tensorflow"},
                [("allreduce_topology", NO_TOPOLOGY_OF_TENSORFLOW.code)],
            )
            for way in ("ring", "tree", "hierarchical")
        ),
        ({"allreduce_topology": "hierarchical", "device": GPU}, []),
        (
            {"allreduce_topology": "hierarchical", "device": GPU, "engine": "jax"},
            [("allreduce_topology", HIERARCHICAL_BY_HOROVOD.code)],
        ),
        ({"precision": "fp16", "device": GPU}, []),
        (
            {"precision": "fp16", "device": GPU, "recipe": {"skip_gradient_norm": 1.0}},
            [("precision", NO_SKIPPING_BY_FP16.code)],
        ),
        (
            {"spatial_parts": 2, "recipe": {"augmentation": "symmetries"}},
            [("spatial_parts", WHOLE_CUBES.code)],
        ),
    ],
)
def test_what_cannot_be(settings: dict, expected: list[tuple]) -> None:
    assert refusals(**settings) == expected


def test_plans_are_as_they_were_before_there_was_a_choice() -> None:
    plain = make_plan()
    assert not set(UNWRITTEN) & set(plain.point.model_dump())
    assert not {"skip_gradient_norm", "schedule", "augmentation"} & set(plain.benchmark.recipe.model_dump())
    chosen = {"evaluation_batch": 4, "evaluation_cache": "memory", "training_cache": "memory"}
    changed = make_plan(point=chosen)
    assert {name: changed.point.model_dump()[name] for name in chosen} == chosen
    assert changed.digest != plain.digest
    assert Point.model_validate(changed.point.model_dump()) == changed.point
    assert (plain.evaluation_batch, changed.evaluation_batch) == (plain.micro_batch, 4)
