"""Communication per training step: step boundaries, a typical step, and one summary row per run."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hpcai.metrics.profiles import communication as parts
from hpcai.metrics.profiles.spans import covered_length, group_overlapping, merge_intervals

FEWEST_MOMENTS = 10
"""One of two fair ranks is last in all of 10 moments once in 512 times, but in all of 5 once in 16."""
DEFAULT_CYCLE_S = 1e-3
"""Horovod's default cycle. Requests of the ranks within one cycle appear in the order of rank numbers."""
_SLACK_S = 0.5e-6
"""Half of the timeline's unit."""


@dataclass(frozen=True)
class SlowestRank:
    """The rank that kept the others waiting most often.

    Attributes
    ----------
    rank
        Its number; None with fewer than `FEWEST_MOMENTS` moments, or if no rank was ever late.
    last_ratio
        Share of the moments in which it was last by more than a cycle; NaN without a rank.
    moments
        Moments in which all ranks were marked ready. Tensors come in bursts: negotiations that overlap in time are one
        moment, in which one rank keeps the others waiting, regardless of the number of tensors.
    """

    rank: int | None
    last_ratio: float
    moments: int


def slowest_rank(ready: pd.DataFrame, negotiations: pd.DataFrame, ranks: int, cycle_s: float = math.nan) -> SlowestRank:
    """Return the rank that is most often ready last.

    Horovod's cache answers repeated negotiations without ready marks. In most runs only those before the first step
    are visible, which allow no conclusion about the steps.

    Parameters
    ----------
    ready
        ``tensor, rank, time_s`` and perhaps ``file``.
    negotiations
        ``tensor, start_s, duration_s`` and perhaps ``file`` of the counted negotiations.
    ranks
        Number of ranks.
    cycle_s
        Horovod's cycle; a rank less than that behind the others is not late. NaN: `DEFAULT_CYCLE_S`.
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
    """Return the negotiations in which all ranks were marked: first and last mark, the last rank, and its margin."""
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


LANES = (
    (("NEGOTIATE_",), "negotiation"),
    (("WAIT_",), "waiting"),
    (("QUEUE",), "queue"),
    (("MEMCPY_", "INIT_", "ALLOCATE_", "COPY_"), "fusion buffer"),
    (parts.LIBRARIES, "transfer"),
)
"""Lanes, keyed by prefix of the activity. Whole operations have none, because they are the sum of their parts."""
COMPUTATION = "computation"
NO_WINDOWS = pd.DataFrame({"start_s": [], "duration_s": []}, dtype=float)
_NAN = math.nan
_TICK_S = 0.5e-6
"""Half of the timeline's unit: sums of times are inexact."""


def find_steps(spans: pd.DataFrame) -> pd.DataFrame:
    """Return the steps of a run from the repetitions of its tensors.

    Gradients are negotiated once per step under the same name. Steps follow the tensors with the most bytes that share
    their number of negotiations. Each step begins with the first negotiation, and the last ends with the last
    operation. Columns ``start_s, duration_s``; pauses between steps, such as evaluations, belong to the step before.

    Parameters
    ----------
    spans
        Spans of one timeline.
    """
    asked = spans[spans["activity"].astype(str) == parts.NEGOTIATION + "ALLREDUCE"]
    done = spans[spans["activity"].astype(str) == "ALLREDUCE"]
    if asked.empty or done.empty:
        return NO_WINDOWS
    asked = asked.assign(tensor=asked["tensor"].astype(str)).sort_values("start_s", kind="stable")
    counts = asked["tensor"].value_counts()
    sizes = done.groupby(done["tensor"].astype(str))["bytes"].median().reindex(counts.index).fillna(0.0)
    usual = sizes.groupby(counts).sum().idxmax()
    asked = asked[asked["tensor"].map(counts) == usual]
    starts = asked.groupby(asked.groupby("tensor").cumcount())["start_s"].min().to_numpy(float)
    tensors = set(asked["tensor"])
    ends = (done["start_s"] + done["duration_s"])[done["tensor"].astype(str).isin(tensors)]
    durations = np.diff(starts, append=float(ends.max()))
    return pd.DataFrame({"start_s": starts, "duration_s": durations})[durations > 0].reset_index(drop=True)


