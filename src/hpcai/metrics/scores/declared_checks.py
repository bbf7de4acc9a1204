"""Recompute printed numbers of a source from its other numbers, and check whether they agree."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd

from hpcai.catalogue.tables import columns_of
from hpcai.config.printed import Printed, unit_of
from hpcai.config.published import (
    Breakdown,
    Published,
    PublishedMachine,
    PublishedResult,
    PublishedWorkload,
    QualityGain,
)
from hpcai.core.messages import Message
from hpcai.metrics.roofline.declared import declared_roofline
from hpcai.metrics.roofline.model import communication_intensity
from hpcai.metrics.scaling.laws import parallel_efficiency
from hpcai.metrics.scores.declared import declared_peak, declared_rate
from hpcai.metrics.scores.vflops import compute_vflops, implied_quality, quality_coefficient

CHECK_COLUMNS = columns_of("declared_checks")
"""One row per printed number: `computed` follows from the file's inputs, `ratio` is computed over `printed`,
`tolerance` is the allowed deviation; `expected` is False where the source is known to contradict itself, as `note`
explains."""
BREAKDOWN_COLUMNS = columns_of("declared_breakdowns")
"""One row per part of a published breakdown. `share_ratio` is computed if times are given;
`dram_utilisation` is the profiler's scale of 0 to 10; `device_busy_ratio` refers to the whole breakdown."""
NEGOTIATION = "NEGOTIATE_ALLREDUCE"
"""The phase of Horovod's exchange in which ranks negotiate readiness."""
SHARES_TOO_LARGE = Message(
    "declared_checks.shares_too_large",
    "shares: found a sum of {total:g} of {names}, expected parts of at most 1",
)
OTHER = "other"
GRADIENT_BYTES = 4
"""Bytes of a gradient in single precision, for the intensities of Table 5."""
_NAN = math.nan
Compute = Callable[[Printed], float]


def check_declared(published: Published) -> pd.DataFrame:
    """Compare every printed number of a source with the value that our functions compute from its inputs.

    Parameters
    ----------
    published
        The file.

    Returns
    -------
    pandas.DataFrame
        ``CHECK_COLUMNS``. Values that cannot be computed are NaN and do not agree.
    """
    rows = [_compare(published.name, *each) for each in _all_printed(published)]
    return pd.DataFrame(rows, columns=list(CHECK_COLUMNS))


def declared_breakdowns(published: Published) -> pd.DataFrame:
    """Return the parts of every breakdown of a file.

    Parameters
    ----------
    published
        The file.

    Returns
    -------
    pandas.DataFrame
        ``BREAKDOWN_COLUMNS``, one row per part; values missing in the source are NaN.
    """
    rows = [
        {
            "origin": published.name,
            "breakdown": each.title,
            "part": part,
            "time_s": each.parts_s.get(part, _NAN),
            "share_ratio": share,
            "instructions_per_cycle": each.instructions_per_cycle.get(part, _NAN),
            "dram_utilisation": each.dram_utilisation.get(part, _NAN),
            "device_busy_ratio": each.device_busy_ratio or _NAN,
            "where": each.where,
            "note": each.note,
        }
        for each in published.breakdowns
        for part, share in each.shares.items()
    ]
    return pd.DataFrame(rows, columns=list(BREAKDOWN_COLUMNS))


def complete_shares(shares: Mapping[str, float]) -> dict[str, float]:
    """Complete shares of a whole with "other" for the missing part.

    Parameters
    ----------
    shares
        Shares of the whole. An existing share "other" grows by the missing part.

    Raises
    ------
    ValueError
        If they add up to more than 1, or one is negative.
    """
    total = math.fsum(shares.values())
    if total > 1 + 1e-9 or any(share < 0 for share in shares.values()):
        raise ValueError(SHARES_TOO_LARGE(total=total, names=", ".join(shares)))
    return {**shares, OTHER: shares.get(OTHER, 0.0) + max(1.0 - total, 0.0)}


def coefficient_gain(base_quality: float, gain: float, exponent: float) -> float:
    """Return the factor by which an absolute gain of quality raises VFLOPS, ((q + gain) / q)^n.

    Raises
    ------
    ValueError
        If base or exponent are not positive.
    """
    return quality_coefficient(base_quality + gain, base_quality, exponent)


def _compare(origin: str, name: str, printed: Printed, compute: Compute) -> dict[str, Any]:
    value = compute(printed)
    return {
        "origin": origin,
        "result": name,
        "quantity": printed.quantity,
        "unit": unit_of(printed.quantity),
        "against": printed.against or "",
        "computed": value,
        "printed": _NAN if printed.value is None else printed.value,
        "ratio": value / printed.value if printed.value else _NAN,
        "tolerance": _say_tolerance(printed),
        "agrees": _agrees(value, printed),
        "expected": printed.consistent,
        "where": printed.where,
        "found": printed.found,
        "note": printed.note,
    }


def _agrees(value: float, printed: Printed) -> bool:
    if printed.value is None:
        return (printed.lowest or 0.0) <= value <= (printed.highest or 0.0)
    allowed = printed.tolerance if printed.tolerance is not None else printed.tolerance_ratio * abs(printed.value)
    return abs(value - printed.value) <= allowed


