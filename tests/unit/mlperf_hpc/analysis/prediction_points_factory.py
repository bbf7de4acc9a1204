"""Made-up results that follow known laws, for tests of prediction."""

from typing import Any

import numpy as np
import pandas as pd

from hpcai.mlperf_hpc.analysis.columns import RESULT_COLUMNS
from hpcai.mlperf_hpc.analysis.prediction_points import PointSet, point_sets
from hpcai.mlperf_hpc.analysis.reference_epochs import REFERENCE_COLUMNS
from hpcai.mlperf_hpc.analysis.targets import QUALITY

EPOCHS_AT_64, EPOCHS_SLOPE, EFFICIENCY = 50.0, 0.3, 0.9
"""Epochs are a power of the batch, and an epoch on n units takes n ** -0.9 as long."""
FAMILIES = {"A1": 20_000.0, "B2": 60_000.0, "C3": 5_000.0}
"""Epoch time of one unit [s]."""
SCALES = (64, 256, 1024)
Tables = tuple[pd.DataFrame, pd.DataFrame]


def no_references() -> pd.DataFrame:
    """Return a table of reference runs without rows."""
    return pd.DataFrame(columns=list(REFERENCE_COLUMNS))


def result(family: str, units: int, *, batch: int | None = None, noise: float = 0.0, **changes: Any) -> dict[str, Any]:
    """Return one row of results: exactly by the laws, times e ** noise."""
    samples = batch or units
    epochs = EPOCHS_AT_64 * (samples / 64) ** EPOCHS_SLOPE * np.exp(noise)
    epoch_s = FAMILIES[family] * min(units, samples) ** -EFFICIENCY * np.exp(noise)
    system = f"{family}_{units}_{samples}"
    return dict.fromkeys(RESULT_COLUMNS) | {
        "origin": "v9", "method": "published", "submission": f"Org{family}/{system}", "org": f"Org{family}",
        "system": system, "label": f"Org{family} {system}", "benchmark": "cosmoflow", "scaling": "strong",
        "division": "closed", "kept": 8, "units": units, "unit": "accelerator", "global_batch_samples": samples,
        "train_samples": 262144, "epochs": epochs, "epochs_std": 0.05 * epochs, "epoch_s": epoch_s,
        "epoch_std_s": 0.01 * epoch_s, "staging_s": 40.0, "staging_std_s": 1.0, "run_s": 40 + 1.01 * epochs * epoch_s,
        "evaluations": epochs, "source": system,
    } | changes  # fmt: skip


def tables_of(rows: list[dict[str, Any]]) -> Tables:
    """Return results and systems: families are first words of systems, staging is on the clock, targets official."""
    filled = [row if row.get("compute_s") else row | _derive_parts(row) for row in map(_aim, rows)]
    results = pd.DataFrame(filled, columns=list(RESULT_COLUMNS))
    family = results["system"].astype(str).str.split("_").str[0]
    systems = results[["origin", "submission"]].assign(accelerator=family, processor="", family=family, source="x.json")
    return results, systems


def _aim(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its target, or else the official one of its benchmark."""
    official = QUALITY[row["benchmark"]].target if row["benchmark"] in QUALITY else None
    return row | {"quality_target": row["quality_target"] or official}


def _derive_parts(row: dict[str, Any]) -> dict[str, Any]:
    share = row["staging_share_ratio"]
    return {
        "compute_s": row["epochs"] * row["epoch_s"],
        "staging_share_ratio": row["staging_s"] / row["run_s"] if share is None else share,
    }


def all_results(**changes: Any) -> list[dict[str, Any]]:
    """Return three families at three scales each."""
    return [result(family, units, **changes) for family in FAMILIES for units in SCALES]


def points_of(rows: list[dict[str, Any]]) -> PointSet:
    """Return the only edition of some results, without references."""
    (points,) = point_sets(*tables_of(rows), no_references())
    return points
