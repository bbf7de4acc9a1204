"""Effects of a variant: how its settings differ from the simplest variant, and the effect on speed and quality."""

import math
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from scipy import stats

from hpcai.catalogue.tables import columns_of
from hpcai.config.runs import Point
from hpcai.core.messages import Message
from hpcai.core.text import say_bytes, say_time
from hpcai.metrics.scaling.scales import POINT_SETTINGS
from hpcai.metrics.scaling.trials import COMPLETE
from hpcai.metrics.scores.trial_scores import is_error_metric
from hpcai.metrics.statistics.detectable import FEWEST_RUNS
from hpcai.metrics.statistics.significance import (
    Significance,
    compare_differences,
    compare_samples,
    correct_holm,
    no_spread,
)
from hpcai.metrics.statistics.summaries import LEVEL, NOT_MEASURED, Estimate, finite

NO_VARIANTS = "Every benchmark was measured in one variant at each scale: there is nothing to compare."
SETTINGS = (*POINT_SETTINGS, "global_batch_samples")
"""Columns of the run table that define a variant."""
SURROUNDINGS = (
    "machine", "commit", "dirty", "lock_sha256", "page_cache", "data_source", "rule_set", "time_staging",
    "quality_target",
)  # fmt: skip
"""Columns that should be equal on both sides; if they differ, they may have caused the effect."""
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
EFFECT_COLUMNS = columns_of("variant_effects")

SCORED = ("rate_flop_per_s", "vflops_flop_per_s", "score_reason")
"""Columns added from a run's score."""

OTHER_SETTING = Message("variant_effects.other_setting", "{what} {here} instead of {there}")
OTHER_SURROUNDINGS = Message(
    "variant_effects.other_surroundings",
    "the two sides differ in more than the settings: {names}",
)
Row = Mapping[Any, Any]
Setting = str | float
_NAN = float("nan")


@dataclass(frozen=True)
class Measure:
    """A compared quantity: a column of the runs, and the runs that qualify."""

    name: str
    column: str
    unit: str
    outcomes: tuple[str, ...]
    better: Literal["higher", "lower"]


MEASURES = (
    Measure("train_rate", "train_rate_samples_per_s", "samples/s", COMPLETE, "higher"),
    Measure("time_to_train", "time_to_train_s", "s", ("converged",), "lower"),
    Measure("rate", "rate_flop_per_s", "FLOP/s", COMPLETE, "higher"),
    Measure("vflops", "vflops_flop_per_s", "FLOP/s", COMPLETE, "higher"),
)
"""Effects on these are ratios; the effect on the quality is a difference."""
EVALUATION = Measure("evaluation_rate", "evaluation_rate_samples_per_s", "samples/s", COMPLETE, "higher")
EVALUATION_SETTINGS = ("evaluation_batch", "evaluation_cache")
"""Where variants differ in one of these, their evaluations are compared as well."""


def compare_variants(runs: pd.DataFrame, run_scores: pd.DataFrame) -> pd.DataFrame:
    """Return the effect of every variant against simpler ones of the same benchmark at the same scale.

    Parameters
    ----------
    runs
        The run table (:func:`hpcai.metrics.run_tables.collect_runs`).
    run_scores
        FLOP/s and VFLOPS of the runs (``TRIAL_COLUMNS``); without them these two effects are empty.

    Returns
    -------
    pandas.DataFrame
        :data:`EFFECT_COLUMNS`, one row per benchmark, scale, variant and measure; no rows without variants. The
        reference is the variant with the fewest settings that differ from the run table's defaults; ties go to the
        simplest settings (fp32 before bf16 before fp16, no compression, less accumulation, ...), a global batch that is
        the same at all scales, the smallest one at any scale, and the first name. A variant is also compared with every
        simpler one that differs in a single setting, which isolates the effect of that setting. ``effect_ratio`` is the
        variant's arithmetic mean over the reference's with its 95 % interval
        (:func:`hpcai.metrics.statistics.summaries.ratio_interval`), so that a time
        below 1 is better. Quality has no meaningful zero, so ``difference`` is the difference of the means with Welch's
        interval, in the unit of the metric. An effect of more than one change is ``joint``: it belongs to all changes
        together, to none alone. ``reading`` is better or worse if the rule of
        :meth:`hpcai.metrics.statistics.significance.Significance.is_significant` finds the effect after Holm's
        correction for all effects of the table (``p_corrected``), otherwise not distinguishable. It is too few runs if
        all runs of a side are equal and no permutation of so few can decide; empty without two runs on each side.
    """
    scored = run_scores.set_index("run_id").rename(columns={"reason": "score_reason"}).reindex(columns=list(SCORED))
    joined = runs.drop(columns=list(SCORED), errors="ignore").join(scored, on="run_id")
    joined = joined.join(_batches(joined), on=["benchmark", "variant"])
    rows = [
        row
        for _, group in joined.groupby(["benchmark", "nodes", "ranks", "scale"], sort=True)
        for row in _compare_scale(group)
    ]
    for row, p_corrected in zip(rows, correct_holm([row["test"].p_value for row in rows]), strict=True):
        row |= {"p_corrected": p_corrected, "reading": _read(row, p_corrected)}
    return pd.DataFrame(rows, columns=list(EFFECT_COLUMNS))


