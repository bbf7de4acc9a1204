"""Forecast the time of many simultaneous trainings from a few: a model, with an interval from what was measured.

The completion of an instance, counted from the first start, is taken as log-normal. The time for all is the largest
of as many draws as there are instances. Mean and deviation come from few instances, and their uncertainty is drawn as
well (the posterior under the usual flat prior: Student's t for a new instance). How the tail of a system differs from
a log-normal one is drawn from the scatter between published results (:mod:`hpcai.metrics.scaling.weak_tails`).
Contention between instances beyond the measured ones is unknown: the lower bound has none, the upper one has once more
the loss that was measured.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.config.machine import Machine
from hpcai.config.runs import Point
from hpcai.config.sharing import Sharing
from hpcai.core.messages import Message
from hpcai.metrics.scaling.weak_tails import PUBLISHED_TAIL, Tail, draw_factors, draw_slowest
from hpcai.metrics.statistics.summaries import LEVEL, Estimate
from hpcai.records.files import read_part
from hpcai.records.run import RunRecord
from hpcai.records.weak import WeakGroup

FEWEST = 3
"""With fewer instances their deviation says nothing."""
METHOD = "modelled: largest of as many log-normal completions as instances"
TOO_FEW = Message("weak_forecast.too_few", "{n} instances count, a forecast needs {needed}")
FILLED = Message("weak_forecast.filled", "the group of {instances} fills the machine: nothing to extrapolate")
NO_CLOCK = Message("weak_forecast.no_clock", "the instances ran on nodes with clocks of their own")


def forecast_all(
    ends_s: Sequence[float],
    instances: int,
    contention_ratio: float = math.nan,
    *,
    tail: Tail = PUBLISHED_TAIL,
    seed: int = 1,
) -> Estimate:
    """Return the modelled time for all of many instances [s].

    Parameters
    ----------
    ends_s
        Completions of the measured instances, from the first start [s]; at least :data:`FEWEST`.
    instances
        Number of instances to forecast.
    contention_ratio
        Measured rate of an instance among the others over its rate alone; NaN if unknown: the upper bound then has
        no part for contention.
    tail
        Scatter of the slow tail between systems.
    seed
        Seed of the draws: equal arguments give equal results.

    Raises
    ------
    ValueError
        If there are too few instances, or a completion is not positive.
    """
    if len(ends_s) < FEWEST or min(ends_s) <= 0:
        raise ValueError(f"found {len(ends_s)} completions, expected {FEWEST} or more, all positive")
    mean, beyond, draws = draw_slowest(ends_s, instances, seed)
    logs = mean + beyond * draw_factors(tail, draws)
    low, value, high = np.exp(np.quantile(logs, [0.5 - LEVEL / 2, 0.5, 0.5 + LEVEL / 2]))
    slower = 1 / contention_ratio if 0 < contention_ratio < 1 else 1.0
    return Estimate(float(value), float(low), float(high * slower), len(ends_s), METHOD)


def instances_of_machine(machine: Machine, point: Point) -> int:
    """Return how many instances of a point a whole machine holds, each with cores or accelerators of its own."""
    return Sharing.of(machine, point.nodes, point.ranks_per_node, 1).most_instances(machine.nodes)


def forecast_groups(
    groups: Mapping[str, Sequence[RunRecord]], contention: pd.DataFrame, machine: Machine | None = None
) -> pd.DataFrame:
    """Return the scores of weak-scaling groups extrapolated to their whole machine.

    Parameters
    ----------
    groups
        Records of the instances by the file of their group.
    contention
        The table `contention`.
    machine
        As its file describes it now, with the nodes that it has; None: as when each group was measured.

    Returns
    -------
    pandas.DataFrame
        The columns of `weak_forecasts`; a group without a forecast has a reason.

    Raises
    ------
    RecordError
        If a group's file is damaged.
    """
    ratios = dict(zip(contention.get("source", ()), contention.get("contention_ratio", ()), strict=True))
    rows = [_row(path, records, float(ratios.get(path, math.nan)), machine) for path, records in sorted(groups.items())]
    return pd.DataFrame(rows, columns=list(columns_of("weak_forecasts")))


def _row(path: str, records: Sequence[RunRecord], ratio: float, machine: Machine | None) -> dict[str, Any]:
    group, plan = read_part(WeakGroup, Path(path)), records[0].plan
    whole = instances_of_machine(machine or plan.machine, plan.point)
    counted = list(group.counted_results())
    row = {name: getattr(plan.point, name) for name in POINT} | {
        "nodes": plan.point.nodes,
        "ranks": plan.point.ranks,
        "instances": group.instances,
        "whole_instances": whole,
        "contention_ratio": ratio,
        "measured_all_s": group.time_to_train_all_monotonic_s,
        "method": METHOD,
        "source": path,
    }
    starts = [one.run_start_monotonic_s for one in counted if one.run_start_monotonic_s is not None]
    stops = [one.run_stop_monotonic_s for one in counted if one.run_stop_monotonic_s is not None]
    if whole <= group.instances:
        return row | {"reason": FILLED(instances=group.instances)}
    if min(len(starts), len(stops)) < FEWEST:
        return row | {"reason": TOO_FEW(n=len(counted), needed=FEWEST)}
    if group.time_to_train_all_monotonic_s is None:
        return row | {"reason": NO_CLOCK()}
    found = forecast_all([stop - min(starts) for stop in stops], whole, ratio)
    return row | forecast_columns(found, whole) | {"reason": ""}


def forecast_columns(found: Estimate, instances: int) -> dict[str, float]:
    """Return a forecast as columns: the time for all [s], and the models per minute that follow from it."""
    return {
        "time_to_train_all_s": found.value,
        "time_to_train_all_low_s": found.low,
        "time_to_train_all_high_s": found.high,
        "models_per_min": 60 * instances / found.value,
        "models_per_min_low": 60 * instances / found.high,
        "models_per_min_high": 60 * instances / found.low,
    }
