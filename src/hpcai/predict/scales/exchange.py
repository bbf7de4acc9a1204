"""Time to exchange the gradients of a step, from measured allreduce calls of that number and size."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hpcai.core.messages import Message
from hpcai.metrics.profiles.link import CALL, TRANSFER, of_engine
from hpcai.predict.what_if.hardware import GRADIENT_BYTES, count_messages
from hpcai.predict.what_if.step_model import Setting

DEFAULT_CYCLE_S = 1e-3
"""Of Horovod, with which the calls were measured."""
CALLS = Message(
    "scales.calls", "{messages} calls of {size_bytes:.3g} bytes each, measured with {ranks} ranks ({scope})"
)
OTHER_CYCLE = Message("scales.other_cycle", "each call waits {more_s:+.3g} s for a cycle of {cycle_s:g} s (assumed)")
NO_CALLS = Message(
    "scales.no_calls",
    "no allreduce of {ranks} ranks ({scope}) was measured with the engine {engine}, only of {known}: none is guessed",
)
OTHER_SIZE = Message(
    "scales.other_size",
    "messages of {size_bytes:.3g} bytes were not measured, only {smallest:.3g} to {largest:.3g}: none is guessed",
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
        What of them is no transfer: agreeing, and the cycle of who sends. The cores are free meanwhile.
    """

    calls_s: float
    waiting_s: float
    messages: int
    basis: str = ""
    reason: str = ""


def messages_of(parameters: int, setting: Setting) -> Messages:
    """Return the messages of a step; all have the mean size.

    Parameters
    ----------
    parameters
        Numbers that are exchanged.
    setting
        How the training runs: groups, or a fusion threshold.
    """
    count = count_messages(parameters, setting.fusion_bytes, setting.gradient_groups)
    return Messages(count, parameters * GRADIENT_BYTES / count)


def exchange_time(links: pd.DataFrame, engine: str, setting: Setting, parameters: int, cycle_s: float) -> ExchangeTime:
    """Return the exchange of a step, interpolated between the measured sizes of messages.

    Parameters
    ----------
    links
        View ``links``: medians over calls, and over transfers, by size and number of ranks.
    engine
        What exchanges; no other engine's calls count.
    setting
        How the training runs.
    parameters
        Numbers that are exchanged.
    cycle_s
        Of Horovod [s]; NaN: its default, with which the calls were measured.
    """
    if setting.ranks == 1:
        return ExchangeTime(0.0, 0.0, 0)
    scope, sent = "node" if setting.nodes == 1 else "network", messages_of(parameters, setting)
    if setting.compression != "none":
        return _unknown(HALF_PRECISION(compression=setting.compression))
    own = of_engine(links, engine)
    own = own[(own["scope"] == scope) & (own["time_s"] > 0)] if len(own) else own
    calls = own[(own["what"] == CALL) & (own["ranks"] == setting.ranks)] if len(own) else own
    if calls.empty:
        known = ", ".join(str(one) for one in sorted(own["ranks"].unique())) if len(own) else "none"
        return _unknown(NO_CALLS(ranks=setting.ranks, scope=scope, engine=engine, known=known))
    call_s = interpolate_time(calls, sent.size_bytes)
    if math.isnan(call_s):
        sizes = {"smallest": float(calls["bytes"].min()), "largest": float(calls["bytes"].max())}
        return _unknown(OTHER_SIZE(size_bytes=sent.size_bytes, **sizes))
    transfer_s = interpolate_time(own[(own["what"] == TRANSFER) & (own["ranks"] == setting.ranks)], sent.size_bytes)
    waiting_s = 0.0 if math.isnan(transfer_s) else max(call_s - transfer_s, 0.0)
    basis = CALLS(messages=sent.count, size_bytes=sent.size_bytes, ranks=setting.ranks, scope=scope)
    more_s = 0.0 if math.isnan(cycle_s) else max(cycle_s - DEFAULT_CYCLE_S, -waiting_s)
    words = f"{basis}; {OTHER_CYCLE(more_s=more_s, cycle_s=cycle_s)}" if more_s else basis
    return ExchangeTime(sent.count * (call_s + more_s), sent.count * (waiting_s + more_s), sent.count, words)


def interpolate_time(rows: pd.DataFrame, size_bytes: float) -> float:
    """Return the median time of a message on logarithmic scales [s]; NaN outside of the measured sizes."""
    times = rows.groupby("bytes")["time_s"].median()
    sizes = times.index.to_numpy(float)
    if not (len(sizes) and sizes[0] <= size_bytes <= sizes[-1]):
        return math.nan
    return float(np.exp(np.interp(math.log(size_bytes), np.log(sizes), np.log(times.to_numpy(float)))))


def _unknown(reason: str) -> ExchangeTime:
    return ExchangeTime(math.nan, math.nan, 0, reason=reason)
