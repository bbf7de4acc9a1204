"""A small study whose measured steps follow the model exactly, so that its predictions can be checked by hand."""

import math
from typing import Any

import pandas as pd
from unit.training.training_plans import MACHINE

from hpcai.config.machine import Machine
from hpcai.predict.training.layers import Layer, LayerList
from hpcai.predict.what_if.measured import StudyTables

LAYERS = LayerList(
    name="small",
    title="a test",
    samples_per_epoch=64,
    layers=(
        Layer("first", "dense", (100,), (1000,), parameters=101_000, bias=True, needs_input_gradient=False),
        Layer("activation", "relu", (1000,), (1000,)),
        Layer("second", "dense", (1000,), (10,), parameters=10_010, bias=True),
    ),
    source="a test",
)
PARAMETERS = 111_010
PEAK, MEMORY = 1e9, 1e12
"""So slow a processor that each product is bound by it; element-wise layers and update take next to nothing."""
FLOP_PER_SAMPLE = 2 * (2 * 100_000 + 3 * 10_000)
FACTOR = 1.1
"""Near 1, so that measured steps that are off by half are still within the limits of a calibration."""
LATENCY_S, BANDWIDTH_BYTES_PER_S, WAITING_S = 2e-4, 1e9, 1e-3
"""Parameters of a transfer over two ranks, and the additional wait of a call."""


def machine(**changes: Any) -> Machine:
    return Machine.model_validate({**MACHINE, **changes})


def compute_s(batch: float) -> float:
    """Return the model's time of a rank; memory takes less than a thousandth of it."""
    return FACTOR * batch * FLOP_PER_SAMPLE / PEAK


def exchange_s(ranks: int, ratio: float = 1.0) -> float:
    """Return the allreduce of all gradients as one message, by hand (eq. 1)."""
    if ranks == 1:
        return 0.0
    rate = BANDWIDTH_BYTES_PER_S  # 16 (P - 1) / P at P = 2 gives 8 times this in bit/s
    return WAITING_S + (ranks - 1) * LATENCY_S + 2 * (ranks - 1) / ranks * 4 * PARAMETERS * ratio / rate


def scale(ranks: int, batch: int, step_s: float, **changes: Any) -> dict[str, Any]:
    row = {
        "benchmark": "small", "variant": "fp32", "engine": "horovod",
        "scale": f"n1x{ranks}", "nodes": 1, "ranks_per_node": ranks,
        "ranks": ranks, "workload": "cosmoflow", "precision": "fp32", "compression": "none", "accumulation": 1,
        "batchnorm_group": 1, "spatial_parts": 1, "part_bytes": 0.0, "fusion_bytes": math.nan,
        "global_batch_samples": batch, "step_time_median_s": step_s,
        "train_rate_samples_per_s": batch / step_s, "baseline": "n1x1",
        "n_disturbed": 1.0, "others_max_ratio": 0.1, "steal_max_ratio": 0.0,
    }  # fmt: skip
    return {**row, **changes}


def run(ranks: int, step_s: float, epochs: int = 4, **changes: Any) -> dict[str, Any]:
    row = {
        "benchmark": "small", "variant": "fp32", "engine": "horovod",
        "scale": f"n1x{ranks}", "outcome": "converged", "time_staging": True,
        "staging_s": 1.0, "training_s": epochs * 4 * step_s, "evaluation_s": epochs * 0.5, "epochs": epochs,
        "time_to_train_s": 1.0 + epochs * (4 * step_s + 0.5) + 0.25,
    }  # fmt: skip
    return {**row, **changes}


def score(ranks: int, coefficient: float = 0.5, **changes: Any) -> dict[str, Any]:
    row = {"benchmark": "small", "variant": "fp32", "engine": "horovod", "scale": f"n1x{ranks}", "flop_per_sample": 1e6}
    return {**row, "quality_coefficient_ratio": coefficient, **changes}


def link_fits(scope: str = "node") -> pd.DataFrame:
    shared = {
        "engine": "horovod", "scope": scope, "ranks": 2, "latency_error_s": 0.0,
        "bandwidth_bytes_per_s": BANDWIDTH_BYTES_PER_S,
        "bandwidth_error_bytes_per_s": 0.0, "n": 9, "misfit_ratio": 0.1, "reason": "", "source": "links.json",
    }  # fmt: skip
    rows = [
        {"what": "transfer", "latency_s": LATENCY_S, **shared},
        {"what": "call", "latency_s": LATENCY_S + WAITING_S, **shared},
    ]
    return pd.DataFrame(rows)


def ceilings() -> pd.DataFrame:
    rows = [
        {"kind": "gemm", "precision": "fp32", "threads": 1.0, "value": PEAK, "source": "gemm.json"},
        {"kind": "gemm", "precision": "fp32", "threads": 2.0, "value": 2 * PEAK, "source": "gemm.json"},
        {"kind": "gemm", "precision": "fp32", "threads": 1.0, "value": PEAK / 2, "source": "slow.json"},
        {"kind": "gemm", "precision": "bf16", "threads": 1.0, "value": 4 * PEAK, "source": "gemm.json"},
        {"kind": "memory", "precision": "", "threads": 1.0, "value": MEMORY, "source": "memory.json"},
    ]
    return pd.DataFrame(rows).assign(status="measured", reason="")


def tables(*scales: dict[str, Any], runs: Any = None, scores: Any = None, fits: Any = None) -> StudyTables:
    """Return the tables of a study with these scales; by default one run and one score of each."""
    names = [(row["ranks"], row["step_time_median_s"], {"variant": row["variant"]}) for row in scales]
    return StudyTables(
        scales=pd.DataFrame(list(scales)),
        scores=pd.DataFrame(scores if scores is not None else [score(ranks, **more) for ranks, _, more in names]),
        runs=pd.DataFrame(runs if runs is not None else [run(ranks, step, **more) for ranks, step, more in names]),
        link_fits=link_fits() if fits is None else fits,
        ceilings=ceilings(),
    )


def exact(*ranks: int, batch: int = 16) -> list[dict[str, Any]]:
    """Return scales of one global batch whose steps follow the model exactly."""
    return [scale(count, batch, compute_s(batch / count) + exchange_s(count)) for count in ranks]