def _batches(runs: pd.DataFrame) -> pd.DataFrame:
    """Return each variant's smallest global batch at any scale, and whether it differs between scales.

    One scale alone would make the variant of a constant batch and that of weak scaling each other's reference.
    """
    sizes = runs.groupby(["benchmark", "variant"])["global_batch_samples"].agg(["min", "nunique"])
    return pd.DataFrame({"least_batch_samples": sizes["min"], "grows": sizes["nunique"] > 1})


def _plainness(row: Row) -> tuple[Any, ...]:
    changed = [name for name in POINT_SETTINGS if not _same(row[name], _default(name))]
    return (len(changed), *(_rank(name, row[name]) for name in POINT_SETTINGS), row["grows"],
            row["least_batch_samples"], row["variant"])  # fmt: skip


def _default(name: str) -> Setting:
    default: Setting | None = Point.model_fields[name].default
    return _NAN if default is None else default


def _rank(name: str, value: Setting) -> tuple[float, str]:
    """Return the rank of a value among others of its setting, simplest first."""
    if _same(value, _default(name)):
        return -1.0, ""
    if isinstance(value, str):
        return float(PRECISIONS.index(value) if value in PRECISIONS else len(PRECISIONS)), value
    return float(value), ""


def _same(one: Setting, other: Setting) -> bool:
    return bool(one == other) or bool(pd.isna(one) and pd.isna(other))


def _compare_scale(group: pd.DataFrame) -> Iterator[dict[str, Any]]:
    sides = {str(row["variant"]): row for row in group.drop_duplicates("variant").to_dict("records")}
    for variant, reference in _pairs(sides):
        here, there = group[group["variant"] == variant], group[group["variant"] == reference]
        changes = list(_changes(sides[variant], sides[reference]))
        about = {
            **{name: here[name].iloc[0] for name in ("benchmark", "scale", "nodes", "ranks")},
            "variant": variant,
            "reference_variant": reference,
            "differs_in": len(changes),
            "changes": "; ".join(changes) or "no setting of the run table",
            "joint": len(changes) > 1,
            "source": _records(here),
            "reference_source": _records(there),
        }
        surroundings = _surroundings(here, there)
        evaluated = any(not _same(sides[variant][name], sides[reference][name]) for name in EVALUATION_SETTINGS)
        measures = (*MEASURES, EVALUATION) if evaluated else MEASURES
        effects = [*(_ratio(here, there, measure) for measure in measures), _quality(here, there)]
        for effect in effects:
            notes = [effect["note"], surroundings, "" if changes else "same settings: any difference is chance"]
            yield {**about, **effect, "note": "; ".join(filter(None, notes))}


def _pairs(variants: Mapping[str, Row]) -> Iterator[tuple[str, str]]:
    """Yield every variant with the simplest one, and with simpler ones that differ in a single setting."""
    plainest, *others = sorted(variants, key=lambda name: _plainness(variants[name]))
    for place, variant in enumerate(others):
        yield variant, plainest
        for plainer in others[:place]:
            if len(list(_changes(variants[variant], variants[plainer]))) == 1:
                yield variant, plainer


def _changes(here: Row, there: Row) -> Iterator[str]:
    """Describe the differences of the settings."""
    for name in SETTINGS:
        if not _same(here[name], there[name]):
            what, words = WORDS[name]
            yield OTHER_SETTING(what=what, here=words(here[name]), there=words(there[name]))


def _fusion(value: float) -> str:
    return "all gradients in one group" if math.isnan(value) else f"up to {say_bytes(value)}"


def _cycle(value: float) -> str:
    return "its own choice" if math.isnan(value) else say_time(value)


def _evaluated(value: float) -> str:
    return "as many as trained on" if math.isnan(value) else f"{value:g}"


WORDS: dict[str, tuple[str, Any]] = {
    "precision": ("precision", str),
    "compression": ("gradient compression", str),
    "engine": ("engine", str),
    "accumulation": ("micro-batches per step:", "{:g}".format),
    "batchnorm_group": ("ranks that share batch-norm statistics:", "{:g}".format),
    "spatial_parts": ("ranks that share each sample:", "{:g}".format),
    "gradient_groups": ("messages of gradients per step:", "{:g}".format),
    "fusion_bytes": ("fusion:", _fusion),
    "cycle_time_s": ("Horovod's cycle:", _cycle),
    "allreduce_topology": ("topology of the allreduce:", str),
    "evaluation_batch": ("samples evaluated at once:", _evaluated),
    "evaluation_cache": ("cache of the validation set:", str),
    "training_cache": ("cache of the training set:", str),
    "global_batch_samples": ("samples in the global batch:", "{:g}".format),
}
"""Display name of each setting, and the format of its values."""


