"""Bandwidth of a link for one participant of a roofline, from the measured allreduce."""

import math
from dataclasses import dataclass

import pandas as pd

from hpcai.metrics.profiles.link import CALL, TRANSFER, rate_at
from hpcai.metrics.roofline.columns import NETWORK
from hpcai.metrics.roofline.model import count_participants, ring_traffic

WHAT = {TRANSFER: "allreduce, transfer", CALL: "allreduce, whole call"}


@dataclass(frozen=True)
class LinkRate:
    """Bus bandwidth of one participant.

    Attributes
    ----------
    rate_bytes_per_s
        Bytes that each participant sends per second [bytes/s]; NaN if no allreduce of this scope was measured.
    name, note, source
        What was timed, the derivation of the number if needed, and the raw file.
    """

    rate_bytes_per_s: float
    name: str = ""
    note: str = ""
    source: str = ""


def link_rate(
    links: pd.DataFrame, link_fits: pd.DataFrame, scope: str, nodes: int, ranks: int, message_bytes: float = math.inf
) -> LinkRate:
    """Return the best measured bus bandwidth for a message, or for any message size.

    Bus bandwidth = 2 (p - 1) / p * message / time for p participants, so the time of a message on this link equals that
    of the measured allreduce. A long message can be sent in parts, so the fastest of all sizes up to the message
    counts, which makes this a ceiling. Beyond the largest measured size the fitted bandwidth counts if it is higher.

    Parameters
    ----------
    links, link_fits
        Views of these names.
    scope, nodes, ranks
        Scope of the exchange. Without a measurement of this number of ranks, the largest measured number counts, as the
        note states.
    message_bytes
        Bytes reduced in one step [bytes]; infinite for the best of all sizes.
    """
    place = "network" if scope == NETWORK else "node"
    for what in (TRANSFER, CALL):
        own = links[(links["what"] == what) & (links["scope"] == place)] if len(links) else links
        if own.empty:
            continue
        counted = ranks if (own["ranks"] == ranks).any() else int(own["ranks"].max())
        rate, note = _best(own[own["ranks"] == counted], _fitted(link_fits, what, place, counted), message_bytes)
        if math.isnan(rate):
            continue
        # Other numbers of ranks count if measured with as many ranks per node.
        participants = max(2.0, count_participants(scope, nodes, ranks) * counted / ranks)
        others = "" if counted == ranks else f"the allreduce of {counted} ranks, because {ranks} were not measured"
        source = ", ".join(dict.fromkeys(own.loc[own["ranks"] == counted, "source"]))
        words = "; ".join(part for part in (others, note) if part)
        return LinkRate(ring_traffic(rate, participants), WHAT[what], words, source)
    return LinkRate(math.nan)


def _best(own: pd.DataFrame, fitted_bytes_per_s: float, message_bytes: float) -> tuple[float, str]:
    """Return an algorithm bandwidth [bytes/s] and its derivation."""
    timed = own[own["time_min_s"] > 0]
    if timed.empty:
        return math.nan, ""
    within = timed[timed["bytes"] <= message_bytes]
    fastest = (within["bytes"] / within["time_min_s"]).max() if len(within) else math.nan
    what, ranks = str(timed["what"].iloc[0]), int(timed["ranks"].iloc[0])
    here = math.nan if math.isinf(message_bytes) else rate_at(timed, what, ranks, message_bytes)
    rates = [rate for rate in (fastest, here) if not math.isnan(rate)]
    if not rates:
        return math.nan, ""
    longer = message_bytes > timed["bytes"].max()
    if longer and fitted_bytes_per_s > max(rates):
        return fitted_bytes_per_s, "the fitted bandwidth of messages longer than those measured"
    return max(rates), ""


def _fitted(link_fits: pd.DataFrame, what: str, scope: str, ranks: int) -> float:
    if link_fits.empty:
        return math.nan
    own = link_fits[(link_fits["what"] == what) & (link_fits["scope"] == scope) & (link_fits["ranks"] == ranks)]
    return float(own["bandwidth_bytes_per_s"].max()) if len(own) else math.nan
