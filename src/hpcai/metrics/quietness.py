"""Whether a machine was quiet while something was timed: what others took of it, in the words of the tables."""

from dataclasses import dataclass

from hpcai.disturbance import worst
from hpcai.records import RunRecord

DISTURBED, QUIET, UNKNOWN = "disturbed", "quiet", "not measured"


@dataclass(frozen=True)
class QuietColumns:
    """Columns of the table of runs; NaN where nothing was measured.

    Attributes
    ----------
    quiet
        ``quiet``; ``disturbed``, if a share is above the limit; ``not measured``.
    others_ratio, steal_ratio
        Shares of the cores that other processes, and a hypervisor, took of the node that was disturbed most, from
        run_start to run_stop.
    disturbance_limit_ratio
        Above this share a run is disturbed (study key ``limits.disturbance.others_ratio``).
    probe_before_flop_per_s, probe_after_flop_per_s
        Rate of a short matrix product of the slowest rank, before and after.
    """

    quiet: str
    others_ratio: float
    steal_ratio: float
    disturbance_limit_ratio: float
    probe_before_flop_per_s: float
    probe_after_flop_per_s: float


def quiet_columns(record: RunRecord) -> QuietColumns:
    """Return what a run's record says of the quiet of its nodes."""
    found, nan = worst(record.disturbance), float("nan")
    probes = [rank.quietness for rank in record.ranks if rank.quietness]
    return QuietColumns(
        quiet=UNKNOWN if found is None else DISTURBED if record.is_disturbed else QUIET,
        others_ratio=found.others_ratio if found else nan,
        steal_ratio=found.steal_ratio if found else nan,
        disturbance_limit_ratio=record.plan.limits.disturbance.others_ratio,
        probe_before_flop_per_s=min((probe.probe_before_flop_per_s for probe in probes), default=nan),
        probe_after_flop_per_s=min((probe.probe_after_flop_per_s for probe in probes), default=nan),
    )
