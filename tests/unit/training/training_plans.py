"""Small plans for the training tests."""

from typing import Any

from hpcai.config.runs import RunPlan

BENCHMARK: dict[str, Any] = {
    "name": "cosmoflow_test",
    "workload": "cosmoflow",
    "title": "a test",
    "data": {
        "dataset": "cosmoflow_test",
        "source": "generate",
        "edition": "plain",
        "edge": 16,
        "train_samples": 16,
        "validation_samples": 7,
    },
    "staging": {"place": "none"},
    "model": {"conv_layers": 3, "base_filters": 4, "dense": [16, 8], "dropout": 0.0},
    "recipe": {"global_batch": 4, "base_batch": 4, "base_learning_rate": 0.001, "warmup_epochs": 1, "max_epochs": 2},
    "target": {"value": 0.124},
}
MACHINE: dict[str, Any] = {
    "name": "test_machine",
    "title": "a test",
    "nodes": 1,
    "cores_per_node": 2,
    "memory_bytes": "4 GiB",
    "ranks_per_node": 2,
    "cores_per_rank": 1,
    "device": {"kind": "cpu"},
    "storage": {"node_local": "/tmp"},
}


SECTIONS = ("data", "pack", "staging", "model", "recipe", "target")


def make_plan(ranks: int = 1, **changes: dict[str, Any]) -> RunPlan:
    """Return a plan of a small CosmoFlow; ``changes`` as in `plan_of`."""
    return plan_of(BENCHMARK, ranks, **changes)


def plan_of(benchmark: dict[str, Any], ranks: int = 1, **changes: dict[str, Any]) -> RunPlan:
    """Return a plan; ``changes`` apply to the benchmark's sections, to the point or to the plan itself."""
    sections = {key: {**benchmark.get(key, {}), **changes[key]} for key in SECTIONS if key in changes}
    point = {"benchmark": benchmark["name"], "variant": "test", "nodes": 1, "ranks_per_node": ranks}
    return RunPlan.model_validate(
        {
            "study": "test",
            "benchmark": {**benchmark, **sections},
            "machine": MACHINE,
            "point": {**point, **changes.get("point", {})},
            "repetition": 1,
            "seed": 7,
            "rule_set": "hpc_3.0.0",
            "time_staging": True,
            "limits": {},
            "submission": {},
            **changes.get("plan", {}),
        }
    )
