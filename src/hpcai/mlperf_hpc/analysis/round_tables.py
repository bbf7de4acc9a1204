"""Tables of several rounds and of our own runs: the facts of each source, and their joint analysis."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.core.table_files import read_parquet
from hpcai.mlperf_hpc.analysis.backtest import forecast_table
from hpcai.mlperf_hpc.analysis.columns import EFFICIENCY_COLUMNS, PRINCIPAL_COLUMNS
from hpcai.mlperf_hpc.analysis.energy import Energy, RunKey
from hpcai.mlperf_hpc.analysis.labels import label_results
from hpcai.mlperf_hpc.analysis.prediction_tables import prediction_tables
from hpcai.mlperf_hpc.analysis.reference_epochs import read_reference_epochs
from hpcai.mlperf_hpc.analysis.repeats import mark_repeats
from hpcai.mlperf_hpc.analysis.run_quantities import NAN, divide
from hpcai.mlperf_hpc.analysis.system_families import system_table
from hpcai.mlperf_hpc.analysis.tables import result_table, run_table
from hpcai.mlperf_hpc.analysis.weak_backtest import backtest_table
from hpcai.mlperf_hpc.analysis.weak_scores import weak_table
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
from hpcai.mlperf_hpc.compliance.tables import verdict_table
from hpcai.mlperf_hpc.rounds.tables import repair_table

Floats = NDArray[np.float64]
_RESULT = ["origin", "submission", "benchmark"]


@dataclass(frozen=True, slots=True)
class Axes:
    """Centre and principal axes of points (log10 epochs, log10 epoch throughput).

    Attributes
    ----------
    runs
        Number of points.
    centre_epochs, centre_epoch_rate_per_s
        Geometric means.
    std1_log10, std2_log10
        Standard deviations along the axes, the larger first; 10 to their power is a half axis as a factor.
    axis1_epochs, axis1_rate, axis2_epochs, axis2_rate
        Unit vectors. Their sign is arbitrary; here the epoch coordinate is not negative.
    variance1_ratio
        Share of the variance along the first axis.
    correlation_ratio
        Correlation of log epochs and log throughput; NaN where one of them is constant.
    """

    runs: int
    centre_epochs: float = NAN
    centre_epoch_rate_per_s: float = NAN
    std1_log10: float = NAN
    axis1_epochs: float = NAN
    axis1_rate: float = NAN
    std2_log10: float = NAN
    axis2_epochs: float = NAN
    axis2_rate: float = NAN
    variance1_ratio: float = NAN
    correlation_ratio: float = NAN


def principal_axes(epochs: Floats, epoch_rates_per_s: Floats) -> Axes:
    """Return the principal axes of the sample covariance (divisor: runs - 1) of the logarithms.

    A long first axis along the epochs means that convergence, not the machine, makes runs differ, because
    log T_epochs = log n - log(n / T_epochs) (Fig. 3 of the paper; mlperf_logs.md 6). The authors' released analysis
    feeds epoch times into it and labels the axis throughput, so its second coordinate has the opposite sign.

    Parameters
    ----------
    epochs, epoch_rates_per_s
        n and n / T_epochs [1/s] of the kept runs.

    Returns
    -------
    Axes
        All NaN except ``runs`` with fewer than two runs, or with a value that is not a positive number.
    """
    points = np.stack([epochs, epoch_rates_per_s]).astype(np.float64)
    if points.shape[1] < 2 or not (np.isfinite(points) & (points > 0)).all():
        return Axes(points.shape[1])
    logs = np.log10(points)
    # Dividing by the first run gives exact zeros if all runs have the same number of epochs.
    offsets = logs - logs[:, :1]
    covariance = np.cov(offsets)
    variances, vectors = np.linalg.eigh(covariance)
    stds = np.sqrt(np.clip(variances, 0.0, None))
    first, second = _orient(vectors[:, 1]), _orient(vectors[:, 0])
    centre = 10 ** logs.mean(axis=1)
    total = float(variances.sum())
    spread = math.sqrt(covariance[0, 0] * covariance[1, 1])
    return Axes(
        runs=points.shape[1],
        centre_epochs=float(centre[0]),
        centre_epoch_rate_per_s=float(centre[1]),
        std1_log10=float(stds[1]),
        axis1_epochs=float(first[0]),
        axis1_rate=float(first[1]),
        std2_log10=float(stds[0]),
        axis2_epochs=float(second[0]),
        axis2_rate=float(second[1]),
        variance1_ratio=float(variances[1]) / total if total else NAN,
        correlation_ratio=float(covariance[0, 1]) / spread if spread else NAN,
    )


def principal_table(runs: pd.DataFrame, results: pd.DataFrame) -> pd.DataFrame:
    """Return the principal axes of each result (Fig. 3).

    Parameters
    ----------
    runs, results
        The run table and the result table made from it.

    Returns
    -------
    DataFrame
        ``PRINCIPAL_COLUMNS``, in the order of the results.
    """
    kept = runs[runs["kept_by_status"]]
    rows = []
    for result in results.to_dict("records"):
        own = kept[kept[_RESULT].eq([result[name] for name in _RESULT]).all(axis=1)]
        axes = principal_axes(own["epochs"].to_numpy(np.float64), own["epoch_rate_per_s"].to_numpy(np.float64))
        named = {name: result[name] for name in ("origin", "submission", "label", "benchmark", "division")}
        rows.append({**named, **asdict(axes)})
    return pd.DataFrame(rows, columns=PRINCIPAL_COLUMNS)


def _orient(axis: Floats) -> Floats:
    """Flip an axis so that its epoch coordinate (or, if zero, its throughput coordinate) is not negative."""
    leading = axis[0] or axis[1]
    return np.asarray((-axis if leading < 0 else axis) + 0.0)


SAME_DATA_RATIO = 0.01
"""Datasets count as the same if their numbers of training samples differ by less: one published submission counts
121 216 of 121 266 samples."""
RATES: Mapping[str, str] = {"train": "train_rate_samples_per_s", "evaluation": "evaluation_rate_samples_per_s"}

Row = Mapping[Any, Any]


def speedup(base: Row, result: Row, quantity: str) -> float:
    """Return the speed-up of a result over another.

    Parameters
    ----------
    base, result
        Rows of the result table.
    quantity
        "train" or "evaluation" compares harmonic mean throughputs; "time_to_solution" compares times.
    """
    if quantity == "time_to_solution":
        return divide(base["run_s"], result["run_s"])
    return divide(result[RATES[quantity]], base[RATES[quantity]])


def efficiency(base: Row, result: Row, quantity: str) -> float:
    """Return the scaling efficiency (throughput_b / units_b) / (throughput_a / units_a) (mlperf_logs.md 6).

    For the time to solution it is the speed-up over the ratio of units, which includes the extra epochs of larger
    batches.
    """
    return speedup(base, result, quantity) * divide(base["units"], result["units"])


def efficiency_table(results: pd.DataFrame, systems: pd.DataFrame) -> pd.DataFrame:
    """Compare each result with its baselines within the same round.

    A baseline is the result with the fewest compute units, once within the organisation and once overall; ties go to
    the fastest. Results are compared only on the same benchmark, target and training data, and on units of the same
    model: the ratio of different machines is not scaling.

    Parameters
    ----------
    results
        The result table.
    systems
        ``SYSTEM_COLUMNS`` of :mod:`hpcai.mlperf_hpc.analysis.system_families`; results missing in it are not
        compared.

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
    """Return whether two results of a round are runs of the same task on units of one model, with known scales.

    Processors are not compared with accelerators, whatever the name of the model.
    """
    same = all(one[name] == other[name] for name in ("origin", "benchmark", "quality_target", "family", "unit"))
    known = bool(pd.notna(one["units"])) and bool(pd.notna(other["units"]))
    samples = abs(one["train_samples"] - other["train_samples"])
    return bool(same and known and samples <= SAME_DATA_RATIO * one["train_samples"])


