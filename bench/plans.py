"""Plans of runs outside any study: benchmark files with real, generated samples for the benches."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import yaml

from hpcai.config.base import Engine
from hpcai.config.machine import Precision
from hpcai.config.runs import RunPlan

# As in ranks, before TensorFlow is imported: without AVX-512 it would use other kernels, which lack dilated gradients.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
WARM_STEPS, STEPS = 5, 60
"""Of a timed training on several ranks: those left out, and those whose median counts."""
ENGINES: tuple[Engine, ...] = get_args(Engine)
ENGINE_COLUMNS = "engine       median_ms  ratio_to_horovod  smallest   largest"
"""Head of the rows of :func:`compare_engines`."""
CONFIG = Path(__file__).resolve().parents[1] / "config"
UNUSED = {"path": None, "archives": []}


@dataclass(frozen=True)
class Case:
    """One benchmark file in one precision.

    ``steps`` are timed together to reduce noise of short steps. ``data`` are changes that make an official benchmark's
    dataset small; its samples keep their size.
    """

    benchmark: str
    precision: Precision
    batch: int
    rounds: int
    steps: int
    data: dict[str, Any] = field(default_factory=dict)


OFFICIAL_DATA: dict[str, dict[str, Any]] = {
    "resnet50": {"train_samples": 32, "validation_samples": 4, "train_shards": 1, "validation_shards": 1},
    "extreme_weather": {
        "train_samples": 2,
        "validation_samples": 1,
        "train_years": [1979],
        "validation_years": [1984],
    },
    "cosmoflow": {"train_samples": 8, "validation_samples": 1, "edition": "plain"},
    "deepcam": {"train_samples": 2, "validation_samples": 1},
    "opencatalyst": {"train_samples": 64, "validation_samples": 4},
}
"""Few generated samples of the official size; opencatalyst's graphs are those of small slabs."""


def bench_plan(
    benchmark: str,
    point: dict[str, object],
    machine: dict[str, object] | None = None,
    data: dict[str, Any] | None = None,
) -> RunPlan:
    """Return the plan of one rank for a benchmark file, with changes of its point, data and machine."""
    laptop = yaml.safe_load((CONFIG / "machines/laptop.yaml").read_text())
    settings = yaml.safe_load((CONFIG / f"benchmarks/{benchmark}.yaml").read_text())
    if data is not None:
        settings["data"] = {**settings["data"], **UNUSED, "source": "generate", **data}
        settings["pack"] = {"codec": "none", "shards": 1}
        settings["staging"] = {"place": "none"}
    return RunPlan(
        study="bench",
        benchmark=settings,
        machine={**laptop, **(machine or {})},
        point={"benchmark": benchmark, "variant": "bench", "nodes": 1, "ranks_per_node": 1, **point},
        repetition=1,
        seed=1,
        rule_set="hpc_3.0.0",
        time_staging=True,
        limits={},
        submission={},
    )


def prepared(plan: RunPlan, folder: Path) -> tuple[Path, Path]:
    """Generate, verify and pack the plan's dataset; return its manifest and its packed.json."""
    from hpcai.data.pack import PACKED, pack_dataset
    from hpcai.data.prepare import MANIFEST, prepare_dataset
    from hpcai.data.registry import data_module

    benchmark = plan.benchmark
    module = data_module(benchmark.workload, benchmark.data)
    manifest = prepare_dataset(benchmark.workload, module, folder, CONFIG / "datasets.tsv")
    pack_dataset(manifest, module, manifest.root(folder / MANIFEST), benchmark.pack, folder / "packed")
    return folder / MANIFEST, folder / "packed" / PACKED


def dataset_of(plan: RunPlan, folder: Path, threads: int) -> Any:  # noqa: ANN401  imports TensorFlow, so not above
    """Return the dataset as seen by the only rank."""
    from hpcai.training.collective import Ranks
    from hpcai.training.dataset import Dataset, Sources

    manifest, packed = prepared(plan, folder)
    return Dataset(plan, Ranks(0, 1, 0, 1, 0, 1), Sources(manifest, packed, folder / "scratch"), threads)


def launch_ranks(ranks: int) -> tuple[str, ...]:
    """Return the command that starts ranks of a program on this node, so that Horovod exchanges over Gloo."""
    return sys.executable, "-m", "hpcai.training.spawn", "-np", str(ranks)


def compare_engines(times_s: Mapping[Engine, Sequence[float]]) -> Iterator[str]:
    """Yield a row for each engine: its median, and its ratio to horovod in the same round.

    Parameters
    ----------
    times_s
        Of each engine one time [s] for each round.
    """
    for engine, own_s in times_s.items():
        ratios = [own / peer for own, peer in zip(own_s, times_s["horovod"], strict=True)]
        yield (
            f"{engine:11} {statistics.median(own_s) * 1e3:10.2f} {statistics.median(ratios):17.2f} "
            f"{min(ratios):9.2f} {max(ratios):9.2f}"
        )


def time_step(
    plan: RunPlan, data: tuple[Path, Path], raw: Path, environment: Mapping[str, str] | None = None
) -> tuple[float, int]:
    """Train on the plan's ranks; return the median step [s] and the number of parameters.

    Raises
    ------
    HpcaiError
        If the ranks fail.
    """
    import pandas as pd

    from hpcai.config.plan_file import write_plan
    from hpcai.core.errors import HpcaiError

    raw.mkdir(parents=True)
    profiled = plan.model_copy(update={"kind": "profiled", "max_steps": WARM_STEPS + STEPS})
    write_plan(profiled, raw / "plan.json")
    program = [sys.executable, "-m", "hpcai.training", "--plan", raw / "plan.json", "--raw", raw]
    program += ["--manifest", data[0], "--pack", data[1], "--scratch", raw / "scratch", "--page-cache", "kept"]
    command = [*launch_ranks(plan.point.ranks), *map(str, program)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})}
    )
    if done.returncode:
        raise HpcaiError(f"{plan.point.benchmark}: exit status {done.returncode}: {done.stderr[-500:]}")
    steps = pd.read_csv(raw / "steps.csv")["step_time_s"].iloc[WARM_STEPS:]
    return float(steps.median()), int(json.loads((raw / "training.json").read_text())["parameters"])
