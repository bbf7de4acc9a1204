"""Runs that a later round published again: known by their starts and durations."""

import hashlib
from collections.abc import Sequence
from typing import Any

import pandas as pd

from hpcai.metrics.score_columns import REPEATED
from hpcai.mlperf_hpc.analysis.result_quantities import join_reasons


def say_repeats(groups: Sequence[pd.DataFrame]) -> list[str]:
    """Say of each result whether an earlier one has the same runs; blank if none has.

    Parameters
    ----------
    groups
        Rows of ``mlperf_runs``: all runs of a result, results in the order in which they were published.
    """
    seen: dict[tuple[Any, ...], str] = {}
    said = []
    for group in groups:
        key = _identify(group)
        first = f"{group['origin'].iloc[0]} {group['submission'].iloc[0]}"
        said.append(f"{REPEATED} {seen[key]}" if key in seen else "")
        if key:
            seen.setdefault(key, first)
    return said


def digest_runs(runs: pd.DataFrame) -> str:
    """Return the SHA-256 of the starts and durations of runs that came to an end; blank without one."""
    key = _identify(runs)
    return hashlib.sha256(repr(key).encode()).hexdigest() if key else ""


def mark_repeats(weak: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the table of weak scaling with the remark which results an earlier round published already.

    Parameters
    ----------
    weak, runs
        Tables ``mlperf_weak`` and ``mlperf_runs`` of the same rounds; pruned instances are not compared.
    """
    key = ["origin", "submission", "benchmark"]
    instances = runs[runs["scaling"] == "weak"]
    groups = dict(list(instances.groupby(key, sort=False, dropna=False)))
    said = dict(zip(groups, say_repeats(list(groups.values())), strict=True))
    remarks = [said.get(name, "") for name in weak[key].itertuples(index=False, name=None)]
    return weak.assign(reason=[join_reasons(pair) for pair in zip(remarks, weak["reason"], strict=True)])


def _identify(runs: pd.DataFrame) -> tuple[tuple[str, float], ...]:
    timed = runs[runs["run_s"].notna()]
    return tuple(
        sorted((str(start), float(time)) for start, time in zip(timed["started_utc"], timed["run_s"], strict=True))
    )
