"""Made-up rounds whose software ages and whose accelerators differ by their published rates."""

from typing import Any

import numpy as np
import pandas as pd
from unit.mlperf_hpc.analysis.prediction_points_factory import result, tables_of

from hpcai.mlperf_hpc.analysis.accelerators import read_accelerators
from hpcai.mlperf_hpc.analysis.forecast import years_since_first
from hpcai.mlperf_hpc.analysis.prediction_points import PointSet, point_sets
from hpcai.mlperf_hpc.analysis.publication import PUBLISHED
from hpcai.mlperf_hpc.analysis.reference_epochs import read_reference_epochs

AGEING = -0.5
"""Logarithm of the factor by which each year shortens an epoch."""
MACHINES = {"v0.7": ("P100", "V100"), "v1.0": ("V100", "A100"), "v2.0": ("V100", "A100"), "v3.0": ("A100", "H100")}
SCALES = (128, 512)


def submission(origin: str, family: str, units: int, benchmark: str = "cosmoflow", **changes: Any) -> dict[str, Any]:
    """Return one row of results: epoch time by the rates' geometric mean, the age, and n ** -0.9."""
    rates = np.log(read_accelerators()[family].rates) - np.log(read_accelerators()["A100"].rates)
    age = AGEING * years_since_first(PUBLISHED[origin])
    epoch_s = 9000.0 * units**-0.9 * float(np.exp(age - rates.mean()))
    times = {"epoch_s": epoch_s, "epoch_std_s": 0.01 * epoch_s, "staging_s": 0.0, "staging_std_s": 0.0}
    row = result("A1", units, **times) | {
        "origin": origin, "benchmark": benchmark, "org": f"Org{family}", "system": f"{family}_{units}_{origin}",
        "submission": f"Org{family}/{family}_{units}_{origin}", "train_samples": 121266, "evaluations": None,
    }  # fmt: skip
    row["evaluations"] = row["epochs"]
    return row | {"run_s": 1.01 * row["epochs"] * epoch_s} | changes


def all_rounds(names: tuple[str, ...] = ("v0.7", "v1.0", "v2.0", "v3.0"), **changes: Any) -> list[dict[str, Any]]:
    """Return two families at two scales in each round, of two benchmarks."""
    return [
        submission(name, family, units, benchmark, **changes)
        for name in names
        for family in MACHINES[name]
        for units in SCALES
        for benchmark in ("cosmoflow", "deepcam")
    ]


def sets_of(rows: list[dict[str, Any]]) -> list[PointSet]:
    """Return the editions of some rows, without reference runs."""
    return list(point_sets(*tables_of(rows), read_reference_epochs().iloc[:0], joined=True))


def frames_of(rows: list[dict[str, Any]]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables of results and systems."""
    return tables_of(rows)
