"""Scaling laws of a study: the law of each benchmark and variant, and its curve with the extrapolation."""

import math
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from hpcai.catalogue.points import SERIES
from hpcai.catalogue.tables import columns_of
from hpcai.core.messages import Message
from hpcai.core.text import say_share
from hpcai.metrics.scaling.efficiency import MEASURES, Regime, base_of, sample_of, tell_regime
from hpcai.metrics.scaling.laws import (
    FREE,
    Floats,
    LawFit,
    LawName,
    fit_law,
    parallel_efficiency,
    solve_serial_fraction,
)
from hpcai.metrics.scaling.model_limits import is_too_efficient, why_too_efficient
from hpcai.metrics.scaling.trials import COMPLETE

EXTRAPOLATED_TIMES = 8
"""Curves extend to this multiple of the largest measured number of ranks."""
FEWEST_STEPS, STEPS_PER_DOUBLING = 24, 8
"""Smoothness of the curves, independent of their span."""
UNLIKE_AICC = 2.0
"""Smaller differences in AICc do not distinguish laws (Burnham and Anderson 2002, section 2.6)."""
EXACT_LAW = Message("fits.exact_law", "{law}, {where}: serial share {share}, exactly determined, no interval.")
LAW = Message("fits.law", "{law}, {where}: serial share {share}; {misfit}.")
BEYOND = Message("fits.beyond", "beyond the measured ranks {why}")
AT_BOUND = Message("fits.at_bound", "the throughput {side} the ranks: the serial share ends at the law's bound")
RATE = MEASURES["train_rate"]
NAMES: dict[LawName, str] = {
    "amdahl": "Amdahl's law",
    "gustafson": "Gustafson's law",
    "universal": "Universal scalability law",
    "karp_flatt": "Karp and Flatt",
}
FIT_COLUMNS = columns_of("scaling_fits")
CURVE_COLUMNS = columns_of("scaling_curves")


@dataclass(frozen=True)
class Series:
    """The rates of all runs of a series that completed training, and the laws fitted to them."""

    key: dict[str, str]
    """Benchmark, variant and engine, by their columns."""
    runs: pd.DataFrame
    """Rows of the run table with a rate."""
    base: pd.DataFrame
    """All runs of the base scale, with or without a rate."""
    regime: Regime
    laws: tuple[LawFit, ...]
    """Best law first; empty if there is none."""
    reason: str
    """Why there is no law, or what limits the choice."""

    @property
    def counts(self) -> Floats:
        """Distinct numbers of ranks, ascending."""
        counts: Floats = np.unique(self.runs["ranks"].to_numpy(dtype=float))
        return counts


def fit_scaling(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the laws of throughput over ranks of every benchmark and variant.

    Parameters
    ----------
    runs
        The run table (:func:`hpcai.metrics.run_tables.collect_runs`).

    Returns
    -------
    pandas.DataFrame
        :data:`FIT_COLUMNS`, one row per law that the data allow, or one row whose ``reason`` explains why there is
        none. A law is fitted to the training throughput of all runs that completed training
        (:func:`hpcai.metrics.scaling.laws.fit_law`) if there are more numbers of ranks than the law has parameters:
        Amdahl's (strong scaling) or Gustafson's (weak) from three, the universal scalability law from four (and six
        runs). ``chosen`` marks the law with the smallest AICc. Two numbers of ranks determine the serial fraction of
        Karp and Flatt (strong) or of Gustafson (weak) exactly, without an interval. Bounds are 95 % t intervals.
        ``serial_fraction_ratio`` is Amdahl's share of one rank's time, Gustafson's share of the time on all ranks, and
        the contention of the universal law; ``rate_limit_samples_per_s`` is the limit of Amdahl's law; ``best_ranks``
        is the maximum of the universal law; ``misfit_ratio`` is the largest relative deviation of a scale's rate from
        the law.
    """
    rows = [row for series in _all_series(runs) for row in _fit_rows(series)]
    return pd.DataFrame(rows, columns=list(FIT_COLUMNS)).astype({"chosen": bool})


def trace_scaling(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the curves of all laws of :func:`fit_scaling`, with their 95 % bands.

    Parameters
    ----------
    runs
        The run table (:func:`hpcai.metrics.run_tables.collect_runs`).

    Returns
    -------
    pandas.DataFrame
        :data:`CURVE_COLUMNS`. ``kind`` is "interpolated" within the measured numbers of ranks, and "extrapolated"
        beyond, up to eight times the largest one. A law without an interval is not extrapolated, nor is any law to
        where its efficiency would exceed 1. Speed-up and efficiency are the law's rate over the base rate in the table
        of scales, as for the points of the table of scaling; the band is that of the law's rate.
    """
    parts = [_curve(series, law) for series in _all_series(runs) for law in series.laws]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(CURVE_COLUMNS))


def _all_series(runs: pd.DataFrame) -> Iterator[Series]:
    for key, group in runs.groupby(SERIES, sort=True):
        measured = group[group["outcome"].isin(COMPLETE) & (group[RATE] > 0)]
        regime = tell_regime(group)
        laws, reason = _find_laws(measured, regime)
        yield Series(dict(zip(SERIES, map(str, key), strict=True)), measured, base_of(group), regime, laws, reason)


