"""Small plans and batches of the detector for its tests."""

from pathlib import Path
from typing import Any

import numpy as np
import yaml
from unit.training.training_plans import plan_of

from hpcai.config.runs import RunPlan
from hpcai.workloads.extreme_weather.training.workload import ExtremeWeather

ROOT = Path(__file__).parents[5]
STATISTICS = {"mean": tuple(range(16)), "standard_deviation": tuple(range(1, 17))}


def detector_plan(
    file: str = "tests/config/benchmarks/extreme_weather_mini.yaml", ranks: int = 1, **changes: Any
) -> RunPlan:
    """Return a plan of a benchmark file; ``changes`` go into its sections, or into the point."""
    benchmark = yaml.safe_load((ROOT / file).read_text())
    return plan_of(benchmark, ranks, **changes)


def detector(**changes: Any) -> ExtremeWeather:
    """Return a small workload."""
    return ExtremeWeather(detector_plan(**changes), STATISTICS)


def detector_batch(workload: ExtremeWeather, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random images; the first has two true boxes, the last has none."""
    images, boxes, identities = (spec.shape for spec in workload.batch_spec())
    rows = np.full(boxes, -1, np.int32)
    rows[:-1, 0] = [10, 12, 30, 28, 1]
    rows[0, 3] = [30, 30, 60, 62, 3]
    values = np.random.default_rng(seed).normal(size=images).astype(np.float32)
    return values, rows, np.arange(identities[0], dtype=np.int64) + 197_900_000
