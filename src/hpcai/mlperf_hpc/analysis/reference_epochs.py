"""Reference convergence points: epochs of the reference implementation, from the package ``mlperf_logging``."""

import json
from importlib import resources
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.mlperf_hpc.benchmarks import BENCHMARKS

RULE_SET = "3.0.0"
"""Version of the points. 2.0.0 has the same files; 1.0.0 has older recipes, which these replaced."""
REFERENCE_COLUMNS = columns_of("reference_epochs")
"""One row per point: ``org`` names the recipe's owner ("reference"), ``kept`` is the number of runs."""


def read_reference_epochs(rule_set: str = RULE_SET) -> pd.DataFrame:
    """Return the reference convergence points of a version, all of them (before pruning)."""
    rows = [row for benchmark in BENCHMARKS for row in _points_of(benchmark, rule_set)]
    return pd.DataFrame(rows, columns=list(REFERENCE_COLUMNS))


def _points_of(benchmark: str, rule_set: str) -> list[dict[str, Any]]:
    name = f"rcp_checker/hpc_{rule_set}/rcps_{benchmark}.json"
    points = json.loads(resources.files("mlperf_logging").joinpath(name).read_text(encoding="utf-8"))
    return [
        {
            "benchmark": benchmark,
            "org": "reference",
            "train_samples": BENCHMARKS[benchmark].reference_samples,
            "global_batch_samples": point["BS"],
            "epochs": float(np.mean(point["Epochs to converge"])),
            "epochs_std": float(np.std(point["Epochs to converge"], ddof=1)),
            "kept": len(point["Epochs to converge"]),
            "source": f"mlperf_logging/{name}: {label}",
        }
        for label, point in points.items()
    ]
