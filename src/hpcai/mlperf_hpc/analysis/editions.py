"""Editions of a benchmark: results on other data or of another model; figures and curves never join them."""

import pandas as pd

from hpcai.mlperf_hpc.benchmarks import BENCHMARKS

SAME_SAMPLES_RATIO = 1.01
"""Editions of a dataset differ by more; shards that drop a remainder (121216 of 121266) differ by less."""
EVERY_EPOCH_RATIO = 0.1
"""Tolerance of one evaluation per epoch: the last epoch of a run may lack an evaluation."""
EDITED_BY_EVALUATION = tuple(name for name, facts in BENCHMARKS.items() if facts.first_round_model)
"""Benchmarks with two editions on the same data: the first round used another model and evaluated by steps."""
BY_STEPS = ", evaluated by steps"
FIRST_ROUND, FIRST_YEAR = "v0.7", "2020"
"""Name of the round of the first model, and the year in which its runs started."""


def name_editions(results: pd.DataFrame) -> "pd.Series[str]":
    """Return the edition of each result: its training samples and, where needed, its evaluations.

    Parameters
    ----------
    results
        All rows of ``mlperf_results`` that are compared with each other. Results whose numbers of samples differ by a
        remainder are named by the largest number.
    """
    samples = results["train_samples"].astype(float)
    ordered = samples.sort_values().dropna()
    benchmarks = results["benchmark"].reindex(ordered.index)
    before = ordered.groupby(benchmarks).shift()
    starts = (ordered / before > SAME_SAMPLES_RATIO).groupby(benchmarks).cumsum()
    largest = ordered.groupby([benchmarks, starts]).transform("max")
    named = {place: f"{value:.0f} samples" for place, value in largest.items()}
    names = pd.Series([named.get(place, "unknown samples") for place in results.index], results.index, dtype="str")
    return names.where(~evaluated_by_steps(results), names + BY_STEPS).astype(str)


def evaluated_by_steps(results: pd.DataFrame) -> "pd.Series[bool]":
    """Return, per row of ``mlperf_results``, whether its edition evaluates by steps (DeepCAM, v0.7).

    Runs of later rounds and own runs may evaluate every few epochs; they train the model of v1.0 and later.
    """
    often = results["evaluations"].astype(float) / results["epochs"].astype(float)
    of_first = results["origin"].eq(FIRST_ROUND) | results["started_utc"].astype(str).str.startswith(FIRST_YEAR)
    return results["benchmark"].isin(EDITED_BY_EVALUATION) & of_first & ((often - 1).abs() > EVERY_EPOCH_RATIO)