def _find_laws(runs: pd.DataFrame, regime: Regime) -> tuple[tuple[LawFit, ...], str]:
    """Return the laws that the data allow, best first, and the objections to others."""
    ranks, rates, different = runs["ranks"], runs[RATE], runs["ranks"].nunique()
    if different < 2:
        only = "".join(f"measured at one number of ranks ({count}): a law needs at least two" for count in ranks[:1])
        return (), only or "no run completed training"
    if regime.name == "mixed":
        return (), f"{regime.reason}: one law cannot hold for all scales"
    if different == 2:
        weak = regime.name == "weak"
        points = _points(runs)
        law = solve_serial_fraction(points.index, points, "gustafson" if weak else "karp_flatt")
        if math.isnan(law.serial_fraction_ratio):
            side = "rises" if weak else "falls"
            return (
                (),
                f"the throughput {side} so steeply between two numbers of ranks that no serial fraction explains it",
            )
        return (law,), "two numbers of ranks determine the serial fraction exactly: no interval, and no extrapolation"
    laws, limit = [fit_law("gustafson" if regime.name == "weak" else "amdahl", ranks, rates)], ""
    if different > FREE["universal"] and len(runs) > FREE["universal"] + 2:
        laws.append(fit_law("universal", ranks, rates))
    else:
        limit = f"{different} numbers of ranks and {len(runs)} runs: the universal scalability law needs 4 and 6"
    return tuple(sorted(laws, key=lambda law: law.aicc)), limit


def _fit_rows(series: Series) -> Iterator[dict[str, Any]]:
    about = {
        **series.key,
        "regime": series.regime.name,
        "method": "modelled",
        "n": len(series.runs),
        "scales": len(series.counts),
        "ranks_min": series.counts.min(initial=math.inf) if len(series.counts) else math.nan,
        "ranks_max": series.counts.max(initial=0) if len(series.counts) else math.nan,
        "source": _folder(series.runs),
    }
    if not series.laws:
        missing = {name: math.nan for name in FIT_COLUMNS if name.endswith(("_per_s", "_ratio", "best_ranks", "aicc"))}
        words = f"No law of scaling: {series.reason}."
        yield {**missing, **about, "law": "", "chosen": False, "sentence": words, "reason": series.reason}
    for law in series.laws:
        yield {**about, **_numbers(series, law), "chosen": law is series.laws[0], "reason": _limits(series, law)}


def _numbers(series: Series, law: LawFit) -> dict[str, Any]:
    """Return the parameters of a law, and its sentence for the report."""
    rate, share, coherency = (law.interval(name) for name in ("rate", "serial_fraction", "coherency"))
    curved = law.law == "universal"
    return {
        "law": law.law,
        "one_rank_rate_samples_per_s": rate.value,
        "one_rank_rate_low_samples_per_s": rate.low,
        "one_rank_rate_high_samples_per_s": rate.high,
        "serial_fraction_ratio": share.value,
        "serial_fraction_low_ratio": share.low,
        "serial_fraction_high_ratio": share.high,
        "coherency_ratio": coherency.value if curved else math.nan,
        "coherency_low_ratio": coherency.low if curved else math.nan,
        "coherency_high_ratio": coherency.high if curved else math.nan,
        "rate_limit_samples_per_s": rate.value / share.value if law.law == "amdahl" and share.value else math.nan,
        "best_ranks": _best_ranks(law),
        "deviation_ratio": law.deviation,
        "misfit_ratio": math.nan if law.exact else _misfit(series, law),
        "aicc": law.aicc if math.isfinite(law.aicc) else math.nan,
        "sentence": _sentence(series, law),
    }


def _best_ranks(law: LawFit) -> float:
    """Return the ranks at which the universal law's rate peaks (Gunther 2007); NaN if it grows without limit."""
    if not (law.coherency_ratio > 0 and law.serial_fraction_ratio < 1):
        return math.nan
    return max(1.0, math.sqrt((1 - law.serial_fraction_ratio) / law.coherency_ratio))


def _misfit(series: Series, law: LawFit) -> float:
    points = _points(series.runs)
    fitted = law.rates(points.index.to_numpy(dtype=float))[0]
    return float(np.abs(points.to_numpy(dtype=float) / fitted - 1).max())


def _points(runs: pd.DataFrame) -> "pd.Series[float]":
    """Return the rate at each number of ranks, from the table of scales."""
    scales = runs.groupby("scale", sort=False)
    rates = {name: sample_of(group, "train_rate").value for name, group in scales}
    points: pd.Series[float] = pd.Series(rates).groupby(scales["ranks"].first()).mean()
    return points


