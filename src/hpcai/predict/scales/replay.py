"""Replays of a profiled step: a graph of operations and messages, rebuilt from Horovod's timeline, and what if.

The timeline is rank 0's. Of each other rank it tells when all were ready, so these are one rank here: the slowest. The
typical step has the mean of each part over the middle half of the profiled steps.
"""

import itertools
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from hpcai.core.errors import ParseError
from hpcai.core.messages import Message
from hpcai.metrics.profiles.communication import is_allreduce_transfer
from hpcai.metrics.profiles.link import CALL, TRANSFER
from hpcai.predict.messages import fuse_tensors
from hpcai.predict.scales.exchange import DEFAULT_CYCLE_S, interpolate_time
from hpcai.predict.scales.parts import Floats

SETTLED_STEPS = 4
"""In which a replay repeats the step; the last one is not disturbed by how the first began."""
NO_MESSAGES = Message(
    "replay.no_messages", "none of {steps} steps has as many messages ({messages}) as most: no replay"
)
OWN, SLOWEST = "rank 0", "slowest rank"


@dataclass(frozen=True)
class MessageParts:
    """What one message of a step takes on rank 0 [s].

    Attributes
    ----------
    compute_s
        Since the message before was ready, or the step began.
    request_s
        Until Horovod's next cycle sees the request. Modelled: half a cycle, and what the cycle's begin takes.
    others_s
        How much later the slowest rank's request is seen.
    agreement_s
        For agreeing then, or once the message before has travelled: one thread does both.
    copies_s
        Into and out of the fusion buffer, and all else of the operation that is no transfer.
    tensors_bytes
        Size of each tensor in it, in their order.
    """

    compute_s: float
    request_s: float
    others_s: float
    agreement_s: float
    copies_s: float
    transfer_s: float
    tensors_bytes: tuple[float, ...]

    @property
    def size_bytes(self) -> float:
        """Size of the message."""
        return sum(self.tensors_bytes)


@dataclass(frozen=True)
class StepParts:
    """A step of rank 0: its messages in their order, what follows the last, and Horovod's cycle in that run [s]."""

    messages: tuple[MessageParts, ...]
    after_s: float
    step_s: float
    cycle_s: float = DEFAULT_CYCLE_S


@dataclass(frozen=True)
class Operation:
    """A node of the graph: when it begins depends on what has to end before."""

    name: str
    duration_s: float
    after: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """What is different from the profiled run.

    Attributes
    ----------
    bandwidth_ratio
        Of the link; what a short message takes stays.
    negotiated
        Whether ranks agree at all.
    fusion_bytes
        Largest message; NaN: as profiled.
    cycle_s
        Of Horovod; NaN: as profiled.
    slow_ratio
        Computing of one rank over what it was.
    """

    bandwidth_ratio: float = 1.0
    negotiated: bool = True
    fusion_bytes: float = math.nan
    cycle_s: float = math.nan
    slow_ratio: float = 1.0


AS_PROFILED = Change()
WHAT_IF: Mapping[str, Change] = {
    "twice the bandwidth": Change(bandwidth_ratio=2.0),
    "no negotiation": Change(negotiated=False),
    "messages of 64 KiB": Change(fusion_bytes=65536.0),
    "cycle of 5 ms": Change(cycle_s=5e-3),
    "one rank half as fast": Change(slow_ratio=2.0),
}
"""What is asked by default; the last three can be set here, so bench/bench_replay.py measures them."""


