"""Time to exchange the gradients of a step, from measured allreduce calls of that number and size."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from hpcai.core.messages import Message
from hpcai.metrics.profiles.link import CALL, TRANSFER, of_engine
from hpcai.predict.messages import GRADIENT_BYTES, Gradients
from hpcai.predict.what_if.measured import Point
from hpcai.predict.what_if.step_model import Setting

DEFAULT_CYCLE_S = 1e-3
"""Of Horovod, with which the calls were measured."""
CALLS = Message(
    "scales.calls", "{messages} calls of {size_bytes:.3g} bytes each, measured with {ranks} ranks ({scope})"
)
OTHER_CYCLE = Message(
    "scales.other_cycle", "each call waits {more_s:+.3g} s, half of what a cycle of {cycle_s:g} s is longer"
)
NO_CALLS = Message(
    "scales.no_calls",
    "no allreduce of {ranks} ranks on {nodes} nodes was measured with the engine {engine}, only {known}: none is "
    "guessed",
)
OTHER_SIZE = Message(
    "scales.other_size",
    "messages of {size_bytes:.3g} bytes were not measured, only {smallest:.3g} to {largest:.3g}: none is guessed",
)
PLACES = {"node": "ranks of one node", "network": "ranks of several nodes"}
NO_SIZES = Message(
    "scales.no_sizes",
    "step_blocks.json, which another version wrote, has no sizes of gradients, so nobody can tell how many messages "
    "travel: remove it and run `make predict`",
)
HALF_PRECISION = Message(
    "scales.half_precision",
    "messages in {compression} were not measured, only sums in single precision: none is guessed",
)


@dataclass(frozen=True)
class Messages:
    """The gradients of a step as they travel.

    Attributes
    ----------
    count
        Messages, each of
    size_bytes
        so many bytes.
    """

    count: int
    size_bytes: float


@dataclass(frozen=True)
class ExchangeTime:
    """What the messages of a step take [s]; NaN where `reason` says why.

    Attributes
    ----------
    calls_s
        All calls, one after another.
    waiting_s
        What of them is no transfer: agreeing, the cycle of who sends, and other ranks. The cores are free meanwhile.
    cycles_s
        What another cycle than the usual one adds to both.
    """

    calls_s: float
    waiting_s: float
    messages: int
    cycles_s: float = 0.0
    basis: str = ""
    reason: str = ""

    def in_training(self, ratio: float, basis: str) -> "ExchangeTime":
        """Return the same messages in a training, where calls take another time; a transfer is the same work."""
        if self.reason or not self.messages:
            return self
        more_s = (ratio - 1) * (self.calls_s - self.cycles_s)
        waiting_s = max(self.waiting_s + more_s, 0.0)
        return replace(self, calls_s=self.calls_s + more_s, waiting_s=waiting_s, basis=f"{self.basis}; {basis}")


def messages_of(gradients: Gradients, setting: Setting) -> Messages | None:
    """Return the messages of a step; all have the mean size. None: nobody can tell how many there are.

    Parameters
    ----------
    gradients
        What is exchanged.
    setting
        How the training runs: groups, or a fusion threshold.
    """
    count = gradients.count_messages(setting.fusion_bytes, setting.gradient_groups)
    return Messages(count, gradients.parameters * GRADIENT_BYTES / count) if count else None


def exchange_time(
    links: pd.DataFrame, engine: str, setting: Setting, gradients: Gradients, cycle_s: float
) -> ExchangeTime:
    """Return the exchange of a step by itself, interpolated between the measured sizes of messages.

    The fastest transfer is the work of one. What a call takes beyond it is waiting. A message is ready at any time of
    the cycle, so it waits for half of it.

    Parameters
    ----------
    links
        View ``links``: medians over calls, and over transfers, by size and number of ranks.
    engine
        What exchanges; no other engine's calls count.
    setting
        How the training runs.
    gradients
        What is exchanged.
    cycle_s
        Of Horovod [s]; NaN: its default, with which the calls were measured.
    """
    if setting.ranks == 1:
        return ExchangeTime(0.0, 0.0, 0)
    scope, sent = "node" if setting.nodes == 1 else "network", messages_of(gradients, setting)
    if sent is None:
        return _unknown(NO_SIZES())
    if setting.compression != "none":
        return _unknown(HALF_PRECISION(compression=setting.compression))
    own = of_engine(links, engine)
    own = own[own["time_s"] > 0] if len(own) else own
    every = own[own["what"] == CALL] if len(own) else own
    own = own[own["scope"] == scope] if len(own) else own
    calls = every[(every["scope"] == scope) & (every["ranks"] == setting.ranks)] if len(every) else every
    if calls.empty:
        known = _say_known(every) if len(every) else "none"
        return _unknown(NO_CALLS(ranks=setting.ranks, nodes=setting.nodes, engine=engine, known=known))
    call_s = interpolate_time(calls, sent.size_bytes)
    if math.isnan(call_s):
        sizes = {"smallest": float(calls["bytes"].min()), "largest": float(calls["bytes"].max())}
        return _unknown(OTHER_SIZE(size_bytes=sent.size_bytes, **sizes))
    transfers = own[(own["what"] == TRANSFER) & (own["ranks"] == setting.ranks)]
    transfer_s = interpolate_time(transfers, sent.size_bytes, "time_min_s")
    waiting_s = 0.0 if math.isnan(transfer_s) else max(call_s - transfer_s, 0.0)
    basis = CALLS(messages=sent.count, size_bytes=sent.size_bytes, ranks=setting.ranks, scope=scope)
    more_s = 0.0 if math.isnan(cycle_s) else max((cycle_s - DEFAULT_CYCLE_S) / 2, -waiting_s)
    words = f"{basis}; {OTHER_CYCLE(more_s=more_s, cycle_s=cycle_s)}" if more_s else basis
    calls_s, waiting_s = sent.count * (call_s + more_s), sent.count * (waiting_s + more_s)
    return ExchangeTime(calls_s, waiting_s, sent.count, sent.count * more_s, words)


def _say_known(calls: pd.DataFrame) -> str:
    """Return the numbers of ranks that calls were measured with, inside a node and between nodes."""
    ranks = {scope: ", ".join(map(str, sorted(own["ranks"].unique()))) for scope, own in calls.groupby("scope")}
    return " and ".join(f"of {ranks[scope]} {words}" for scope, words in PLACES.items() if scope in ranks)


def cycle_of(point: Point) -> float:
    """Return the cycle of Horovod that a scale was measured with [s]; NaN: the default."""
    return float(point.row.get("cycle_time_s", math.nan))


def is_same_cycle(one_s: float, other_s: float) -> bool:
    """Return whether two cycles of Horovod [s] are the same; NaN is the default."""
    return (DEFAULT_CYCLE_S if math.isnan(one_s) else one_s) == (DEFAULT_CYCLE_S if math.isnan(other_s) else other_s)


def interpolate_time(rows: pd.DataFrame, size_bytes: float, column: str = "time_s") -> float:
    """Return the median of a column of times of a message on logarithmic scales [s]; NaN outside measured sizes."""
    times = rows.groupby("bytes")[column].median()
    sizes = times.index.to_numpy(float)
    if not (len(sizes) and sizes[0] <= size_bytes <= sizes[-1]):
        return math.nan
    return float(np.exp(np.interp(math.log(size_bytes), np.log(sizes), np.log(times.to_numpy(float)))))


def _unknown(reason: str) -> ExchangeTime:
    return ExchangeTime(math.nan, math.nan, 0, reason=reason)
