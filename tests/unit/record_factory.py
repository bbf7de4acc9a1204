"""Valid run records of all five outcomes, for tests: plausible times that follow from the arguments alone."""

import math
from pathlib import Path
from typing import Any

import yaml

from hpcai.config.benchmark import BenchmarkSettings
from hpcai.config.machine import Machine
from hpcai.config.runs import Point, RunPlan
from hpcai.config.study import Limits, Submission
from hpcai.config.workloads import BENCHMARKS
from hpcai.core.stalls import Stalls
from hpcai.records.files import write_json
from hpcai.records.run import (
    FINISHED,
    EpochRecord,
    Outcome,
    Placement,
    Provenance,
    RankReport,
    RunRecord,
    StagingRecord,
    TrainingReport,
)
from hpcai.rules.judge import judge
from hpcai.workloads.cosmoflow.settings import CosmoFlowBenchmark
from hpcai.workloads.image_classification.settings import ImageClassificationBenchmark

TRAIN_SAMPLES = 256
EPOCHS = 12
REASONS = {
    "converged": "mean absolute error 0.29 reached the target 0.3",
    "not_converged": "the last epoch ended above the target",
    "diverged": "training loss is not a number in epoch 5",
    "failed": "rank 1 ended with signal 9 (killed); see stderr.log",
    "timed_out": "ended after limits.run_s = 900 s",
}


def make_benchmark(name: str = "cosmoflow_tiny", **changes: Any) -> CosmoFlowBenchmark:
    """Return a small benchmark on generated data."""
    fields: dict[str, Any] = {
        "name": name,
        "workload": "cosmoflow",
        "title": "CosmoFlow, a small edition",
        "data": {
            "dataset": "tiny",
            "source": "generate",
            "train_samples": TRAIN_SAMPLES,
            "validation_samples": 64,
            "edge": 32,
        },
        "target": {"value": 0.3, "note": "reached on generated data"},
    }
    return CosmoFlowBenchmark.model_validate({**fields, **changes})


def make_image_benchmark(name: str = "images_tiny", **changes: Any) -> ImageClassificationBenchmark:
    """Return a small benchmark of the other suite, whose quality is an accuracy."""
    fields: dict[str, Any] = {
        "name": name,
        "workload": "image_classification",
        "title": "Image classification, a small edition",
        "data": {
            "dataset": "images_tiny",
            "source": "generate",
            "train_samples": TRAIN_SAMPLES,
            "validation_samples": 64,
            "train_shards": 4,
            "validation_shards": 2,
            "classes": 8,
            "crop": 32,
            "resize_edge": 40,
        },
        "recipe": {"global_batch": 64, "max_epochs": EPOCHS, "warmup_epochs": 1},
        "target": {"value": 0.6, "note": "reached on generated data"},
    }
    return ImageClassificationBenchmark.model_validate({**fields, **changes})


def make_official_plan(name: str, **changes: Any) -> RunPlan:
    """Return the plan of a run of an official benchmark file, with seeds from entropy."""
    file = Path(__file__).parents[2] / "config" / "benchmarks" / f"{name}.yaml"
    data = yaml.safe_load(file.read_text())
    settings = BENCHMARKS[data["workload"]].model_validate(data)
    suite = {"time_staging": settings.suite == "mlperf_hpc"}
    return make_plan(benchmark=settings, **{"seeds": "entropy", **suite, **changes})


def make_machine(nodes: int = 4, ranks_per_node: int = 4, **changes: Any) -> Machine:
    """Return a machine without accelerators."""
    fields: dict[str, Any] = {
        "name": "testbox",
        "title": "A machine for tests",
        "nodes": nodes,
        "cores_per_node": ranks_per_node,
        "memory_bytes": "8 GiB",
        "ranks_per_node": ranks_per_node,
        "cores_per_rank": 1,
        "device": {"kind": "cpu"},
        "storage": {"node_local": "/tmp/scratch"},
    }
    return Machine.model_validate({**fields, **changes})


