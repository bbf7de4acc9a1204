"""Which rank the others wait for, from the marks that a Horovod timeline sets when a rank is ready with a tensor."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpcai.metrics.profiles.spans import group_overlapping

FEWEST_MOMENTS = 10
"""One of two fair ranks is last in all of 10 moments by chance once in 512 times, in all of 5 once in 16."""
DEFAULT_CYCLE_S = 1e-3
"""Horovod's cycle where nothing else is known. Within one, the ranks' requests stand in the order of their numbers."""
_SLACK_S = 0.5e-6
"""Half of the timeline's unit."""


@dataclass(frozen=True)
class SlowestRank:
    """The rank for which the others waited most often.

    Attributes
    ----------
    rank
        Its number; None if fewer than `FEWEST_MOMENTS` tell, or nobody was ever late.
    last_ratio
        Share of the moments in which it came last, by more than a cycle; NaN without a rank.
    moments
        Moments in which every rank was seen to be ready. Tensors come in bursts: negotiations that overlap in time
        are one moment, in which one rank keeps the others waiting, however many tensors there are.
    """

    rank: int | None
    last_ratio: float
    moments: int


def slowest_rank(ready: pd.DataFrame, negotiations: pd.DataFrame, ranks: int, cycle_s: float = math.nan) -> SlowestRank:
    """Return the rank that is most often ready last.

    Horovod's cache answers repeated negotiations without ready marks, so that in most runs only those before the
    first step are seen, and nothing can be said about the steps.

    Parameters
    ----------
    ready
        ``tensor, rank, time_s`` and perhaps ``file``.
    negotiations
        ``tensor, start_s, duration_s`` and perhaps ``file`` of the negotiations that count.
    ranks
        How many there are.
    cycle_s
        Horovod's cycle; a rank that comes less than that after the others was not late. NaN: `DEFAULT_CYCLE_S`.
    """
    votes = _votes(ready, negotiations, ranks)
    if not len(votes):
        return SlowestRank(None, math.nan, 0)
    moment = group_overlapping(votes["first_s"].to_numpy(float), votes["last_s"].to_numpy(float))
    latest = votes.loc[votes["last_s"].groupby(moment).idxmax()]
    late = latest.loc[latest["margin_s"] >= (cycle_s if cycle_s > 0 else DEFAULT_CYCLE_S), "rank"]
    if len(latest) < FEWEST_MOMENTS or late.empty:
        return SlowestRank(None, math.nan, len(latest))
    counts = late.value_counts().sort_index()
    return SlowestRank(int(counts.idxmax()), float(counts.max() / len(latest)), len(latest))


def _votes(ready: pd.DataFrame, negotiations: pd.DataFrame, ranks: int) -> pd.DataFrame:
    """Return the negotiations in which all ranks were marked: first and last mark, who set it, and by what margin."""
    keys = ["file", "tensor"] if "file" in ready else ["tensor"]
    if ranks < 2 or ready.empty or negotiations.empty:
        return pd.DataFrame()
    asked = negotiations[[*keys, "start_s", "duration_s"]].assign(tensor=negotiations["tensor"].astype(object))
    asked = asked.sort_values("start_s", kind="stable").assign(number=np.arange(len(asked)))
    marks = ready.assign(tensor=ready["tensor"].astype(object), time_s=ready["time_s"].astype(float) + _SLACK_S)
    marks = marks.sort_values("time_s", kind="stable")
    found = pd.merge_asof(marks, asked, left_on="time_s", right_on="start_s", by=keys)
    found = found[found["time_s"] <= found["start_s"] + found["duration_s"] + 2 * _SLACK_S]
    groups = found.groupby("number")
    whole = found[(groups["rank"].transform("nunique") == ranks) & (groups["rank"].transform("size") == ranks)]
    groups = whole.groupby("number")
    last = groups.tail(1)
    before_s = whole.drop(last.index).groupby("number")["time_s"].max()
    votes = pd.DataFrame({"first_s": groups["time_s"].min(), "last_s": groups["time_s"].max()})
    votes["rank"] = last.set_index("number")["rank"]
    votes["margin_s"] = votes["last_s"] - before_s
    return votes.sort_values("first_s", kind="stable")
