"""Strong or weak scaling; speed-up and efficiency against the smallest scale of the same benchmark and variant."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import pandas as pd

from hpcai.catalogue.points import SERIES
from hpcai.core.messages import Message
from hpcai.metrics.scaling.trials import COMPLETE, select_trials, training_times
from hpcai.metrics.statistics.summaries import FEWEST_PAIRS, NOT_MEASURED, Estimate, Sample, paired_ratio, ratio_of

NO_BASE_VALUE = Message("efficiency.no_base_value", "the base scale has no value")
REACHED_ONLY = Message(
    "efficiency.reached_only",
    "only runs that reached the target have a time: {here} of {of_here} here, {there} of {of_there} at the base",
)
MEASURES = {"time_to_train": "time_to_train_s", "train_rate": "train_rate_samples_per_s"}
"""Quantities compared across scales, and their columns in the run table."""
RegimeName = Literal["strong", "weak", "mixed", "undetermined"]
NO_IDEAL = (
    "no ideal speed-up of the time to train: the global batch changes with the ranks, and so does the required number "
    "of epochs"
)


@dataclass(frozen=True)
class Regime:
    """What stays constant with growing ranks: the work of a step, that of a rank, or neither; and the evidence."""

    name: RegimeName
    reason: str

    @property
    def same_problem(self) -> bool:
        """Whether an optimizer step is the same at all scales, so that equal epochs lead to the target."""
        return self.name in ("strong", "undetermined")


@dataclass(frozen=True)
class ScaleRuns:
    """The runs of one scale.

    Attributes
    ----------
    runs
        Their rows in the table of runs.
    samples
        The sample of each measure (:func:`sample_of`).
    left_out
        Runs of the scale's row that missed the target and so are not in the sample of the times to train.
    """

    runs: pd.DataFrame
    samples: dict[str, Sample]
    left_out: int


@dataclass(frozen=True)
class ScalePoint:
    """Speed-up and efficiency of one measure at one scale."""

    benchmark: str
    variant: str
    engine: str
    scale: str
    nodes: int
    ranks: int
    measure: str
    baseline: str
    baseline_ranks: int
    n: int
    n_baseline: int
    statistic: str
    speedup_ratio: float
    speedup_low_ratio: float
    speedup_high_ratio: float
    speedup_ideal_ratio: float
    efficiency_ratio: float
    efficiency_low_ratio: float
    efficiency_high_ratio: float
    regime: RegimeName
    regime_reason: str
    method: str
    note: str


def tell_regime(points: pd.DataFrame) -> Regime:
    """Distinguish strong from weak scaling by the global batches of one benchmark and variant.

    Parameters
    ----------
    points
        Rows of the table of runs or of scales: ``ranks`` and ``global_batch_samples`` [samples per optimizer step].

    Returns
    -------
    Regime
        Strong: the same global batch at all scales (Amdahl 1967). Weak: the same batch per rank (Gustafson 1988).
        Mixed: neither, so no scaling law holds. Undetermined: one number of ranks with one batch.
    """
    pairs = points[["ranks", "global_batch_samples"]].drop_duplicates().sort_values(["ranks", "global_batch_samples"])
    ranks, batches = pairs["ranks"], pairs["global_batch_samples"]
    if len(pairs) < 2:
        return Regime("undetermined", "measured at one number of ranks")
    if (batches == batches.iloc[0]).all():
        return Regime("strong", f"a global batch of {batches.iloc[0]:g} samples at every scale")
    if (batches * ranks.iloc[0] == batches.iloc[0] * ranks).all():
        return Regime("weak", f"a batch of {batches.iloc[0] / ranks.iloc[0]:g} samples per rank at every scale")
    found = ", ".join(f"{batch:g} at {count:g}" for count, batch in zip(ranks, batches, strict=True))
    return Regime(
        "mixed", f"neither the global batch nor the batch per rank stays the same (samples at ranks: {found})"
    )


def base_of(points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the base: the smallest scale of one benchmark and variant."""
    ordered = points.sort_values(["ranks", "nodes"], kind="stable")
    base: pd.DataFrame = ordered[ordered["scale"] == ordered["scale"].iloc[0]]
    return base


def compute_scaling(runs: pd.DataFrame) -> pd.DataFrame:
    """Return speed-up and parallel efficiency of every scale.

    Parameters
    ----------
    runs
        The run table (:func:`hpcai.metrics.run_tables.collect_runs`).

    Returns
    -------
    pandas.DataFrame
        One row per benchmark, variant, scale and measure (time to train, training throughput). Based on the values of
        the table of scales, which use the runs of :func:`hpcai.metrics.scaling.trials.select_trials`: ``speed-up =
        T_base / T`` for a time and ``R / R_base`` for a rate, ``efficiency = speed-up * ranks_base / ranks``; the base
        is the smallest scale of the same benchmark, variant and engine, named in ``baseline``. Where the rules take the
        time to train from the runs that reached the target, a ``note`` says how many of the runs these are. For medians
        measured in rounds, the bounds of a rate are the range of the pairs (:func:`pairs_of_rounds`). ``statistic`` is
        that of the scale; ``n`` and ``n_baseline`` count the runs of the scale and of the base.

        ``regime`` is strong, weak or mixed (:func:`tell_regime`). The ideal throughput grows with the ranks in all of
        them. An ideal time to train exists only in strong scaling: a larger global batch needs a different number of
        epochs to the target. Beyond the base, its ideal speed-up and efficiency are then NaN, with a ``note``.
    """
    points = []
    for _, group in runs.groupby(SERIES, sort=True):
        base, regime = _select_runs(base_of(group)), tell_regime(group)
        for _, at_scale in group.sort_values(["ranks", "nodes"], kind="stable").groupby("scale", sort=False):
            own = _select_runs(at_scale)
            points += [compare_scales(own, base, measure, regime) for measure in MEASURES]
    return pd.DataFrame(points, columns=list(ScalePoint.__dataclass_fields__))