def make_plan(
    *,
    benchmark: str | BenchmarkSettings = "cosmoflow_tiny",
    variant: str = "fp32",
    nodes: int = 1,
    ranks_per_node: int = 1,
    repetition: int = 1,
    settings_of_point: dict[str, Any] | None = None,
    **changes: Any,
) -> RunPlan:
    """Return the plan of one run; ``changes`` replace fields of the plan."""
    settings = benchmark if isinstance(benchmark, BenchmarkSettings) else make_benchmark(benchmark)
    where = {"benchmark": settings.name, "variant": variant, "nodes": nodes, "ranks_per_node": ranks_per_node}
    point = Point(**where, **(settings_of_point or {}))
    fields: dict[str, Any] = {
        "study": "default",
        "benchmark": settings,
        "machine": make_machine(),
        "point": point,
        "repetition": repetition,
        "seed": 1000 + repetition,
        "rule_set": "hpc_3.0.0",
        "time_staging": True,
        "limits": Limits(),
        "submission": Submission(),
    }
    return RunPlan(**{**fields, **changes})


def make_record(outcome: Outcome = "converged", *, record: dict[str, Any] | None = None, **plan: Any) -> RunRecord:
    """Return a valid record.

    Parameters
    ----------
    outcome
        One of the five.
    record
        Fields of the record that replace the made-up ones.
    plan
        Arguments of :func:`make_plan`.
    """
    asked = make_plan(**plan)
    finished = outcome in FINISHED
    epochs = make_epochs(asked, outcome)
    training = make_training(asked, outcome, epochs) if finished else None
    wall_s = 12.0 + training.run_s if training else 40.0
    fields: dict[str, Any] = {
        "run_id": asked.run_id,
        "plan": asked,
        "plan_digest": asked.digest,
        "data_source": "generated",
        "attempt": "a1",
        "started_utc": f"2026-01-02T03:{asked.repetition:02d}:00Z",
        "outcome": outcome,
        "reason": REASONS[outcome],
        "wall_s": wall_s,
        "launch_s": 1.0,
        "exit_status": 0 if finished else 137,
        "training": training,
        "partial_epochs": () if finished else epochs[:3],
        "ranks": tuple(make_rank(rank, asked) for rank in range(asked.point.ranks)) if finished else (),
        "provenance": make_provenance(),
    }
    made = RunRecord(**{**fields, **(record or {})})
    return made if record and "verdicts" in record else made.model_copy(update={"verdicts": judge(asked, made.facts)})


def make_epochs(plan: RunPlan, outcome: Outcome) -> tuple[EpochRecord, ...]:
    """Return epochs whose error falls to 0.29 (converged) or 0.36, or whose loss becomes NaN in epoch 5."""
    ranks, jitter = plan.point.ranks, 0.02 * ((plan.repetition * 7 + plan.point.ranks) % 5)
    count = 5 if outcome == "diverged" else EPOCHS + plan.repetition % 3
    floor = 0.29 if outcome == "converged" else 0.36
    accuracy = plan.benchmark.suite == "hpc_ai500"
    train_s = 6.0 / ranks**0.85 * (1 + jitter)
    epochs = []
    for epoch in range(1, count + 1):
        lost = outcome == "diverged" and epoch == 5
        quality = floor + 0.32 * math.exp(-epoch / 4) * (1 + jitter) if epoch < count else floor
        epochs.append(
            EpochRecord(
                epoch=epoch,
                steps=4,
                samples=TRAIN_SAMPLES,
                train_s=train_s * (1.2 if epoch == 1 else 1.0),
                evaluation_s=0.8 / ranks**0.9,
                evaluation_samples=64,
                learning_rate=0.001,
                train_loss=math.nan if lost else quality**2 * 1.4,
                quality=math.nan if lost else 0.9 - quality if accuracy else quality,
                step_time_median_s=train_s / 4,
                step_time_p95_s=train_s / 4 * 1.15,
                step_time_max_s=train_s / 4 * 1.4,
            )
        )
    return tuple(epochs)


