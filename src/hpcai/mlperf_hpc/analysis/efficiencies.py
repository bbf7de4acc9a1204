"""Scaling efficiencies between results of one benchmark, and variation from run to run."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from hpcai.mlperf_hpc.analysis.columns import EFFICIENCY_COLUMNS
from hpcai.mlperf_hpc.analysis.run_quantities import divide

SAME_DATA_RATIO = 0.01
"""Data sets whose numbers of training samples differ by less are the same: one published submission counts 121 216 of
121 266 samples."""
RATES: Mapping[str, str] = {"train": "train_rate_samples_per_s", "evaluation": "evaluation_rate_samples_per_s"}

Row = Mapping[Any, Any]


def speedup(base: Row, result: Row, quantity: str) -> float:
    """Return by which factor a result is faster than another.

    Parameters
    ----------
    base, result
        Rows of the result table.
    quantity
        "train" or "evaluation", the ratio of the harmonic mean throughputs; or "time_to_solution", that of the times.
    """
    if quantity == "time_to_solution":
        return divide(base["run_s"], result["run_s"])
    return divide(result[RATES[quantity]], base[RATES[quantity]])


def efficiency(base: Row, result: Row, quantity: str) -> float:
    """Return the scaling efficiency (throughput_b / units_b) / (throughput_a / units_a) (mlperf_logs.md 6).

    For the time to solution it is the speed-up over the ratio of units: it counts the epochs that larger batches cost.
    """
    return speedup(base, result, quantity) * divide(base["units"], result["units"])


def efficiency_table(results: pd.DataFrame, systems: pd.DataFrame) -> pd.DataFrame:
    """Return each result against its baselines within the same round.

    A baseline is the result with the fewest compute units, once of the same organisation and once of all; of several
    with as few the one that is fastest. Results are compared only on the same benchmark, target and training data, and
    on units of the same model: the ratio of different machines is no scaling.

    Parameters
    ----------
    results
        The result table.
    systems
        ``SYSTEM_COLUMNS`` of :mod:`hpcai.mlperf_hpc.analysis.system_families`; results that are not in it are compared
        with none.

    Returns
    -------
    DataFrame
        ``EFFICIENCY_COLUMNS``; ``base`` and ``result`` are labels.
    """
    families = systems[["origin", "submission", "family"]].drop_duplicates(["origin", "submission"])
    joined = results.merge(families, on=["origin", "submission"], how="left")
    rows = [row for result in joined.to_dict("records") for row in _compare(result, joined)]
    return pd.DataFrame(rows, columns=EFFICIENCY_COLUMNS)


def _compare(result: Row, results: pd.DataFrame) -> Iterator[Row]:
    for base in _baselines(result, results):
        for quantity in (*RATES, "time_to_solution"):
            yield {
                "origin": result["origin"],
                "benchmark": result["benchmark"],
                "quantity": quantity,
                "base": base["label"],
                "result": result["label"],
                "base_units": base["units"],
                "units": result["units"],
                "efficiency_ratio": efficiency(base, result, quantity),
                "speedup_ratio": speedup(base, result, quantity),
            }


def _baselines(result: Row, results: pd.DataFrame) -> list[Row]:
    comparable = results[[is_comparable(result, other) for other in results.to_dict("records")]]
    bases: dict[str, Row] = {}
    for family in (comparable[comparable["org"] == result["org"]], comparable):
        for base in family.sort_values(["units", "run_s", "label"]).head(1).to_dict("records"):
            if base["label"] != result["label"]:
                bases[base["label"]] = base
    return list(bases.values())


def is_comparable(one: Row, other: Row) -> bool:
    """Return whether two results of a round are runs of the same task on units of one model, with known scales."""
    same = all(one[name] == other[name] for name in ("origin", "benchmark", "quality_target", "family"))
    known = bool(pd.notna(one["units"])) and bool(pd.notna(other["units"]))
    samples = abs(one["train_samples"] - other["train_samples"])
    return bool(same and known and samples <= SAME_DATA_RATIO * one["train_samples"])
