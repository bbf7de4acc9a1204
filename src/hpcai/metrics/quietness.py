"""Whether a machine was quiet during a measurement: use by others, and pauses, as columns of tables."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hpcai.core.disturbance import Disturbance, Tolerance, is_disturbed, worst
from hpcai.core.stalls import say_stall
from hpcai.metrics.cells import number_or_nan
from hpcai.records.run import RunRecord

DISTURBED, QUIET, UNKNOWN = "disturbed", "quiet", "not measured"


@dataclass(frozen=True)
class Quiet:
    """Quietness columns of every table of measurements.

    Attributes
    ----------
    quiet
        ``quiet``; ``disturbed``, if a share is above the limit; ``not measured``.
    others_ratio, steal_ratio
        Shares of the cores taken by other processes, and by a hypervisor, on the most disturbed node; NaN if not
        measured.
    """

    quiet: str
    others_ratio: float
    steal_ratio: float


@dataclass(frozen=True)
class RunQuiet(Quiet):
    """Additional columns of the table of runs; NaN if not measured.

    Attributes
    ----------
    disturbance_limit_ratio
        Above this share a run is disturbed (study key ``limits.disturbance.others_ratio``).
    probe_before_flop_per_s, probe_after_flop_per_s
        Rate of a short matrix product on the slowest rank, before and after the run.
    longest_gap_s
        Longest interval between two heartbeats of rank 0 from run_start to run_stop.
    stalls, stall_max_s, stall_beside_s
        Number of stalled steps and evaluations (:mod:`hpcai.core.stalls`), the longest of them, and the median of its
        neighbours; the times are NaN without a stall.
    """

    disturbance_limit_ratio: float
    probe_before_flop_per_s: float
    probe_after_flop_per_s: float
    longest_gap_s: float
    stalls: float
    stall_max_s: float
    stall_beside_s: float


def judge_quiet(nodes: Iterable[Disturbance], tolerance: Tolerance) -> Quiet:
    """Return whether the nodes of a measurement were quiet enough."""
    nodes = tuple(nodes)
    found = worst(nodes)
    if found is None:
        return NOT_WATCHED
    return Quiet(DISTURBED if is_disturbed(nodes, tolerance) else QUIET, found.others_ratio, found.steal_ratio)


NOT_WATCHED = Quiet(UNKNOWN, float("nan"), float("nan"))


def quiet_of_scale(scale: Mapping[Any, Any]) -> Quiet:
    """Return whether all runs behind a row of the table of scales were quiet enough."""
    if math.isnan(scale["n_disturbed"]):
        return NOT_WATCHED
    quiet = DISTURBED if scale["n_disturbed"] else QUIET
    return Quiet(quiet, float(scale["others_max_ratio"]), float(scale["steal_max_ratio"]))


def quiet_columns(record: RunRecord) -> RunQuiet:
    """Return the columns on the quietness of a run's nodes, from its record."""
    tolerance = record.plan.limits.disturbance
    found, nan = judge_quiet(record.disturbance, tolerance), float("nan")
    probes = [rank.quietness for rank in record.ranks if rank.quietness]
    stalls = record.training.stalls if record.training else None
    return RunQuiet(
        quiet=found.quiet,
        others_ratio=found.others_ratio,
        steal_ratio=found.steal_ratio,
        disturbance_limit_ratio=tolerance.others_ratio,
        probe_before_flop_per_s=min((probe.probe_before_flop_per_s for probe in probes), default=nan),
        probe_after_flop_per_s=min((probe.probe_after_flop_per_s for probe in probes), default=nan),
        longest_gap_s=number_or_nan(record.training.longest_gap_s if record.training else None),
        stalls=float(stalls.count) if stalls else nan,
        stall_max_s=number_or_nan(stalls.longest_s if stalls else None),
        stall_beside_s=number_or_nan(stalls.beside_s if stalls else None),
    )


def stall_remark(record: RunRecord) -> str:
    """Return the remark on a run whose times include a pause; blank if there is none, or it is unknown."""
    if not record.is_stalled:
        return ""
    found = quiet_columns(record)
    return f"stalled: {say_stall(found.stall_max_s, found.stall_beside_s)}"