def source_tables(
    checked: Sequence[CheckedRound], energies: Mapping[RunKey, Energy] = MappingProxyType({})
) -> dict[str, pd.DataFrame]:
    """Return `hpcai.config.rounds.SOURCE_TABLES`: the facts of each log, system and file that the analysis needs.

    Parameters
    ----------
    checked
        Rounds with the verdicts of their logs; if empty, the tables have columns but no rows.
    energies
        Energies of runs with power logs; our own runs have none.
    """
    rounds = [one.round for one in checked]
    return {
        "mlperf_runs": run_table(checked),
        "mlperf_weak": weak_table(checked, energies),
        "mlperf_verdicts": verdict_table(checked),
        "mlperf_repairs": repair_table(rounds),
        "mlperf_systems": system_table(rounds),
    }


def join_files(files: Iterable[Path]) -> dict[str, pd.DataFrame]:
    """Return the rows of all Parquet files of one name, by that name."""
    named: dict[str, list[pd.DataFrame]] = {}
    for file in files:
        named.setdefault(file.stem, []).append(read_parquet(file))
    return {
        name: pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
        for name, parts in named.items()
    }


def analyse_tables(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Analyse the tables of all rounds: results, scaling, principal axes and predictions.

    Parameters
    ----------
    tables
        Those of :func:`source_tables`, joined over all rounds and our own runs.
    """
    runs = tables["mlperf_runs"]
    results, weak = result_table(runs), tables["mlperf_weak"]
    marked = mark_repeats(weak.assign(label=label_results(weak)), runs)
    return {
        **tables,
        "mlperf_weak": marked,
        "mlperf_weak_backtest": backtest_table(runs, marked),
        "mlperf_results": results,
        "mlperf_efficiencies": efficiency_table(results, tables["mlperf_systems"]),
        "mlperf_principal": principal_table(runs, results),
        **prediction_tables(results, tables["mlperf_systems"], read_reference_epochs()),
        "mlperf_forecasts": forecast_table(results, tables["mlperf_systems"]),
    }
