"""Scores with and without data movement side by side, wherever staging was measured."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.metrics.cells import divide
from hpcai.metrics.scaling.trials import Trials, select_trials, training_times
from hpcai.metrics.statistics.summaries import Sample

NO_STAGING = Message("movement.no_staging", "staging was not measured: {place}")
NO_TIME = Message("movement.no_time", "no time to train: {n} of {of} runs reached the target")
OWN_DEFINITION = Message(
    "movement.own_definition",
    "VFLOPS with data movement are not a score of {suite}: its clock starts at the first training batch; ours divides "
    "the same work by the time of training and staging",
)


def movement_scores(runs: pd.DataFrame, run_scores: pd.DataFrame) -> pd.DataFrame:
    """Return the time to train and VFLOPS of each scale, with and without staging.

    Parameters
    ----------
    runs, run_scores
        The tables of runs and of their scores.

    Returns
    -------
    pandas.DataFrame
        The columns of `movement_scores`. Its numbers are of the trials that the row of `scores` uses, combined by the
        same ``statistic``; the times are of those that the time to train of the suite is made of
        (:func:`hpcai.metrics.scaling.trials.training_times`), ``time_to_train_n`` runs.
        With staging on the clock, the time without it is ``run_s - staging_s``; with staging before the clock, the time
        with it is ``run_s + staging_s``. ``vflops_with_movement = vflops * training_s / (training_s + staging_s)``.
    """
    scored = run_scores[["run_id", "exponent", "vflops_flop_per_s"]]
    joined = scored.merge(runs, on="run_id", validate="1:1")
    rows = [_row(group) for _, group in joined.groupby(POINT, sort=False)]
    return pd.DataFrame(rows, columns=list(columns_of("movement_scores")))


def _row(group: pd.DataFrame) -> dict[str, Any]:
    first, trials = group.to_dict("records")[0], select_trials(group)
    kept = trials.kept
    row = {name: first[name] for name in (*POINT, "nodes", "ranks", "suite", "exponent")}
    row |= {"n": len(kept), "statistic": trials.words, "time_to_train_score_method": ""}
    row |= {"method": "measured", "source": first["record_path"]}
    measured = kept[kept["staging_s"].gt(0) & kept["staging_place"].fillna("").ne("")]
    if len(measured) < len(kept) or kept.empty:
        place = "no run trained to its end" if kept.empty else "the data were read where they are"
        return row | {"reason": NO_STAGING(place=place)}
    return row | _times(group, trials) | _vflops(trials, first)


def _times(group: pd.DataFrame, trials: Trials) -> dict[str, Any]:
    """Return the times to train of the runs that the suite's own time is made of, with and without staging."""
    on_clock = trials.kept["time_staging"].astype(bool)
    found: dict[str, Any] = {
        "staging_s": trials.sample("staging_s").value,
        "staging_on_clock": "yes" if on_clock.all() else "no" if not on_clock.any() else "in some runs",
    }
    times, reached = training_times(group, trials), trials.kept[trials.kept["outcome"] == "converged"]
    if math.isnan(times.sample.value):
        return found | {"reason": times.note if len(reached) else NO_TIME(n=0, of=len(trials.kept))}
    without_s = reached["time_to_train_s"] - reached["staging_s"].where(reached["time_staging"].astype(bool), 0.0)
    shown = {"with": without_s + reached["staging_s"], "without": without_s}
    value_s = {name: replace(times.sample, values=shifted.to_numpy(float)).value for name, shifted in shown.items()}
    return found | {
        "time_to_train_n": times.sample.n,
        "time_to_train_score_method": times.sample.words,
        "time_with_movement_s": value_s["with"],
        "time_without_movement_s": value_s["without"],
        "movement_share_ratio": divide(value_s["with"] - value_s["without"], value_s["with"]),
        "reason": "",
    }


def _vflops(trials: Trials, first: Mapping[Any, Any]) -> dict[str, Any]:
    """Return VFLOPS where the suite's rule defines them; with data movement they are ours, and labelled so."""
    vflops = trials.sample("vflops_flop_per_s")
    if math.isnan(first["exponent"]) or math.isnan(vflops.value):
        return {"vflops_label": ""}
    share = trials.kept["training_s"] / (trials.kept["training_s"] + trials.kept["staging_s"])
    return {
        "vflops_flop_per_s": vflops.value,
        "vflops_with_movement_flop_per_s": Sample(vflops.values * share.to_numpy(float), vflops.statistic).value,
        "vflops_label": OWN_DEFINITION(suite=first["suite"]),
    }
