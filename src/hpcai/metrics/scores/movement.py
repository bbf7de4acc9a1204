"""Scores with and without data movement side by side, wherever staging was measured."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from hpcai.catalogue.points import POINT
from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.metrics.cells import divide
from hpcai.metrics.scaling.trials import select_trials

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
        The columns of `movement_scores`. All numbers are means over the trials that the row of `scores` uses.
        With staging on the clock, the time without it is ``run_s - staging_s``; with staging before the clock, the time
        with it is ``run_s + staging_s``. ``vflops_with_movement = vflops * training_s / (training_s + staging_s)``.
    """
    facts = runs[["run_id", "time_staging", "staging_s", "training_s", "staging_place"]]
    joined = run_scores.merge(facts, on="run_id", how="left", validate="1:1")
    rows = [_row(trials) for _, trials in joined.groupby(POINT, sort=False)]
    return pd.DataFrame(rows, columns=list(columns_of("movement_scores")))


def _row(trials: pd.DataFrame) -> dict[str, Any]:
    first, kept = trials.to_dict("records")[0], select_trials(trials).kept
    row = {name: first[name] for name in (*POINT, "nodes", "ranks", "suite", "exponent")}
    row |= {"n": len(kept), "method": "measured", "source": first["record_path"]}
    measured = kept[kept["staging_s"].gt(0) & kept["staging_place"].fillna("").ne("")]
    if len(measured) < len(kept) or kept.empty:
        place = "no run trained to its end" if kept.empty else "the data were read where they are"
        return row | {"reason": NO_STAGING(place=place)}
    return row | _times(kept) | _vflops(kept, first)


def _times(kept: pd.DataFrame) -> dict[str, Any]:
    """Return the times to train; the runs have them only at the target, and all of them must."""
    on_clock = kept["time_staging"].astype(bool)
    inside_s = kept["staging_s"].where(on_clock, 0.0)
    time_s = kept["time_to_train_s"]
    found: dict[str, Any] = {
        "staging_s": float(kept["staging_s"].mean()),
        "staging_on_clock": "yes" if on_clock.all() else "no" if not on_clock.any() else "in some runs",
    }
    if time_s.isna().any():
        return found | {"reason": NO_TIME(n=int(time_s.notna().sum()), of=len(kept))}
    with_s, without_s = time_s - inside_s + kept["staging_s"], time_s - inside_s
    return found | {
        "time_with_movement_s": float(with_s.mean()),
        "time_without_movement_s": float(without_s.mean()),
        "movement_share_ratio": divide(float(kept["staging_s"].mean()), float(with_s.mean())),
        "reason": "",
    }


def _vflops(kept: pd.DataFrame, first: Mapping[Any, Any]) -> dict[str, Any]:
    """Return VFLOPS where the suite's rule defines them; with data movement they are ours, and labelled so."""
    if math.isnan(first["exponent"]) or kept["vflops_flop_per_s"].isna().any():
        return {"vflops_label": ""}
    share = kept["training_s"] / (kept["training_s"] + kept["staging_s"])
    return {
        "vflops_flop_per_s": float(kept["vflops_flop_per_s"].mean()),
        "vflops_with_movement_flop_per_s": float((kept["vflops_flop_per_s"] * share).mean()),
        "vflops_label": OWN_DEFINITION(suite=first["suite"]),
    }
