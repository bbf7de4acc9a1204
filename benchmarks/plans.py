"""The plan of a run that no study asked for: what benchmarks need of one."""

from pathlib import Path

import yaml

from hpcai.config.runs import RunPlan

CONFIG = Path(__file__).resolve().parents[1] / "config"


def bench_plan(benchmark: str, point: dict[str, object], machine: dict[str, object] | None = None) -> RunPlan:
    """Return the plan of one rank for a benchmark file, with changes of its point and of the laptop's machine file."""
    laptop = yaml.safe_load((CONFIG / "machines/laptop.yaml").read_text())
    return RunPlan(
        study="bench",
        benchmark=yaml.safe_load((CONFIG / f"benchmarks/{benchmark}.yaml").read_text()),
        machine={**laptop, **(machine or {})},
        point={"benchmark": benchmark, "variant": "bench", "nodes": 1, "ranks_per_node": 1, **point},
        repetition=1,
        seed=1,
        rule_set="hpc_3.0.0",
        time_staging=True,
        limits={},
        submission={},
    )
