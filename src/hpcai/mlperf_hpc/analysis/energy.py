"""Energy of runs from their power logs, if any, with the formulas of the package's result summarizer."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.mlperf_hpc.analysis.counted_runs import keep_runs
from hpcai.mlperf_hpc.analysis.result_quantities import counts_officially
from hpcai.mlperf_hpc.rounds.limits import Budget
from hpcai.mlperf_hpc.rounds.model import Repair, Round
from hpcai.mlperf_hpc.rounds.pairing import number_in
from hpcai.mlperf_hpc.rounds.source import read_files
from hpcai.mlperf_hpc.rounds.tree import POWER, is_power_log
from hpcai.parsers.mllog import Mllog, MllogEvent, parse_mllog

ENERGY_COLUMNS = columns_of("mlperf_energy")
"""Table ``mlperf_energy``: one row per strong-scaling result whose logs come with a folder ``power``."""
NO_NODES = "no energy: its power folder holds no log of a node (node_*.txt)"
RunKey = tuple[str, str]
"""Name of the round and path of the log."""


@dataclass(frozen=True)
class Energy:
    """Energy of one run [J]; NaN with a reason where the logs give none."""

    energy_j: float
    reason: str = ""


def run_energy(nodes: Sequence[Mllog], switches: Iterable[Mllog], run_s: float) -> Energy:
    """Return the energy of one run.

    Parameters
    ----------
    nodes, switches
        Logs ``power/result_N/node_*.txt`` and ``sw_*.txt``.
    run_s
        run_start to run_stop [s].

    Returns
    -------
    Energy
        The sum over all nodes and switches. A node's energy is its mean power within its own measurement window, times
        the time of the run: ``conversion_eff * sum(power_i * (t_i - t_(i-1))) / (stop - start) * run_s``. Each reading
        covers the time since the previous one; readings before the start and after the stop are ignored. Without a
        stop, the last reading ends the window. As in the package, the time between the last reading and the stop counts
        as zero power, and the conversion efficiency is a factor. A switch's energy is
        ``conversion_eff * interconnect_power_est * run_s``.

    References
    ----------
    mlperf_logging 4.1.68, result_summarizer.py, ``_compute_power_node`` and ``_compute_power_sw``.
    """
    if not nodes:
        return Energy(math.nan, NO_NODES)
    parts = [_node_energy(log, run_s) for log in nodes] + [_switch_energy(log, run_s) for log in switches]
    reasons = [part.reason for part in parts if part.reason]
    return Energy(math.nan, "; ".join(reasons)) if reasons else Energy(sum(part.energy_j for part in parts))


def read_energies(rounds: Iterable[Round], repairs: list[Repair]) -> dict[RunKey, Energy]:
    """Return the energies of all runs with a folder ``power`` that holds logs of nodes and switches.

    Parameters
    ----------
    rounds
        Only their power folders are read; archives with power logs are read once more.
    repairs
        Collects entries for files that cannot be read.
    """
    found: dict[RunKey, Energy] = {}
    for part in rounds:
        runs = [run for submission in part.submissions for run in (*submission.runs, *submission.pruned)]
        places = _places(part, {PurePosixPath(run.source).parent for run in runs})
        logs = _read_power_logs(Path(part.source), places, repairs)
        for run in runs:
            beside = PurePosixPath(run.source).parent / POWER / PurePosixPath(run.source).stem
            if beside.parent in {folder.parent for folder, _ in logs} and run.run is not None:
                nodes, switches = (logs.get((beside, kind), []) for kind in ("node", "sw"))
                found[part.name, run.source] = run_energy(nodes, switches, run.run.duration_s)
    return found


def _read_power_logs(
    root: Path, places: Iterable[PurePosixPath], repairs: list[Repair]
) -> dict[tuple[PurePosixPath, str], list[Mllog]]:
    """Return the power logs by folder, ``FOLDER/power/result_N``, and kind of device."""
    logs: dict[tuple[PurePosixPath, str], list[Mllog]] = {}
    budget = Budget(root)
    for folder in places:
        wanted = is_power_log if folder.name != POWER else _is_text
        for name, content in read_files(root / folder, wanted, repairs, budget):
            path = folder / name
            kind = "node" if path.name.startswith("node_") else "sw"
            logs.setdefault((path.parent, kind), []).append(parse_mllog(content, str(root / path)))
    return logs


def _places(part: Round, folders: Iterable[PurePosixPath]) -> list[PurePosixPath]:
    """Return the places of power logs: existing folders, or a whole archive that holds some."""
    root = Path(part.source)
    if root.is_dir():
        return [folder / POWER for folder in sorted(folders) if (root / folder / POWER).is_dir()]
    return [PurePosixPath()] if part.power_logs else []


def _is_text(path: str) -> bool:
    return path.endswith(".txt")


def energy_table(runs: pd.DataFrame, energies: Mapping[RunKey, Energy]) -> pd.DataFrame:
    """Return the energies of results.

    Parameters
    ----------
    runs
        The table ``mlperf_runs``.
    energies
        Energies of the runs with power logs.

    Returns
    -------
    pandas.DataFrame
        ``ENERGY_COLUMNS``. The energy is the mean over the runs that the time to train averages (all but the fastest
        and the slowest), times the factor of scaling.json, as in the package.
    """
    groups = runs[runs["scaling"] == "strong"].groupby(["origin", "submission", "benchmark"], sort=False)
    rows = [_energy_row(group, energies) for _, group in groups]
    return pd.DataFrame([row for row in rows if row], columns=list(ENERGY_COLUMNS))


def _energy_row(runs: pd.DataFrame, energies: Mapping[RunKey, Energy]) -> dict[str, Any]:
    first = runs.iloc[0]
    keys = list(zip(runs["origin"], runs["source"], strict=True))
    found = [energies[key] for key in keys if key in energies]
    if not found:
        return {}
    good = counts_officially(runs).tolist()
    kept = [energies.get(keys[place], Energy(math.nan)) for place in keep_runs(runs["run_s"].tolist(), good)]
    factor = 1.0 if pd.isna(first["scaling_factor"]) else float(first["scaling_factor"])
    mean_j = math.fsum(energy.energy_j for energy in kept) / len(kept) * factor if kept else math.nan
    why = "no time to train by its logs, or a run that it averages has no energy" if math.isnan(mean_j) else ""
    return {
        **{name: first[name] for name in ENERGY_COLUMNS if name in runs},
        "runs": len(runs),
        "runs_with_energy": sum(math.isfinite(energy.energy_j) for energy in found),
        "energy_j": mean_j,
        "reason": "; ".join(dict.fromkeys(filter(None, [why, *(energy.reason for energy in found)]))),
        "source": str(PurePosixPath(str(first["source"])).parent / POWER),
    }


def _node_energy(log: Mllog, run_s: float) -> Energy:
    events = sorted(log.events, key=lambda event: event.time_ms)
    start = previous = stop = math.nan
    work, efficiency, stopped = 0.0, 1.0, False
    for event in events:
        if event.key == "power_measurement_start":
            start = previous = event.time_ms
        if event.key == "power_reading" and not stopped and not math.isnan(start):
            work += _value(event) * (event.time_ms - previous)
            previous = event.time_ms
        if event.key == "power_measurement_stop":
            stop, stopped = event.time_ms, True
        if event.key == "conversion_eff":
            efficiency = _value(event)
    if math.isnan(start):
        return Energy(math.nan, f"no energy: {log.source} has no power_measurement_start")
    window_ms = (stop if stopped else previous) - start
    energy_j = efficiency * work / window_ms * run_s if window_ms > 0 else math.nan
    if not math.isfinite(energy_j):
        return Energy(math.nan, f"no energy: {log.source} has no power_reading with a number within its window")
    return Energy(energy_j)


def _switch_energy(log: Mllog, run_s: float) -> Energy:
    efficiency = 1.0
    for event in log.events:
        if event.key == "conversion_eff":
            efficiency = _value(event)
        if event.key == "interconnect_power_est":
            energy_j = efficiency * _value(event) * run_s
            if math.isfinite(energy_j):
                return Energy(energy_j)
            return Energy(math.nan, f"no energy: {log.source} states no number of watts")
    return Energy(0.0)  # the package counts a switch without an estimate as 0


def _value(event: MllogEvent) -> float:
    number = number_in(event.value)
    return math.nan if number is None else number
