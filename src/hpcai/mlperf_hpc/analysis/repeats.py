"""Find runs that a later round published again, by their starts and durations."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from hpcai.metrics.scores.columns import REPEATED
from hpcai.mlperf_hpc.analysis.publication import publication_order
from hpcai.mlperf_hpc.analysis.result_quantities import join_reasons


def find_repeats(groups: Sequence[pd.DataFrame]) -> list[str]:
    """Return, per result, the earlier result with the same runs; blank if there is none.

    Parameters
    ----------
    groups
        Rows of ``mlperf_runs``: all runs of each result. Of results of the same publication, or of unknown ones, the
        first here is the earlier.
    """
    seen: dict[tuple[Any, ...], str] = {}
    said = [""] * len(groups)
    origins = [str(group["origin"].iloc[0]) for group in groups]
    # Not in the order of the sources: named newest first, each original would be its own repeat.
    for place in sorted(range(len(groups)), key=lambda place: publication_order(origins[place])):
        key = _identify(groups[place])
        said[place] = seen.get(key, "")
        if key:
            seen.setdefault(key, f"{origins[place]} {groups[place]['submission'].iloc[0]}")
    return said


def say_repeat(same_runs_as: str) -> str:
    """Return the remark on a result that was published before; blank for a new one."""
    return f"{REPEATED} {same_runs_as}" if same_runs_as else ""


def digest_runs(runs: pd.DataFrame) -> str:
    """Return the SHA-256 of the starts and durations of finished runs; blank without one."""
    key = _identify(runs)
    return hashlib.sha256(repr(key).encode()).hexdigest() if key else ""


def mark_repeats(weak: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Mark the weak-scaling results that an earlier round already published, and add the remark.

    Parameters
    ----------
    weak, runs
        Tables ``mlperf_weak`` and ``mlperf_runs`` of the same rounds; pruned instances are not compared.
    """
    key = ["origin", "submission", "benchmark"]
    instances = runs[runs["scaling"] == "weak"]
    groups = dict(list(instances.groupby(key, sort=False, dropna=False)))
    found = dict(zip(groups, find_repeats(list(groups.values())), strict=True))
    repeats = [found.get(name, "") for name in weak[key].itertuples(index=False, name=None)]
    remarks = zip(map(say_repeat, repeats), weak["reason"], strict=True)
    return weak.assign(same_runs_as=repeats, reason=[join_reasons(pair) for pair in remarks])


def _identify(runs: pd.DataFrame) -> tuple[tuple[str, float], ...]:
    timed = runs[runs["run_s"].notna()]
    return tuple(
        sorted((str(start), float(time)) for start, time in zip(timed["started_utc"], timed["run_s"], strict=True))
    )
