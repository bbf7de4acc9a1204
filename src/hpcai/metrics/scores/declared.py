"""Published and declared results as scores: computed like our own, from the declarations in a source's file."""

import math
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hpcai.config.machine import Precision
from hpcai.config.published import Published, PublishedResult, PublishedWorkload
from hpcai.core.messages import Message
from hpcai.metrics.scores.columns import SCORE_COLUMNS, score_frame
from hpcai.metrics.scores.trial_scores import is_error_metric
from hpcai.metrics.scores.validity import join_reasons
from hpcai.metrics.scores.vflops import compute_vflops, implied_quality, quality_coefficient, run_rate, training_work
from hpcai.records.run import reaches

NO_QUALITY = Message("declared.no_quality", "no VFLOPS: the source states no achieved quality")
NO_PEAK = Message(
    "declared.no_peak",
    "no ratio to the peak: none is declared for this precision, or no number of devices",
)
IMPLIED_QUALITY = Message(
    "declared.implied_quality",
    "check: its FLOPS and VFLOPS imply a quality of {quality:.4f} with n = {n:g}, but the source states no achieved "
    "quality, so none is given",
)
DECLARED = "declared"
NOT_JUDGED = "declared by others, not judged by the rules"
_NAN = math.nan


@dataclass(frozen=True)
class DeclaredRate:
    """A rate [FLOP/s] and its derivation from the declarations."""

    flop_per_s: float
    method: str


def declared_rate(result: PublishedResult, published: Published) -> DeclaredRate:
    """Return the FLOPS of a declared result.

    Parameters
    ----------
    result, published
        The result, and the file that contains it.

    Returns
    -------
    DeclaredRate
        From the throughput and the work of a sample (HPC AI500 V2.0, 8.2) if both are declared; else as declared; else
        from the declared parts; else the work of all epochs over the declared time. NaN if none of these is available.
    """
    workload = published.workloads[result.workload]
    samples, flop = train_rate(result), workload.flop_per_sample
    if samples is not None and flop is not None:
        ranks = result.ranks or 1
        return DeclaredRate(run_rate(samples / ranks, ranks, flop), "declared samples/s x declared FLOP/sample")
    if result.rate_flop_per_s is not None:
        return DeclaredRate(result.rate_flop_per_s, "FLOP/s as declared")
    if result.derived is not None:
        return _derived_rate(result, published)
    if None not in (workload.train_samples, workload.epochs, flop, result.time_to_quality_s):
        work = training_work(workload.train_samples or _NAN, workload.epochs or _NAN, flop or _NAN)
        return DeclaredRate(work / (result.time_to_quality_s or _NAN), "work of all epochs / declared time")
    return DeclaredRate(_NAN, "no throughput, no FLOP/s and no time with its work declared")


def _derived_rate(result: PublishedResult, published: Published) -> DeclaredRate:
    derived = result.derived
    if derived is None:
        raise AssertionError("only results with parts come here")
    base = published.result(derived.against)
    scale = (result.ranks or _NAN) / (base.ranks or _NAN)
    rate = derived.efficiency_ratio * derived.gain_ratio * scale * declared_rate(base, published).flop_per_s
    return DeclaredRate(rate, f"declared efficiency and gain x the rate of {base.name}")


def train_rate(result: PublishedResult) -> float | None:
    """Return the declared throughput of all processes [1/s]; None if undeclared."""
    if result.train_rate_samples_per_s_per_process is not None and result.ranks is not None:
        return result.train_rate_samples_per_s_per_process * result.ranks
    return result.train_rate_samples_per_s


def declared_peak(
    result: PublishedResult, published: Published, precision: Precision | None = None
) -> tuple[float, str]:
    """Return the peak of all devices of a result [FLOP/s] and its source, for its own precision or another one.

    NaN and the reason if precision, number of devices or peak are undeclared: peaks are never inferred.
    """
    wanted = precision or result.precision
    machine = published.machines[result.machine]
    peak, devices = machine.peaks.get(wanted) if wanted else None, machine.devices_of(result.nodes, result.ranks)
    if peak is None or devices is None:
        return _NAN, NO_PEAK()
    return peak.rate_flop_per_s * devices, str(peak.source)


def declared_scores(published: Published) -> pd.DataFrame:
    """Return the results of a file in the columns of scores.

    Parameters
    ----------
    published
        The file. Its worked examples (``use: check``) are not results and get no rows.

    Returns
    -------
    pandas.DataFrame
        `SCORE_COLUMNS`; the method is "declared". VFLOPS are declared, or follow from FLOPS and the declared quality by
        `hpcai.metrics.scores.vflops.vflops`; the quality is always the declared one. If FLOPS and VFLOPS are declared
        without a quality, `reason` gives the quality that they imply, as a check and not as a quality.
    """
    rows = [_score_row(result, published) for result in published.results if result.use == "result"]
    return score_frame(rows, SCORE_COLUMNS)


