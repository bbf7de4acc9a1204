"""Whether a machine was quiet while something was timed: what others took of it, in the words of the tables."""

from collections.abc import Iterable
from dataclasses import dataclass

from hpcai.disturbance import Disturbance, Tolerance, is_disturbed, worst
from hpcai.records import RunRecord

DISTURBED, QUIET, UNKNOWN = "disturbed", "quiet", "not measured"


@dataclass(frozen=True)
class Quiet:
    """Columns of every table of measurements.

    Attributes
    ----------
    quiet
        ``quiet``; ``disturbed``, if a share is above the limit; ``not measured``.
    others_ratio, steal_ratio
        Shares of the cores that other processes, and a hypervisor, took of the node that was disturbed most; NaN where
        that was not measured.
    """

    quiet: str
    others_ratio: float
    steal_ratio: float


@dataclass(frozen=True)
class RunQuiet(Quiet):
    """Columns of the table of runs besides; NaN where nothing was measured.

    Attributes
    ----------
    disturbance_limit_ratio
        Above this share a run is disturbed (study key ``limits.disturbance.others_ratio``).
    probe_before_flop_per_s, probe_after_flop_per_s
        Rate of a short matrix product of the slowest rank, before and after.
    """

    disturbance_limit_ratio: float
    probe_before_flop_per_s: float
    probe_after_flop_per_s: float


def judge_quiet(nodes: Iterable[Disturbance], tolerance: Tolerance) -> Quiet:
    """Say whether the nodes of a measurement were quiet enough."""
    nodes = tuple(nodes)
    found = worst(nodes)
    if found is None:
        return Quiet(UNKNOWN, float("nan"), float("nan"))
    return Quiet(DISTURBED if is_disturbed(nodes, tolerance) else QUIET, found.others_ratio, found.steal_ratio)


def quiet_columns(record: RunRecord) -> RunQuiet:
    """Return what a run's record says of the quiet of its nodes."""
    tolerance = record.plan.limits.disturbance
    found, nan = judge_quiet(record.disturbance, tolerance), float("nan")
    probes = [rank.quietness for rank in record.ranks if rank.quietness]
    return RunQuiet(
        quiet=found.quiet,
        others_ratio=found.others_ratio,
        steal_ratio=found.steal_ratio,
        disturbance_limit_ratio=tolerance.others_ratio,
        probe_before_flop_per_s=min((probe.probe_before_flop_per_s for probe in probes), default=nan),
        probe_after_flop_per_s=min((probe.probe_after_flop_per_s for probe in probes), default=nan),
    )
