"""Speed-up and parallel efficiency against the smallest scale of the same benchmark and variant."""

from dataclasses import dataclass

import pandas as pd

from hpcai.metrics.statistics import NOT_MEASURED, Estimate, ratio_interval

COMPLETE = ("converged", "not_converged")
"""Outcomes whose rates and shares enter a mean: the training did all of its work."""
MEASURES = {"time_to_train": "time_to_train_s", "train_rate": "train_rate_samples_per_s"}
"""What is compared across scales, and the column of the run table that holds it."""


@dataclass(frozen=True)
class ScalePoint:
    """Speed-up and efficiency of one measure at one scale."""

    benchmark: str
    variant: str
    scale: str
    nodes: int
    ranks: int
    measure: str
    baseline: str
    baseline_ranks: int
    n: int
    n_baseline: int
    speedup_ratio: float
    speedup_low_ratio: float
    speedup_high_ratio: float
    speedup_ideal_ratio: float
    efficiency_ratio: float
    efficiency_low_ratio: float
    efficiency_high_ratio: float
    method: str
    note: str


def compute_scaling(runs: pd.DataFrame) -> pd.DataFrame:
    """Return speed-up and parallel efficiency of every scale.

    Parameters
    ----------
    runs
        The run table (:func:`hpcai.tables.collect_runs`).

    Returns
    -------
    pandas.DataFrame
        One row per benchmark, variant, scale and measure (time to train, training throughput). With the means over
        the repeats: ``speed-up = T_base / T`` for a time and ``R / R_base`` for a rate, ``efficiency = speed-up *
        ranks_base / ranks``; the base is the smallest scale of the same benchmark and variant, and stands in
        ``baseline``. Converged runs count for the time, all that trained to their end for the rate.
    """
    points = []
    for _, group in runs.groupby(["benchmark", "variant"], sort=True):
        ordered = group.sort_values(["ranks", "nodes"], kind="stable")
        base = ordered[ordered["scale"] == ordered["scale"].iloc[0]]
        for _, at_scale in ordered.groupby("scale", sort=False):
            points += [compare_scales(at_scale, base, measure) for measure in MEASURES]
    return pd.DataFrame(points, columns=list(ScalePoint.__dataclass_fields__))


def compare_scales(at_scale: pd.DataFrame, base: pd.DataFrame, measure: str) -> ScalePoint:
    """Return the point of one measure: the runs of one scale against those of the base scale."""
    here, there = at_scale.iloc[0], base.iloc[0]
    own, reference = _values(at_scale, measure), _values(base, measure)
    speedup = _speedup(own, reference, measure, is_base=here["scale"] == there["scale"])
    ideal = float(here["ranks"] / there["ranks"])
    return ScalePoint(
        benchmark=str(here["benchmark"]),
        variant=str(here["variant"]),
        scale=str(here["scale"]),
        nodes=int(here["nodes"]),
        ranks=int(here["ranks"]),
        measure=measure,
        baseline=str(there["scale"]),
        baseline_ranks=int(there["ranks"]),
        n=len(own),
        n_baseline=len(reference),
        speedup_ratio=speedup.value,
        speedup_low_ratio=speedup.low,
        speedup_high_ratio=speedup.high,
        speedup_ideal_ratio=ideal,
        efficiency_ratio=speedup.value / ideal,
        efficiency_low_ratio=speedup.low / ideal,
        efficiency_high_ratio=speedup.high / ideal,
        method=speedup.method,
        note=speedup.note,
    )


def _values(runs: pd.DataFrame, measure: str) -> list[float]:
    """Measured values of the runs that earned one; a time to train is NaN unless the run converged."""
    return [float(value) for value in runs.loc[runs["outcome"].isin(COMPLETE), MEASURES[measure]].dropna()]


def _speedup(own: list[float], reference: list[float], measure: str, *, is_base: bool) -> Estimate:
    if not reference:
        missing = "the base scale has no value" if not is_base else NOT_MEASURED
        return Estimate(float("nan"), float("nan"), float("nan"), 0, "ratio of arithmetic means", missing)
    if is_base:
        return Estimate(1.0, 1.0, 1.0, len(own), "by definition", "this scale is the base")
    return ratio_interval(reference, own) if measure == "time_to_train" else ratio_interval(own, reference)
