"""Tables of several rounds and of our own runs together: what each source tells, and the analysis of all of them."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pandas as pd

from hpcai.core.table_files import read_parquet
from hpcai.mlperf_hpc.analysis.efficiencies import efficiency_table
from hpcai.mlperf_hpc.analysis.energy import Energy, RunKey
from hpcai.mlperf_hpc.analysis.labels import label_results
from hpcai.mlperf_hpc.analysis.prediction_tables import prediction_tables
from hpcai.mlperf_hpc.analysis.principal_components import principal_table
from hpcai.mlperf_hpc.analysis.reference_epochs import read_reference_epochs
from hpcai.mlperf_hpc.analysis.repeats import mark_repeats
from hpcai.mlperf_hpc.analysis.system_families import system_table
from hpcai.mlperf_hpc.analysis.tables import result_table, run_table
from hpcai.mlperf_hpc.analysis.weak_scores import weak_table
from hpcai.mlperf_hpc.compliance.checked_round import CheckedRound
from hpcai.mlperf_hpc.compliance.tables import verdict_table
from hpcai.mlperf_hpc.rounds.tables import repair_table


def source_tables(
    checked: Sequence[CheckedRound], energies: Mapping[RunKey, Energy] = MappingProxyType({})
) -> dict[str, pd.DataFrame]:
    """Return by name what the analysis of rounds needs to know of each log, system and file.

    Parameters
    ----------
    checked
        Rounds with the verdicts of their logs; without any, the tables have their columns and no rows.
    energies
        Of the runs that have power logs; our own runs have none beside their logs.
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
    """Return the tables of all rounds with their analysis: results, scaling, principal axes and predictions.

    Parameters
    ----------
    tables
        Those of :func:`source_tables`, joined over all rounds and our own runs.
    """
    runs = tables["mlperf_runs"]
    results, weak = result_table(runs), tables["mlperf_weak"]
    return {
        **tables,
        "mlperf_weak": mark_repeats(weak.assign(label=label_results(weak)), runs),
        "mlperf_results": results,
        "mlperf_efficiencies": efficiency_table(results, tables["mlperf_systems"]),
        "mlperf_principal": principal_table(runs, results),
        **prediction_tables(results, tables["mlperf_systems"], read_reference_epochs()),
    }