def step_lanes(spans: pd.DataFrame, computation: pd.DataFrame | None, windows: pd.DataFrame) -> pd.DataFrame:
    """Return the activities of a typical step: the one of median duration.

    Columns ``lane, activity, start_s`` (0 = start of the step), ``duration_s``. Overlapping spans of one activity are
    merged, and spans are cut at the limits of the step.

    Parameters
    ----------
    spans
        Spans of a timeline.
    computation
        ``start_s, duration_s`` and perhaps ``activity``, on the same clock, or None.
    windows
        ``start_s, duration_s`` of the steps.
    """
    columns = ["lane", "activity", "start_s", "duration_s"]
    if windows.empty:
        return pd.DataFrame(columns=columns)
    middle = windows.sort_values("duration_s", kind="stable").iloc[(len(windows) - 1) // 2]
    low, high = float(middle["start_s"]), float(middle["start_s"] + middle["duration_s"])
    found = spans[["activity", "start_s", "duration_s"]].assign(activity=spans["activity"].astype(str))
    found["lane"] = found["activity"].map({name: _lane(name) for name in found["activity"].unique()})
    if computation is not None and len(computation):
        named = computation if "activity" in computation else computation.assign(activity=COMPUTATION)
        found = pd.concat([found, named[["activity", "start_s", "duration_s"]].assign(lane=COMPUTATION)])
    end = found["start_s"] + found["duration_s"]
    found = found[(end > low) & (found["start_s"] < high)].dropna(subset=["lane"])
    rows = []
    for (lane, activity), group in found.groupby(["lane", "activity"], observed=True):
        start = group["start_s"].to_numpy(float)
        starts, ends = merge_intervals(
            start.clip(low, high), (start + group["duration_s"].to_numpy(float)).clip(low, high)
        )
        rows.append(
            pd.DataFrame({"lane": lane, "activity": activity, "start_s": starts - low, "duration_s": ends - starts})
        )
    table = pd.concat(rows) if rows else pd.DataFrame(columns=columns)
    return table.sort_values(["start_s", "lane"], kind="stable", ignore_index=True)


def _lane(activity: str) -> str | None:
    """Return the lane of an activity; None for a whole operation."""
    if activity in parts.OPERATIONS:
        return None
    if activity.startswith(parts.LIBRARIES) and activity.endswith(parts.ALLTOALL):
        return parts.HALO
    return next((lane for starts, lane in LANES if activity.startswith(starts)), "other")


def communication_summary(
    spans: pd.DataFrame, ready: pd.DataFrame, cycles: pd.DataFrame, conditions: parts.Conditions
) -> dict[str, object]:
    """Return one row of the communication view for a run.

    Only `spans_of_steps` count. ``negotiation_s``, ``transfer_s`` and ``exchange_per_step_s`` are times during which at
    least one tensor was negotiated, transferred by an allreduce, or either negotiated or in an operation. The part of a
    negotiation before the first step does not count. The share of negotiation is that of the summed, whole spans
    (Table 12). The slowest rank comes from negotiations that begin within the steps. Unknown steps are found in the
    timeline, excluding the first, which does the set-up. Mean size and bandwidth (total bytes over total time) cover
    the messages of the main exchange (`communication.main_messages`). All others count in ``other_batches`` and
    ``other_transfer_s``; both kinds count in ``batches``, ``transfer_s`` and ``bytes_per_step``. ``step_time_s`` is the
    mean, and ``communication_share_ratio`` a share of it.

    Parameters
    ----------
    spans, ready, cycles
        Tables of a timeline.
    conditions
        Facts besides the timeline.
    """
    windows = find_steps(spans).iloc[1:] if conditions.windows is None else conditions.windows
    spans = spans_of_steps(spans, windows)
    messages = parts.merge_batches(spans, conditions.doubtful)
    phases = parts.phase_table(spans)
    negotiations, operations = parts.is_negotiation(spans["activity"]), parts.is_operation(spans["activity"])
    steps = len(windows)
    exchange_s = covered_length(*_intervals(windows), *_intervals(spans[negotiations | operations]))
    cycle_s = parts.cycle_time(cycles)
    begun = spans["start_s"] >= windows["start_s"].min() if steps else True
    slowest = slowest_rank(ready, spans[negotiations & begun], conditions.ranks, cycle_s)
    return {
        "steps": steps,
        "operations": int(operations.sum()),
        **_message_columns(messages, steps, conditions.ranks),
        "negotiation_s": _covered(spans[negotiations], windows),
        "negotiation_share_ratio": parts.negotiation_share(phases),
        "exchange_per_step_s": exchange_s / steps if steps else _NAN,
        "halo_per_step_s": _covered(spans[parts.is_halo(spans["activity"])], windows) / steps if steps else _NAN,
        "overlap_ratio": parts.overlap_ratio(messages, conditions.computation),
        "step_time_s": float(windows["duration_s"].mean()) if steps else _NAN,
        "communication_share_ratio": parts.share_of(exchange_s, float(windows["duration_s"].sum())),
        "slowest_rank": slowest.rank,
        "slowest_rank_last_ratio": slowest.last_ratio,
        "slowest_rank_negotiations": slowest.moments,
        "cycle_time_s": cycle_s,
        "coverage_ratio": conditions.coverage_ratio,
        "reasons": "; ".join(conditions.reasons),
    }


def _message_columns(messages: pd.DataFrame, steps: int, ranks: int) -> dict[str, object]:
    """Summarise the messages of some steps, separating the main exchange from the others."""
    carries = parts.main_messages(messages)
    main, others = messages[carries], messages[~carries & messages["bytes"].notna()]
    algorithm = parts.algorithm_bandwidth(main)
    whole_sizes = bool(len(messages)) and bool(messages["bytes"].notna().all())
    return {
        "batches": len(messages),
        "batch_bytes_mean": float(main["bytes"].mean()) if len(main) else _NAN,
        "other_batches": len(others),
        "bytes_per_step": float(messages["bytes"].sum()) / steps if steps and whole_sizes else _NAN,
        "transfer_s": float(messages["duration_s"].sum()) if len(messages) else _NAN,
        "other_transfer_s": float(others["duration_s"].sum()) if len(messages) else _NAN,
        "algorithm_bandwidth_bytes_per_s": algorithm,
        "bus_bandwidth_bytes_per_s": parts.bus_bandwidth(algorithm, ranks),
    }


def spans_of_steps(spans: pd.DataFrame, windows: pd.DataFrame) -> pd.DataFrame:
    """Return the spans that belong to the steps, from the first to the last; all spans if no step is known.

    A negotiation belongs to the steps if its operation begins within them, even if a rank requested it before. Any
    other span belongs by its own start.

    Parameters
    ----------
    spans
        Spans of a timeline.
    windows
        ``start_s, duration_s`` of the steps.
    """
    if windows.empty or spans.empty:
        return spans
    start, end = _intervals(windows)
    begin_s = _begin_of_operation(spans)
    kept: pd.DataFrame = spans.loc[(begin_s >= start.min()) & (begin_s < end.max())]
    return kept


def _begin_of_operation(spans: pd.DataFrame) -> NDArray[np.float64]:
    """Return the start of each span; for a negotiation, the start of the operation that follows."""
    begin_s = spans["start_s"].to_numpy(float).copy()
    asks = parts.is_negotiation(spans["activity"])
    keys = ["file", "tensor"] if "file" in spans else ["tensor"]
    columns = [*keys, "start_s", "duration_s"]
    named = spans[columns].assign(tensor=pd.factorize(spans["tensor"])[0], place=np.arange(len(spans)))
    done = named[parts.is_operation(spans["activity"])].assign(begin_s=named["start_s"]).sort_values("begin_s")
    asked = named[asks].assign(end_s=lambda table: table["start_s"] + table["duration_s"] - _TICK_S)
    pairs = pd.merge_asof(
        asked.sort_values("end_s", kind="stable"),
        done[[*keys, "begin_s"]],
        left_on="end_s",
        right_on="begin_s",
        by=keys,
        direction="forward",
    ).dropna(subset=["begin_s"])
    begin_s[pairs["place"].to_numpy()] = pairs["begin_s"].to_numpy(float)
    return begin_s


def _intervals(table: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    start = table["start_s"].to_numpy(float)
    return start, start + table["duration_s"].to_numpy(float)


def _covered(table: pd.DataFrame, windows: pd.DataFrame) -> float:
    """Return how long at least one of some spans is active within the steps [s]; NaN if there are none."""
    if table.empty:
        return _NAN
    if windows.empty:
        start, end = merge_intervals(*_intervals(table))
        return float((end - start).sum())
    return covered_length(*_intervals(windows), *_intervals(table))