def _sentence(series: Series, law: LawFit) -> str:
    """Return the law with its parameters as a sentence for the report."""
    share, coherency = law.interval("serial_fraction"), law.interval("coherency")
    where = f"{series.counts[0]:g} to {series.counts[-1]:g} ranks"
    name = NAMES[law.law]
    if law.exact:
        slower = " (above 1 it is not a share: more ranks are slower)" if share.value > 1 else ""
        return EXACT_LAW(law=name, where=where, share=f"{share.value:.3g}{slower}")
    bounds = f"{share.value:.2g} ({share.low:.2g} to {share.high:.2g})"
    misfit = f"scales at most {say_share(_misfit(series, law))} off"
    if law.law != "universal":
        return LAW(law=name, where=where, share=bounds, misfit=misfit)
    more = f"{coherency.value:.2g} ({coherency.low:.2g} to {coherency.high:.2g})"
    return f"{name}, {where}: contention {bounds}, coherency {more}; {misfit}."


def _limits(series: Series, law: LawFit) -> str:
    """Return the limitations that a reader must know."""
    notes = [series.reason]
    if len(series.laws) > 1:
        others = min(other.aicc for other in series.laws if other is not law)
        gap, which = abs(law.aicc - others), "smaller" if law.aicc < others else "larger"
        alike = ": the laws cannot be distinguished, either may hold beyond the measured ranks"
        notes.append(f"AICc {which} by {gap:.2g} than that of the other law{alike if gap < UNLIKE_AICC else ''}")
    if "serial_fraction_ratio" in law.at_bound:
        notes.append(_say_bound(law))
    if law.exact and not 0 <= law.serial_fraction_ratio <= 1:
        side = "grows faster than the ranks" if law.serial_fraction_ratio < 0 else "falls"
        notes.append(f"the throughput {side}: no serial work explains this, the number only connects the two points")
    if not law.exact and (why := why_too_efficient(_efficiency(series, law), str(series.base["scale"].iloc[0]))):
        notes.append(BEYOND(why=why))
    if _best_ranks(law) > series.counts[-1]:
        notes.append("its largest rate lies beyond the measured ranks: extrapolated")
    if len(series.runs[["ranks", "scale"]].drop_duplicates()) > len(series.counts):
        notes.append("scales with as many ranks on other numbers of nodes count as one")
    return "; ".join(filter(None, notes))


def _say_bound(law: LawFit) -> str:
    """Explain what it means that the data push the serial fraction out of the law's range."""
    low = law.serial_fraction_ratio < 0.5
    if law.law == "universal":
        # With coherency in the law, contention alone does not determine whether throughput grows.
        return "no contention beside coherency" if low else "the contention ends at its largest value, 1"
    side = "grows at least as fast as" if low else "does not grow with"
    return AT_BOUND(side=side)


def _curve(series: Series, law: LawFit) -> pd.DataFrame:
    first, last = series.counts[0], series.counts[-1]
    inside = np.union1d(_between(first, last), series.counts)
    outside = np.empty(0) if law.exact else _between(last, EXTRAPOLATED_TIMES * last)[1:]
    ranks = np.concatenate([inside, outside])
    rates = dict(zip(("", "_low", "_high"), law.rates(ranks), strict=True))
    base_rate, base_ranks = _base_rate(series), int(series.base["ranks"].iloc[0])
    columns: dict[str, Any] = {
        **series.key,
        "law": law.law,
        "chosen": law is series.laws[0],
        "kind": ["interpolated"] * len(inside) + ["extrapolated"] * len(outside),
        "ranks": ranks,
        "baseline": str(series.base["scale"].iloc[0]),
        "baseline_ranks": base_ranks,
        "speedup_ideal_ratio": ranks / base_ranks,
    }
    for side, values in rates.items():
        columns[f"rate{side}_samples_per_s"] = values
        columns[f"speedup{side}_ratio"] = values / base_rate
        columns[f"efficiency{side}_ratio"] = [
            parallel_efficiency(rate, count, base_rate, base_ranks) for rate, count in zip(values, ranks, strict=True)
        ]
    curve = pd.DataFrame(columns)[list(CURVE_COLUMNS)]
    impossible = (curve["kind"] == "extrapolated") & curve["efficiency_ratio"].map(is_too_efficient)
    return curve[~impossible]


def _base_rate(series: Series) -> float:
    """Return the rate of the base scale [samples/s]; NaN without any."""
    return sample_of(series.base, "train_rate").value


def _efficiency(series: Series, law: LawFit) -> float:
    """Return the efficiency of a law at the largest measured number of ranks; beyond it, all laws decrease."""
    rate, ranks = float(law.rates(series.counts[-1:])[0][0]), float(series.counts[-1])
    return parallel_efficiency(rate, ranks, _base_rate(series), float(series.base["ranks"].iloc[0]))


def _between(first: float, last: float) -> Floats:
    """Return numbers of ranks at equal distances on a logarithmic axis."""
    steps = max(FEWEST_STEPS, math.ceil(STEPS_PER_DOUBLING * math.log2(last / first)))
    return np.geomspace(first, last, steps + 1)


def _folder(runs: pd.DataFrame) -> str:
    """Return the common folder of all records of the runs."""
    paths = [posixpath.dirname(str(path)) for path in runs.get("record_path", pd.Series(dtype=str))]
    return posixpath.commonpath(paths) if paths else ""