def _score_row(result: PublishedResult, published: Published) -> dict[str, Any]:
    workload = published.workloads[result.workload]
    rate = declared_rate(result, published)
    valid, how = _vflops(result, workload, rate.flop_per_s)
    quality = result.quality if result.quality is not None else _NAN
    coefficient = (
        quality_coefficient(quality, workload.quality_target, workload.exponent) if workload.exponent else _NAN
    )
    peak, peak_source = declared_peak(result, published)
    power = result.mean_power_w or _NAN
    seconds = result.time_to_quality_s or _NAN
    higher = not is_error_metric(workload.quality_metric)
    reached = reaches(quality, workload.quality_target, higher_is_better=higher)
    return {
        **identify(result, published),
        "dataset": workload.dataset,
        "global_batch_samples": (workload.samples_per_step or _NAN) * (result.ranks or _NAN),
        "train_rate_samples_per_s": train_rate(result),
        "flop_per_sample": workload.flop_per_sample,
        "flop_method": DECLARED if workload.flop_per_sample else "",
        "rate_flop_per_s": rate.flop_per_s,
        "peak_flop_per_s": peak,
        "peak_ratio": rate.flop_per_s / peak,
        "peak_source": peak_source if peak > 0 else "",
        "quality_metric": workload.quality_metric,
        "quality": quality,
        "quality_target": workload.quality_target,
        "exponent": workload.exponent,
        "quality_coefficient_ratio": coefficient,
        "quality_coefficient_capped_ratio": min(coefficient, 1.0) if coefficient > 0 else _NAN,
        "vflops_flop_per_s": valid,
        "vflops_capped_flop_per_s": _capped(result, workload, rate.flop_per_s),
        "time_to_quality_s": seconds,
        "time_to_train_s": seconds if reached else _NAN,
        "mean_power_w": power,
        "power_method": DECLARED if result.mean_power_w else "",
        "flop_per_j": rate.flop_per_s / power,
        "vflops_flop_per_j": valid / power,
        "valid_for": "not judged",
        "label": NOT_JUDGED,
        "score_method": "; ".join(words for words in (f"FLOPS: {rate.method}", how) if words),
        "reason": join_reasons([*_reasons(result, workload, rate.flop_per_s), *([] if peak > 0 else [peak_source])]),
        "source": published.cite(result.where),
    }


def identify(result: PublishedResult, published: Published) -> dict[str, Any]:
    """Return the columns that identify a result and its measurement."""
    workload = published.workloads[result.workload]
    known = result.nodes is not None and result.ranks is not None
    words = [result.precision, f"{result.compression} compression" if result.compression == "fp16" else ""]
    return {
        "method": DECLARED,
        "origin": published.name,
        "result": result.name,
        "machine": result.machine,
        "suite": workload.suite,
        "workload": workload.workload,
        "benchmark": result.workload,
        "variant": ", ".join(word for word in words if word),
        "scale": f"n{result.nodes}x{(result.ranks or 0) // (result.nodes or 1)}" if known else "",
        "nodes": result.nodes,
        "ranks": result.ranks,
        "precision": result.precision or "",
        "compression": result.compression or "",
    }


def _vflops(result: PublishedResult, workload: PublishedWorkload, rate_flop_per_s: float) -> tuple[float, str]:
    """Return VFLOPS [FLOP/s] and their derivation."""
    if workload.exponent is None:
        return _NAN, ""
    if result.vflops_flop_per_s is not None:
        return result.vflops_flop_per_s, f"VFLOPS as declared, n = {workload.exponent:g}"
    if result.quality is None:
        return _NAN, ""
    rate = compute_vflops(rate_flop_per_s, result.quality, workload.quality_target, workload.exponent)
    return rate, f"VFLOPS: FLOPS x (declared quality / target)^{workload.exponent:g}"


def _capped(result: PublishedResult, workload: PublishedWorkload, rate_flop_per_s: float) -> float:
    """Return VFLOPS in which a quality above the target counts as the target; NaN without a declared quality."""
    if workload.exponent is None or result.quality is None:
        return _NAN
    if result.vflops_flop_per_s is None:
        return compute_vflops(rate_flop_per_s, result.quality, workload.quality_target, workload.exponent, capped=True)
    return result.vflops_flop_per_s / max(
        quality_coefficient(result.quality, workload.quality_target, workload.exponent), 1.0
    )


def _reasons(result: PublishedResult, workload: PublishedWorkload, rate_flop_per_s: float) -> list[str]:
    """Explain why VFLOPS are missing, or which quality FLOPS and VFLOPS imply: a check, not an attained quality."""
    valid, exponent = result.vflops_flop_per_s, workload.exponent
    if exponent is None:
        return ["no VFLOPS: none is defined for this workload"]
    if result.quality is not None:
        return []
    if valid is None:
        return [NO_QUALITY()]
    if not rate_flop_per_s > 0:
        return []
    implied = implied_quality(rate_flop_per_s, valid, workload.quality_target, exponent)
    return [IMPLIED_QUALITY(quality=implied, n=exponent)]