def split_steps(
    spans: pd.DataFrame,
    cycles: pd.DataFrame,
    steps: pd.DataFrame,
    cycle_s: float = DEFAULT_CYCLE_S,
    agreement_s: float = math.nan,
) -> list[StepParts]:
    """Return the parts of each step that has as many messages as most.

    Parameters
    ----------
    spans
        Of the timeline: ``tensor, activity, start_s, duration_s, bytes``.
    cycles
        ``time_s`` of their begins.
    steps
        ``start_s, duration_s`` on the timeline's clock, without those that warm up.
    cycle_s
        Of Horovod, as the profiled run set it [s].
    agreement_s
        What agreeing takes at most where all are ready: that of short calls by themselves [s]; NaN: a cycle.

    Raises
    ------
    ParseError
        If no step has a message.
    """
    table = spans.assign(
        end_s=spans["start_s"] + spans["duration_s"],
        activity=spans["activity"].astype(str),
        tensor=spans["tensor"].astype(str),
    )
    begins = np.sort(cycles["time_s"].to_numpy(float))
    windows = list(zip(steps["start_s"].to_numpy(float), steps["duration_s"].to_numpy(float), strict=True))
    seen = [list(_see_messages(table, *window)) for window in windows]
    usual = statistics.mode(map(len, seen)) if seen else 0
    if not usual:
        raise ParseError(NO_MESSAGES(steps=len(seen), messages=usual))
    steps_seen = list(zip(seen, windows, strict=True))
    undivided = [_split(messages, begins, window, cycle_s) for messages, window in steps_seen]
    # The shortest negotiation of all is the agreement; what is longer waits for the slowest rank. One rank may be late
    # in every step, so it is no agreement beyond what that takes by itself.
    least_s = min((one.others_s for step in undivided for one in step.messages if one.others_s > 0), default=0.0)
    least_s = min(least_s, cycle_s if math.isnan(agreement_s) else agreement_s)
    same = [(messages, window) for messages, window in steps_seen if len(messages) == usual]
    return [_split(messages, begins, window, cycle_s, least_s) for messages, window in same]


@dataclass(frozen=True)
class _Seen:
    """When a timeline saw the parts of a message [s]; ``asked_s``: the last tensor completes it."""

    asked_s: float
    agreed_s: float
    begin_s: float
    end_s: float
    transfer_s: float
    tensors_bytes: tuple[float, ...]


def agreement_by_itself_s(links: pd.DataFrame) -> float:
    """Return what the shortest call takes beyond its transfer [s]; NaN where a size has not both.

    Parameters
    ----------
    links
        Of one engine, scope and number of ranks: ``what, bytes, time_s``.
    """
    times = links.pivot_table(index="bytes", columns="what", values="time_s", aggfunc="median")
    if not {CALL, TRANSFER} <= set(times.columns):
        return math.nan
    waits = (times[CALL] - times[TRANSFER]).dropna()
    return max(float(waits.iloc[0]), 0.0) if len(waits) else math.nan


def _see_messages(table: pd.DataFrame, start_s: float, step_s: float) -> Iterator[_Seen]:
    """Yield the messages of a step in their order."""
    own = table[(table["end_s"] > start_s) & (table["start_s"] < start_s + step_s)]
    for transfer in _transfers(own):
        tensors = own[own["tensor"].isin(set(transfer["tensor"]))]
        asked = tensors[tensors["activity"].str.startswith("NEGOTIATE_")]
        operation = tensors[tensors["activity"] == "ALLREDUCE"]
        if asked.empty or operation.empty:
            continue
        yield _Seen(
            asked_s=float(asked["start_s"].max()),
            agreed_s=_end(asked),
            begin_s=float(operation["start_s"].min()),
            end_s=_end(operation),
            transfer_s=_end(transfer) - float(transfer["start_s"].min()),
            tensors_bytes=tuple(transfer["bytes"].fillna(0.0).astype(float)),
        )


def _split(
    seen: Sequence[_Seen], begins: Floats, window: tuple[float, float], cycle_s: float, least_s: float = 0.0
) -> StepParts:
    """Split a step (its begin and duration) into its parts, where ranks that are ready agree within a time."""
    messages: list[MessageParts] = []
    start_s, step_s = window
    ready_s = last_s = start_s
    for one in seen:
        asked_s = max(one.asked_s, ready_s)  # what was ready before its predecessors goes after them
        request_s = min(_request_s(begins, asked_s, cycle_s), asked_s - ready_s)
        waited_s = max(min(one.agreed_s, one.begin_s) - asked_s - least_s, 0.0)
        messages.append(
            MessageParts(
                compute_s=asked_s - request_s - ready_s,
                request_s=request_s,
                others_s=waited_s,
                # A message that was agreed upon earlier waits until the one before it has travelled.
                agreement_s=max(one.begin_s - max(asked_s + waited_s, last_s), 0.0),
                copies_s=max(one.end_s - one.begin_s - one.transfer_s, 0.0),
                transfer_s=one.transfer_s,
                tensors_bytes=one.tensors_bytes,
            )
        )
        ready_s, last_s = asked_s - request_s, one.end_s
    return StepParts(tuple(messages), max(start_s + step_s - last_s, 0.0), step_s, cycle_s)


