"""Small plans and batches for the tests of DeepCAM's training."""

from typing import Any

import numpy as np
import pytest
from unit.training.training_plans import plan_of

from hpcai.config.runs import RunPlan
from hpcai.core.processor import lacks_avx512
from hpcai.training.workload import Streams
from hpcai.workloads.deepcam.training.workload import DeepCam

needs_bf16 = pytest.mark.skipif(
    lacks_avx512(), reason="a processor without AVX-512, where TensorFlow has no bf16 gradient of dilated convolutions"
)
SEEDS = Streams(weights=1, order=2, dropout=3)
STATISTICS = {"minval": (-1.0,) * 16, "maxval": (3.0,) * 16}
OFFICIAL: dict[str, Any] = {"height": 768, "width": 1152}
BENCHMARK: dict[str, Any] = {
    "name": "deepcam_test",
    "workload": "deepcam",
    "title": "a test",
    "data": {
        "dataset": "deepcam_test",
        "source": "generate",
        "train_samples": 8,
        "validation_samples": 3,
        "height": 32,
        "width": 48,
    },
    "pack": {"codec": "zstd"},
    "model": {
        "stem": [4, 4],
        "entry": [4, 6, 8],
        "middle_blocks": 1,
        "exit": [8, 10, 12],
        "aspp": 4,
        "low_level": 3,
        "decoder": 4,
    },
    "recipe": {"global_batch": 2, "max_epochs": 2, "warmup_steps": 0, "learning_rate": 0.01},
    "target": {"value": 0.82},
}


def make_plan(ranks: int = 1, *, official: bool = False, **changes: dict[str, Any]) -> RunPlan:
    """Return a plan; ``changes`` go into the benchmark's sections, or into the point."""
    benchmark = BENCHMARK
    if official:
        benchmark = {**BENCHMARK, "data": {**BENCHMARK["data"], **OFFICIAL}, "model": {}, "recipe": {}}
    return plan_of(benchmark, ranks, **changes)


def make_workload(**changes: Any) -> DeepCam:
    return DeepCam(make_plan(**changes), STATISTICS)


def make_batch(workload: DeepCam, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Frames whose first channel tells the class of each 8 x 8 tile."""
    random = np.random.default_rng(seed)
    frames, classes = workload.batch_spec()
    batch, height, width = classes.shape
    labels = random.integers(0, 3, (batch, height // 8, width // 8)).repeat(8, 1).repeat(8, 2)
    data = random.uniform(-1, 3, frames.shape)
    data[..., 0] = labels - 0.5
    return data.astype(np.float32), labels.astype(np.uint8)