def _surroundings(here: pd.DataFrame, there: pd.DataFrame) -> str:
    found = [name for name in SURROUNDINGS if set(here[name].dropna()) != set(there[name].dropna())]
    return OTHER_SURROUNDINGS(names=", ".join(found)) if found else ""


def _ratio(here: pd.DataFrame, there: pd.DataFrame, measure: Measure) -> dict[str, Any]:
    own, reference = (_values(side, measure.column, measure.outcomes) for side in (here, there))
    change = compare_samples(reference, own)
    unscored = measure.column in SCORED and not (own and reference)
    return {
        **_tests(change),
        "measure": measure.name,
        "quality_metric": "",
        "unit": measure.unit,
        "better": measure.better,
        "effect_ratio": change.ratio,
        "effect_low_ratio": change.low,
        "effect_high_ratio": change.high,
        "difference": _NAN,
        "difference_low": _NAN,
        "difference_high": _NAN,
        "method": change.method,
        "note": (_said([*here["score_reason"], *there["score_reason"]]) if unscored else "") or _note(change),
    }


def _quality(here: pd.DataFrame, there: pd.DataFrame) -> dict[str, Any]:
    """Return the difference of the final qualities of the runs that completed training."""
    own, reference = (_values(side, "last_quality", COMPLETE) for side in (here, there))
    metric, unit = (_said([*here[name], *there[name]]) for name in ("quality_metric", "quality_unit"))
    better: Literal["higher", "lower"] = "lower" if is_error_metric(metric) else "higher"
    estimate, change = difference_interval(own, reference), compare_differences(reference, own)
    return {
        **_tests(change),
        "measure": "quality",
        "quality_metric": metric,
        "unit": unit,
        "better": better,
        "effect_ratio": _NAN,
        "effect_low_ratio": _NAN,
        "effect_high_ratio": _NAN,
        "difference": estimate.value,
        "difference_low": estimate.low,
        "difference_high": estimate.high,
        "method": f"{estimate.method}; {change.method}" if change.n_base and change.n_new else estimate.method,
        "note": _note(change),
    }


def difference_interval(values: Iterable[float], reference: Iterable[float]) -> Estimate:
    """Return the difference of two independent means with Welch's 95 % t interval (Welch 1947).

    Parameters
    ----------
    values, reference
        One value per run [the same unit]; NaN is ignored. Without a spread on either side there are no bounds.
    """
    own, other = finite(values), finite(reference)
    n = min(len(own), len(other))
    method = f"difference of arithmetic means, {LEVEL:.0%} interval (Welch's t)"
    if n == 0:
        return Estimate(_NAN, _NAN, _NAN, 0, method, NOT_MEASURED)
    difference = float(own.mean() - other.mean())
    if n == 1:
        return Estimate(difference, _NAN, _NAN, 1, method, "one run on a side: no interval")
    if no_spread(own) and no_spread(other):
        return Estimate(difference, _NAN, _NAN, n, method, "all runs of a side are equal: no interval")
    bounds = stats.ttest_ind(own, other, equal_var=False).confidence_interval(LEVEL)
    return Estimate(difference, float(bounds.low), float(bounds.high), n, method)


def _values(runs: pd.DataFrame, column: str, outcomes: tuple[str, ...]) -> list[float]:
    return [float(value) for value in runs.loc[runs["outcome"].isin(outcomes), column].dropna()]


def _tests(change: Significance) -> dict[str, Any]:
    return {
        "value": change.new_value,
        "reference_value": change.base_value,
        "n": change.n_new,
        "n_reference": change.n_base,
        "p_t": change.p_t,
        "p_bounded": change.p_bounded,
        "p_permutation": change.p_permutation,
        "test": change,
    }


def _note(change: Significance) -> str:
    fewest = min(change.n_base, change.n_new)
    return {0: NOT_MEASURED, 1: "one run on a side: no interval"}.get(fewest, change.note)


def _read(row: Mapping[str, Any], p_corrected: float) -> str:
    """Return the tests' conclusion: better, worse, not distinguishable or too few runs; empty without a test."""
    change: Significance = row["test"]
    if min(change.n_base, change.n_new) < FEWEST_RUNS or math.isnan(change.p_value):
        return ""
    if not change.is_significant(p_corrected):
        return "not distinguishable" if change.can_be_significant or change.identical else "too few runs"
    return "better" if (change.new_value > change.base_value) == (row["better"] == "higher") else "worse"


def _said(texts: Iterable[object]) -> str:
    """Return the first non-empty text: a run that failed early has none."""
    return next((text for text in texts if isinstance(text, str) and text), "")


def _records(runs: pd.DataFrame) -> str:
    return posixpath.commonpath([posixpath.dirname(str(path)) for path in runs["record_path"]])
