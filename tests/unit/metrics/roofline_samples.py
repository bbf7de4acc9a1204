"""A study of many results for tests of the rooflines, with plausible numbers that depend only on the arguments."""

import math
from typing import Any

import numpy as np
import pandas as pd

from hpcai.config.machine import Machine
from hpcai.metrics.profiles.link import CALL, TRANSFER
from hpcai.metrics.scores.columns import SCORE_COLUMNS

WORK = {
    "cosmoflow": (4.0e11, 2.0e6, 256), "deepcam": (1.2e13, 5.7e7, 1024), "extreme_weather": (6.91e11, 4.1e7, 512),
    "opencatalyst": (9.0e9, 1.8e6, 2048), "resnet50": (2.3e10, 2.55e7, 32768),
}  # fmt: skip
"""FLOP of a sample, parameters and samples of a step."""
VARIANTS = {"fp32": ("fp32", "none"), "fp32_fp16c": ("fp32", "fp16"), "mixed": ("fp16", "none")}
SCALES = ((1, 1), (1, 4), (1, 8), (4, 8), (16, 8), (64, 8))
PEAKS = {"fp32": 15.7e12, "fp16": 125e12}


def make_cluster(*, network: str | None = "12.5 GB/s", peaks: bool = True) -> Machine:
    """Return 64 nodes of 8 accelerators."""
    device: dict[str, Any] = {"kind": "gpu", "model": "V100"}
    if peaks:
        device["peaks"] = {
            name: {"rate_flop_per_s": rate, "source": "data sheet, 2020-01-01"} for name, rate in PEAKS.items()
        }
        device["memory_link"] = {"bandwidth_bytes_per_s": "900 GB/s", "source": "data sheet, 2020-01-01"}
    declared = {"intra_node": {"bandwidth_bytes_per_s": "150 GB/s", "source": "data sheet of the link"}}
    if network:
        declared["network"] = {"bandwidth_bytes_per_s": network, "source": "data sheet of the network"}
    fields: dict[str, Any] = {
        "name": "cluster",
        "title": "A cluster for tests",
        "nodes": 64,
        "cores_per_node": 64,
        "memory_bytes": "256 GiB",
        "accelerators_per_node": 8,
        "ranks_per_node": 8,
        "cores_per_rank": 8,
        "device": device,
        "links": declared,
        "storage": {"node_local": "/tmp"},
    }
    return Machine.model_validate(fields)


def make_scores(
    scales: tuple[tuple[int, int], ...] = SCALES,
    share: float = 0.35,
    names: tuple[str, ...] = tuple(WORK),
    **changes: Any,
) -> pd.DataFrame:
    """Return a result of every benchmark and variant at each scale."""
    rows: list[dict[str, Any]] = []
    for benchmark in names:
        work, _, batch = WORK[benchmark]
        for variant, (precision, compression) in VARIANTS.items():
            for nodes, ranks_per_node in scales:
                ranks = nodes * ranks_per_node
                own = share * PEAKS[precision] / (8 if precision == "fp16" else 1)
                rate = own * ranks / (1 + 0.1 * math.log2(ranks))
                row = {
                    "method": "measured", "origin": "made up", "result": f"{benchmark}, {variant}",
                    "machine": "cluster", "suite": "hpc_ai500", "workload": benchmark, "benchmark": benchmark,
                    "variant": variant,
                    "engine": "horovod",
                    "scale": f"n{nodes}x{ranks_per_node}", "nodes": nodes, "ranks": ranks, "precision": precision,
                    "compression": compression, "global_batch_samples": batch, "flop_per_sample": work,
                    "rate_flop_per_s": rate, "source": f"results/runs/{benchmark}/{variant}/n{nodes}x{ranks_per_node}",
                }  # fmt: skip
                rows.append({**row, **changes})
    return pd.DataFrame(rows, columns=list(SCORE_COLUMNS))


def make_runs(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the run table as far as the rooflines read it."""
    runs = scores[["benchmark", "variant", "engine", "scale"]].copy()
    return runs.assign(parameters=[WORK[name][1] for name in runs["benchmark"]])


def make_views(ranks: tuple[int, ...] = (8, 128), *, counted: bool = True) -> dict[str, pd.DataFrame]:
    """Return views of the cluster: one scale of each benchmark has a timeline, ResNet-50 has counters."""
    communication = [
        {
            "benchmark": name, "variant": "fp32", "engine": "horovod",
            "scale": "n1x8", "bytes_per_step": 4.1 * parameters,
            "source": f"results/profiles/timeline/{name}/timeline.json",
        }
        for name, (_, parameters, _) in WORK.items()
        if counted
    ]  # fmt: skip
    columns = ["benchmark", "variant", "engine", "scale", "bytes_per_step", "source"]
    counters = pd.DataFrame(
        [("resnet50", "fp32", "horovod", "n1x8", WORK["resnet50"][0] / 27, "results/profiles/counters/resnet50.csv")],
        columns=["benchmark", "variant", "engine", "scale", "memory_bytes_per_sample", "source"],
    )
    work = pd.DataFrame(
        [("deepcam", "fp32", "horovod", "n1x8", "hlo", 3.1e11, "results/characterise/work/deepcam.json")],
        columns=["benchmark", "variant", "engine", "scale", "method", "memory_bytes_per_sample", "source"],
    )
    return {
        "communication": pd.DataFrame(communication, columns=columns),
        "links": make_links(ranks),
        "link_fits": pd.DataFrame(columns=["what", "engine", "scope", "ranks", "bandwidth_bytes_per_s"]),
        "counters": counters,
        "work": work,
        "ceilings": make_ceilings(),
    }


def make_links(ranks: tuple[int, ...] = (8, 128)) -> pd.DataFrame:
    """Return a measured allreduce: 70 GB/s within a node, 5 GB/s over the network, 20 us for any message."""
    rows = []
    for count in ranks:
        scope, rate = ("node", 7e10) if count <= 8 else ("network", 5e9)
        for what, wait_s in ((TRANSFER, 0.0), (CALL, 1e-3)):
            for size in 4.0 ** np.arange(5, 14):
                time = 20e-6 + wait_s + size / rate
                source = f"results/characterise/allreduce_{count}.json"
                rows.append((what, "horovod", scope, count, size, time, 0.9 * time, source))
    return pd.DataFrame(rows, columns=["what", "engine", "scope", "ranks", "bytes", "time_s", "time_min_s", "source"])


def make_ceilings(gemm: float = 0.9) -> pd.DataFrame:
    """Return measured ceilings of one accelerator."""
    rows: list[tuple[Any, ...]] = []
    for precision, rate in PEAKS.items():
        rows += [
            ("gemm", precision, "tensorflow", 8.0, gemm * rate, "FLOP/s", "", "results/characterise/gemm.json"),
            ("convolution", precision, "tensorflow", 8.0, 0.7 * rate, "FLOP/s", "", "results/characterise/conv.json"),
        ]
    rows.append(("gemm", "bf16", "tensorflow", 8.0, math.nan, "FLOP/s", "the device has no bf16", "gemm.json"))
    rows.append(("memory", "", "tensorflow", 8.0, 8.1e11, "B/s", "", "results/characterise/memory.json"))
    names = ["kind", "precision", "backend", "threads", "value", "unit", "reason", "source"]
    return pd.DataFrame(rows, columns=names)
