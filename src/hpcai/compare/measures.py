"""The scores to compare, most important first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from hpcai.core.errors import ConfigError
from hpcai.metrics.scaling.trials import COMPLETE
from hpcai.metrics.scores.trial_scores import is_error_metric
from hpcai.metrics.statistics.summaries import finite

Better = Literal["lower", "higher", ""]
"""Direction of improvement; blank if a number alone does not determine it."""


@dataclass(frozen=True)
class Measure:
    """One score of a run.

    Attributes
    ----------
    column
        Its column of the tables `runs` or `run_scores`; the unit ends the name.
    words, unit
        Display name and unit.
    better
        Direction of improvement; blank for quality, whose direction depends on its metric.
    needs
        Columns that must be equal on both sides for values to be comparable.
    source_column
        Column that names the source of a value shared by several runs, such as their power: it counts once.
    """

    column: str
    words: str
    unit: str
    better: Better
    needs: tuple[str, ...] = ()
    source_column: str = ""


_CLOCK = ("time_staging",)
_WORK = ("flop_method", "flop_per_sample")
_QUALITY_WEIGHT = ("exponent",)
_POWER = ("power_method",)
QUALITY = "last_quality"
MEASURES = (
    Measure("time_to_train_s", "time to train", "s", "lower", _CLOCK),
    Measure("vflops_flop_per_s", "VFLOPS", "FLOP/s", "higher", (*_WORK, *_QUALITY_WEIGHT)),
    Measure("rate_flop_per_s", "FLOPS", "FLOP/s", "higher", _WORK),
    Measure("train_rate_samples_per_s", "training throughput", "samples/s", "higher"),
    Measure(QUALITY, "quality", "", ""),
    Measure("epochs_to_target", "epochs to target", "epochs", "lower"),
    Measure("time_to_quality_s", "time to quality", "s", "lower", _CLOCK),
    Measure("step_time_median_s", "step time", "s", "lower"),
    Measure("staging_s", "staging", "s", "lower"),
    Measure("evaluation_rate_samples_per_s", "evaluation throughput", "samples/s", "higher"),
    Measure("init_s", "initialisation", "s", "lower"),
    Measure("overhead_s", "outside staging and epochs", "s", "lower"),
    Measure("mean_power_w", "mean power", "W", "lower", _POWER, "power_source"),
    Measure("flop_per_j", "FLOPS per watt", "FLOP/J", "higher", (*_WORK, *_POWER), "power_source"),
    Measure(
        "vflops_flop_per_j", "VFLOPS per watt", "FLOP/J", "higher", (*_WORK, *_QUALITY_WEIGHT, *_POWER), "power_source"
    ),
    Measure("peak_memory_bytes", "peak memory", "bytes", "lower"),
)
BY_NAME = {measure.column: measure for measure in MEASURES}
HEADLINES = ("time_to_train_s", "vflops_flop_per_s", "train_rate_samples_per_s")
"""Default measures for judging a regression: each additional one makes a finding harder."""


def choose_measures(names: Sequence[str]) -> tuple[Measure, ...]:
    """Return the named measures, in order of importance.

    Raises
    ------
    ConfigError
        If a name is unknown; lists the known ones.
    """
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise ConfigError(f"--measure: found {', '.join(unknown)}; allowed: {', '.join(BY_NAME)}")
    return tuple(measure for measure in MEASURES if measure.column in names)


def values_of(runs: pd.DataFrame, measure: Measure) -> list[float]:
    """Return one value per run that has one, or per measurement if one measurement served several runs."""
    if measure.column not in runs:
        return []
    complete = runs[runs["outcome"].isin(COMPLETE)].dropna(subset=[measure.column])
    values = complete[measure.column].astype(float)
    if measure.source_column and measure.source_column in complete:
        values = values.groupby(complete[measure.source_column].fillna("").astype(str), sort=False).mean()
    return [float(value) for value in finite(values)]


def direction_of(measure: Measure, runs: pd.DataFrame) -> Better:
    """Return the direction of improvement; for a quality, that of the metric, blank if no run names one.

    Outcomes do not tell it: where the number of epochs is fixed, a run that fell back below its target has not
    converged.
    """
    if measure.column != QUALITY:
        return measure.better
    metrics = {str(name) for name in runs["quality_metric"].dropna()} - {""} if "quality_metric" in runs else set()
    found = {is_error_metric(name) for name in metrics}
    return ("lower" if found.pop() else "higher") if len(found) == 1 else ""
