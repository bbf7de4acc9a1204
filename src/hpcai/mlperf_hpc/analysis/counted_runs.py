"""Select the runs of a submission that count, by either rule in use, and those that enter the olympic mean."""

import math
from collections.abc import Sequence

from hpcai.mlperf_hpc.analysis.targets import QUALITY, target_of
from hpcai.mlperf_hpc.rounds.model import LoggedRun

FEWEST_RUNS = 3
"""Fewer runs leave none between the fastest and the slowest."""


def claims_success(run: LoggedRun) -> bool:
    """Return whether a run is good by ``rule=status`` (mlperf_logs.md 5).

    It needs ``run_start`` and ``run_stop`` with valid times, and a status that is ``success`` or missing.
    """
    return run.run is not None and run.claim in ("success", "missing")


def reaches_target(run: LoggedRun, benchmark: str | None = None) -> bool:
    """Return whether one of a run's scores meets the target, as ``rule=target`` also requires (mlperf_logs.md 5).

    Parameters
    ----------
    run
        A run. Only scores of the benchmark's own quality, up to ``run_stop``, are considered.
    benchmark
        Folder of the run; defaults to the logged name, which is wrong in some logs.
    """
    name = benchmark or run.benchmark
    if name not in QUALITY or run.quality_key != QUALITY[name].key:
        return False
    target = target_of(run, name)
    return any(QUALITY[name].reached_by(score.value, target) for score in run.scores)


def keep_runs(times_s: Sequence[float | None], good: Sequence[bool]) -> tuple[int, ...]:
    """Return the indices of the runs in the olympic mean, in ascending order.

    All runs are sorted by time; a run that is not good counts as infinitely slow. The fastest and the slowest are
    dropped (MLPerf Training rules, 12 Benchmark Results; mlperf_logs.md 5).

    Parameters
    ----------
    times_s
        run_start to run_stop of all runs of a submission [s]; None without both.
    good
        Whether each run counts.

    Returns
    -------
    tuple
        Empty with more than one bad run, or with fewer than three runs.
    """
    known = [time if ok and time is not None else math.inf for time, ok in zip(times_s, good, strict=True)]
    if len(known) < FEWEST_RUNS or known.count(math.inf) > 1:
        return ()
    order = sorted(range(len(known)), key=known.__getitem__)
    return tuple(sorted(order[1:-1]))