def _transfers(own: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the spans of each transfer: those of a fused batch overlap, and belong together."""
    moved = own[is_allreduce_transfer(own["activity"])].sort_values("start_s", kind="stable")
    ends = moved["end_s"].cummax().shift(fill_value=-math.inf)
    for _, part in moved.groupby((moved["start_s"] > ends).cumsum()):
        yield part


def _end(spans: pd.DataFrame) -> float:
    return float(spans["end_s"].max())


def _request_s(begins: Floats, asked_s: float, longest_s: float) -> float:
    """Return how long a request waited on average for the cycle that saw it [s]; 0 without marks of cycles."""
    place = int(np.searchsorted(begins, asked_s, side="right")) - 1
    if place < 1:
        return 0.0
    # A core that computes lets no cycle begin: a longer one than was set was not waited for.
    cycle_s = min(float(begins[place] - begins[place - 1]), longest_s)
    return cycle_s / 2 + asked_s - float(begins[place])


def typical_step(steps: Sequence[StepParts]) -> StepParts:
    """Return the step whose parts are means over the middle half of the steps by duration; its duration is the median.

    Medians of parts do not add up: a rank that computes longer waits for others less.
    """
    ordered = sorted(steps, key=lambda one: one.step_s)
    quarter = len(ordered) // 4
    middle = ordered[quarter : len(ordered) - quarter]
    messages = [_mean_message(same) for same in zip(*(step.messages for step in middle), strict=True)]
    after_s = statistics.fmean(step.after_s for step in middle)
    return StepParts(tuple(messages), after_s, statistics.median(step.step_s for step in steps), steps[0].cycle_s)


def _mean_message(messages: Sequence[MessageParts]) -> MessageParts:
    """Return a message with the mean parts of the same one in several steps; tensors are those of the middle one."""
    times = [field.name for field in fields(MessageParts) if field.name != "tensors_bytes"]
    means = {name: statistics.fmean(getattr(one, name) for one in messages) for name in times}
    return MessageParts(**means, tensors_bytes=messages[len(messages) // 2].tensors_bytes)


def replay_step(step: StepParts, change: Change = AS_PROFILED, transfers: pd.DataFrame | None = None) -> float:
    """Return the duration of a step [s]: of the last of several in a row; NaN if it is not known.

    That is where transfers of shorter messages were not measured, or with another bandwidth none at all, which tell
    what a short message takes; and where messages would only be joined: a timeline does not tell which of them would
    wait for others.

    Parameters
    ----------
    step
        Its parts, as `typical_step` returns them.
    change
        What is different.
    transfers
        Measured transfers of as many ranks (``bytes, time_s``), which tell what shorter messages take; None: not
        measured.
    """
    if transfers is None and change.bandwidth_ratio != 1:
        return math.nan
    if len(step.messages) > 1 and change.fusion_bytes >= max(one.size_bytes for one in step.messages):
        return math.nan
    changed = replace(step, messages=tuple(_change_messages(step, change, transfers)))
    if any(math.isnan(message.transfer_s) for message in changed.messages):
        return math.nan
    ends = _run(list(_operations(changed, change)))
    return ends[_name(OWN, SETTLED_STEPS - 1, "after")] - ends[_name(OWN, SETTLED_STEPS - 2, "after")]


def _change_messages(step: StepParts, change: Change, transfers: pd.DataFrame | None) -> Iterator[MessageParts]:
    latency_s = 0.0 if transfers is None else float(transfers.groupby("bytes")["time_s"].median().iloc[0])
    # All ranks agree within the cycle that sees the last request (Horovod's RunLoopOnce): a longer cycle delays the
    # request alone.
    more_s = 0.0 if math.isnan(change.cycle_s) else change.cycle_s - step.cycle_s
    divided = (_divide(one, change.fusion_bytes, transfers) for one in step.messages)
    for message in itertools.chain.from_iterable(divided):
        short_s = min(latency_s, message.transfer_s)
        found = replace(
            message,
            transfer_s=short_s + (message.transfer_s - short_s) / change.bandwidth_ratio,
            request_s=max(message.request_s + more_s / 2, 0.0),
        )
        yield found if change.negotiated else replace(found, request_s=0.0, agreement_s=0.0)


def _divide(message: MessageParts, fusion_bytes: float, transfers: pd.DataFrame | None) -> Iterator[MessageParts]:
    """Yield a message as several of at most a size, where no tensor is divided.

    They travel one after another once the message would have, agreed upon at once: cores that compute send as well.
    Where accelerators compute, messages that become ready earlier travel meanwhile, and this is an upper bound.
    """
    parts = fuse_tensors(message.tensors_bytes, fusion_bytes)
    if len(parts) == 1:
        yield message
        return
    whole_s = _time_of(transfers, message.size_bytes)
    for place, tensors in enumerate(parts):
        yield replace(
            message,
            compute_s=0.0 if place else message.compute_s,
            agreement_s=0.0 if place else message.agreement_s,
            copies_s=message.copies_s * sum(tensors) / message.size_bytes,
            transfer_s=message.transfer_s * _time_of(transfers, sum(tensors)) / whole_s,
            tensors_bytes=tensors,
        )


def _time_of(transfers: pd.DataFrame | None, size_bytes: float) -> float:
    """Return a measured transfer [s]; NaN outside of the measured sizes."""
    return math.nan if transfers is None else interpolate_time(transfers, size_bytes)


def _operations(step: StepParts, change: Change) -> Iterator[Operation]:
    """Yield the graph of several steps in a row; each operation comes behind those that it waits for."""
    ratios = {OWN: 1.0, SLOWEST: change.slow_ratio}
    ended: dict[str, tuple[str, ...]] = dict.fromkeys(ratios, ())
    computes_s = {OWN: [message.compute_s for message in step.messages], SLOWEST: _slowest_computes_s(step.messages)}
    for turn in range(SETTLED_STEPS):
        sent: tuple[str, ...] = ()
        for place, message in enumerate(step.messages):
            ready = []
            for rank, ratio in ratios.items():
                name = _name(rank, turn, f"compute {place}")
                yield Operation(name, ratio * computes_s[rank][place], ended[rank])
                asked = _name(rank, turn, f"request {place}")
                yield Operation(asked, message.request_s, (name,))
                ended[rank] = (name,)
                ready.append(asked)
            agreed, moved = (_name("all", turn, f"{what} {place}") for what in ("agreement", "transfer"))
            yield Operation(agreed, message.agreement_s, (*ready, *sent))
            yield Operation(moved, message.copies_s + message.transfer_s, (agreed,))
            sent = (moved,)
        for rank, ratio in ratios.items():
            name = _name(rank, turn, "after")
            yield Operation(name, ratio * step.after_s, (*sent, *ended[rank]))
            ended[rank] = (name,)


def _slowest_computes_s(messages: Sequence[MessageParts]) -> list[float]:
    """Return how long the slowest rank computes before each message [s]."""
    own_s = itertools.accumulate(message.compute_s for message in messages)
    ready_s = [one_s + message.others_s for one_s, message in zip(own_s, messages, strict=True)]
    latest_s = [0.0, *itertools.accumulate(ready_s, max)]
    return [after_s - before_s for before_s, after_s in itertools.pairwise(latest_s)]


def _name(rank: str, turn: int, what: str) -> str:
    return f"{rank}, step {turn}: {what}"


def _run(operations: Sequence[Operation]) -> dict[str, float]:
    """Return when each operation of a graph ends [s]: it begins when the last that it waits for has ended."""
    ends: dict[str, float] = {}
    for one in operations:
        ends[one.name] = one.duration_s + max((ends[name] for name in one.after), default=0.0)
    return ends