def _say_tolerance(printed: Printed) -> str:
    if printed.value is None:
        return f"{printed.lowest:g} to {printed.highest:g}"
    if printed.tolerance is not None:
        return f"{printed.tolerance:g} {unit_of(printed.quantity)}".strip()
    return f"{100 * printed.tolerance_ratio:g} %"


def _all_printed(published: Published) -> Iterator[tuple[str, Printed, Compute]]:
    """Yield every printed number with its owner and the function that recomputes it."""
    for key, workload in published.workloads.items():
        yield from ((key, each, _for_workload(workload)) for each in workload.printed)
    for key, machine in published.machines.items():
        for number, ceiling in enumerate(machine.ceilings):
            yield from ((f"{key}, {ceiling.name}", each, _for_ceiling(machine, number)) for each in ceiling.printed)
    for result in published.results:
        yield from ((result.name, each, _for_result(result, published)) for each in result.printed)
    for gain in published.gains:
        yield from ((gain.name, each, _for_gain(gain, published)) for each in gain.printed)
    for breakdown in published.breakdowns:
        yield from ((breakdown.name, each, _for_breakdown(breakdown, published)) for each in breakdown.printed)


def _pick(functions: Mapping[str, Callable[[], float]]) -> Compute:
    """Return a function that computes a printed quantity; NaN if its owner lacks that quantity."""
    return lambda printed: functions.get(printed.quantity, lambda: _NAN)()


def _for_workload(workload: PublishedWorkload) -> Compute:
    step, parameters = workload.flop_per_step or _NAN, workload.parameters or _NAN
    return _pick(
        {
            "flop_per_sample": lambda: step / (workload.samples_per_step or _NAN),
            "profiled_flop_per_sample": lambda: (workload.profiled_flop or _NAN) / (workload.profiled_samples or _NAN),
            "flop_per_parameter": lambda: step / parameters,
            "flop_per_byte": lambda: communication_intensity(step, GRADIENT_BYTES * parameters),
        }
    )


def _for_ceiling(machine: PublishedMachine, number: int) -> Compute:
    ceiling = machine.ceilings[number]
    return _pick({"ceiling_flop_per_s": lambda: ceiling.node_flop_per_s * ceiling.nodes})


def _for_result(result: PublishedResult, published: Published) -> Compute:
    workload = published.workloads[result.workload]
    rate, quality = declared_rate(result, published).flop_per_s, result.quality or _NAN
    target, exponent = workload.quality_target, workload.exponent or _NAN
    declared_valid = result.vflops_flop_per_s or _NAN

    def compute(printed: Printed) -> float:
        if printed.against:
            return _against(result, published.result(printed.against), printed.quantity, published)
        return _pick(
            {
                "rate_flop_per_s": lambda: rate,
                "vflops_flop_per_s": lambda: compute_vflops(rate, quality, target, exponent),
                "quality_coefficient_ratio": lambda: quality_coefficient(quality, target, exponent),
                "implied_quality": lambda: implied_quality(rate, declared_valid, target, exponent),
                "peak_ratio": lambda: rate / declared_peak(result, published)[0],
                "fp32_peak_ratio": lambda: rate / declared_peak(result, published, "fp32")[0],
                "communication_roof_flop_per_s": lambda: _roof(result, published, own_links=True),
                "single_link_roof_flop_per_s": lambda: _roof(result, published, own_links=False),
            }
        )(printed)

    return compute


def _against(result: PublishedResult, base: PublishedResult, quantity: str, published: Published) -> float:
    """Return gain or efficiency over another result; NaN unless their compression is known to be equal."""
    rate, base_rate = (declared_rate(each, published).flop_per_s for each in (result, base))
    if quantity == "gain_ratio":
        return rate / base_rate
    if result.compression != base.compression:
        return _NAN
    return parallel_efficiency(rate, result.ranks or 0, base_rate, base.ranks or 0)


def _roof(result: PublishedResult, published: Published, *, own_links: bool) -> float:
    """Return the communication roof [FLOP/s], with one link per participant or one link for all traffic."""
    points = declared_roofline(published)
    point = points[points["result"] == result.name].iloc[0]
    roof = float(point["communication_roof_flop_per_s"])
    return roof if own_links else roof / float(point["participants"])


def _for_gain(gain: QualityGain, published: Published) -> Compute:
    exponent = published.workloads[gain.workload].exponent or _NAN
    return _pick({"coefficient_gain_ratio": lambda: coefficient_gain(gain.base_quality, gain.gain, exponent)})


def _for_breakdown(breakdown: Breakdown, published: Published) -> Compute:
    def compute(printed: Printed) -> float:
        other = next((each for each in published.breakdowns if each.name == printed.against), breakdown)
        shares = breakdown.shares
        share, other_share = (each.shares.get(NEGOTIATION, _NAN) for each in (breakdown, other))
        total_s, other_total_s = (each.total_s or _NAN for each in (breakdown, other))
        return _pick(
            {
                "wait_s": lambda: math.fsum(breakdown.parts_s.get(each, _NAN) for each in breakdown.waits),
                "negotiation_ratio": lambda: share,
                "negotiation_gain_ratio": lambda: share * total_s / (other_share * other_total_s),
                "negotiation_share_gain_ratio": lambda: share / other_share,
                "exchange_ratio": lambda: math.fsum(shares[each] for each in breakdown.exchange),
                "other_ratio": lambda: complete_shares(shares)[OTHER],
            }
        )(printed)

    return compute