def make_training(plan: RunPlan, outcome: Any, epochs: tuple[EpochRecord, ...]) -> TrainingReport:
    """Return rank 0's report; the run takes its epochs, its staging and half a second more."""
    staging = StagingRecord(
        place="node_local",
        partition="whole",
        on_clock=plan.time_staging,
        files=8,
        packed_bytes=20_000_000,
        content_bytes=110_000_000,
        staging_s=0.9 + 0.05 * plan.repetition,
        compression_ratio=5.5,
    )
    accuracy = plan.benchmark.suite == "hpc_ai500"
    inside = sum(epoch.train_s + (epoch.evaluation_s or 0.0) for epoch in epochs)
    return TrainingReport(
        outcome=outcome,
        reason=REASONS[outcome],
        seed=plan.seed or 77,
        parameters=123_456,
        quality_metric="top_1_accuracy" if accuracy else "mean_absolute_error",
        quality_target=plan.benchmark.target.value,
        higher_is_better=accuracy,
        init_s=3.0,
        import_s=5.0,
        started_monotonic_s=100.0,
        run_s=inside + staging.staging_s + 0.5,
        step_time_median_s=epochs[-1].step_time_median_s,
        longest_gap_s=0.25,
        stalls=Stalls(count=0),
        staging=staging,
        epochs=epochs,
    )


def make_rank(rank: int, plan: RunPlan) -> RankReport:
    """Return one rank's report."""
    per_node = plan.point.ranks_per_node
    placement = Placement(
        rank=rank,
        local_rank=rank % per_node,
        node_index=rank // per_node,
        hostname=f"node{rank // per_node}",
        device="cpu",
        cores=(rank % per_node,),
        threads=1,
    )
    return RankReport(
        placement=placement,
        peak_memory_bytes=900_000_000,
        cpu_time_s=50.0,
        read_bytes=20_000_000,
        page_faults_per_step=12.5,
        weights_sha256="ab" * 32,
    )


def make_provenance(**changes: Any) -> Provenance:
    """Return where the made-up numbers would come from."""
    fields: dict[str, Any] = {
        "commit": "0123456789abcdef0123456789abcdef01234567",
        "dirty": False,
        "lock_sha256": "cd" * 32,
        "command": ("python", "-m", "hpcai.training"),
        "environment": {"OMP_NUM_THREADS": "1"},
        "software": {"python": "3.11.2", "tensorflow": "2.18.1", "horovod": "0.28.1"},
        "machine_facts": {
            "processor": "test processor",
            "cores": 4,
            "memory_bytes": 8_000_000_000,
            "accelerator": None,
        },
        "data_digest": "ef" * 32,
        "pack_digest": "01" * 32,
        "page_cache": "not_permitted",
    }
    return Provenance(**{**fields, **changes})


def make_study(ranks: tuple[int, ...] = (1, 2), repeats: int = 4, **plan: Any) -> list[RunRecord]:
    """Return converged runs at several scales."""
    return [
        make_record(ranks_per_node=count, repetition=repetition, **plan)
        for count in ranks
        for repetition in range(1, repeats + 1)
    ]


def make_mixed_study(**plan: Any) -> list[RunRecord]:
    """Return runs at one and two ranks: four converged, then one of each outcome."""
    outcomes: tuple[Outcome, ...] = ("converged", "not_converged", "diverged", "failed", "timed_out")
    second = [
        make_record(outcome, ranks_per_node=2, repetition=number, **plan) for number, outcome in enumerate(outcomes, 1)
    ]
    return [*make_study(ranks=(1,), **plan), *second]


def make_two_suites(**plan: Any) -> list[RunRecord]:
    """Return runs of one benchmark of each suite at one and two ranks, one of each kind missing its target."""
    images = make_image_benchmark()
    other = {"benchmark": images, "time_staging": False, **plan}
    missed = make_record("not_converged", ranks_per_node=2, repetition=5, **other)
    return [*make_mixed_study(**plan), *make_study(**other), missed]


def write_records(records: list[RunRecord], folder: Path) -> list[Path]:
    """Write records as a campaign lays them out, and return their paths."""
    paths = []
    for record in records:
        path = folder / record.run_id / "record.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(record, path)
        paths.append(path)
    return paths