def _select_runs(runs: pd.DataFrame) -> ScaleRuns:
    """Return the runs of a scale with the samples of all measures, selected once."""
    trials = select_trials(runs)
    times = training_times(runs, trials)
    samples = {
        measure: times.sample if measure == "time_to_train" else trials.sample(column)
        for measure, column in MEASURES.items()
    }
    return ScaleRuns(runs, samples, times.left_out)


def compare_scales(at_scale: ScaleRuns, base: ScaleRuns, measure: str, regime: Regime) -> ScalePoint:
    """Compare the runs of one scale with those of the base scale for one measure."""
    own, reference = at_scale.samples[measure], base.samples[measure]
    here, there = at_scale.runs.iloc[0], base.runs.iloc[0]
    is_base = here["scale"] == there["scale"]
    speedup = _speedup(own, reference, measure, is_base=is_base)
    pairs = [] if is_base or measure == "time_to_train" else pairs_of_rounds(at_scale.runs, base.runs, measure)
    if pairs:
        speedup = paired_ratio([own for own, _ in pairs], [base for _, base in pairs])
    has_ideal = is_base or measure != "time_to_train" or regime.same_problem
    ideal = float(here["ranks"] / there["ranks"]) if has_ideal else float("nan")
    left_out = "" if is_base or math.isnan(speedup.value) else _say_left_out(at_scale, base, measure)
    return ScalePoint(
        benchmark=str(here["benchmark"]),
        variant=str(here["variant"]),
        engine=str(here["engine"]),
        scale=str(here["scale"]),
        nodes=int(here["nodes"]),
        ranks=int(here["ranks"]),
        measure=measure,
        baseline=str(there["scale"]),
        baseline_ranks=int(there["ranks"]),
        n=own.n,
        n_baseline=reference.n,
        statistic=own.words,
        speedup_ratio=speedup.value,
        speedup_low_ratio=speedup.low,
        speedup_high_ratio=speedup.high,
        speedup_ideal_ratio=ideal,
        efficiency_ratio=speedup.value / ideal,
        efficiency_low_ratio=speedup.low / ideal,
        efficiency_high_ratio=speedup.high / ideal,
        regime=regime.name,
        regime_reason=regime.reason,
        method=speedup.method,
        note="; ".join(filter(None, [speedup.note, "" if has_ideal else NO_IDEAL, left_out])),
    )


def _say_left_out(at_scale: ScaleRuns, base: ScaleRuns, measure: str) -> str:
    """Return of how many of its runs the speed-up of the time to train is; blank if of all."""
    sides = (at_scale, base)
    if measure != "time_to_train" or not any(side.left_out for side in sides):
        return ""
    (here, of_here), (there, of_there) = (
        (side.samples[measure].n, side.samples[measure].n + side.left_out) for side in sides
    )
    return REACHED_ONLY(here=here, of_here=of_here, there=there, of_there=of_there)


def sample_of(runs: pd.DataFrame, measure: str) -> Sample:
    """Return the values of all runs behind the row of a scale, with their statistic."""
    if measure == "time_to_train":
        return training_times(runs).sample
    return select_trials(runs).sample(MEASURES[measure])


def pairs_of_rounds(at_scale: pd.DataFrame, base: pd.DataFrame, measure: str) -> list[tuple[float, float]]:
    """Return the values of both scales by repetition if they were measured in rounds: all of one before the next.

    Every run of both counts, so the medians equal those of the table of scales; otherwise there are no pairs.
    """
    names = ("repetition", "started_utc", "outcome", "dropped", MEASURES[measure])
    own, reference = (list(zip(*(side[name].tolist() for name in names), strict=True)) for side in (at_scale, base))
    whole = all(
        outcome in COMPLETE and not dropped and not math.isnan(value)
        for _, _, outcome, dropped, value in (*own, *reference)
    )
    first, second = ({row[0]: row for row in side} for side in (own, reference))
    if not whole or len(own) < FEWEST_PAIRS or first.keys() != second.keys() or len(first) < len(own):
        return []
    rounds = [(first[number], second[number]) for number in sorted(first)]
    starts = [sorted(row[1] for row in pair) for pair in rounds]
    if any(before[-1] >= after[0] for before, after in pairwise(starts)):
        return []
    return [(float(one[-1]), float(other[-1])) for one, other in rounds]


def _speedup(own: Sample, reference: Sample, measure: str, *, is_base: bool) -> Estimate:
    if math.isnan(reference.value):
        missing = NO_BASE_VALUE() if not is_base else NOT_MEASURED
        return Estimate(math.nan, math.nan, math.nan, 0, "", missing)
    if is_base:
        return Estimate(1.0, 1.0, 1.0, own.n, "by definition", "this scale is the base")
    return ratio_of(reference, own) if measure == "time_to_train" else ratio_of(own, reference)
