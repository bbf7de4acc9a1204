"""Compute, memory and link rates of one rank of the measured machine, from the tables of ceilings and links."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from hpcai.config.prediction import AssumedLink
from hpcai.core.messages import Message
from hpcai.metrics.cells import join_words
from hpcai.metrics.profiles.link import CALL, TRANSFER, LinkFit, of_engine
from hpcai.metrics.roofline.columns import REFUSED
from hpcai.predict.messages import GRADIENT_BYTES
from hpcai.predict.training.allreduce import Ring, RingLink, derive_ring_link, ring_allreduce_s
from hpcai.predict.training.layers import CONVOLUTIONS, LayerList, count_forward_flop

NAN = math.nan
COMPRESSION_RATIOS = {"none": 1.0, "fp16": 0.5}
PRECISION_BYTES = {"fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0}
MEASURED_LINK = "measured"
DENSE = ("gemm", "convolution")
"""Kinds of ceilings that define the peak."""
ASSUMED_LINKS = Message(
    "hardware.assumed_links",
    "links between nodes were not measured: those inside a node are assumed",
)
NO_ALLREDUCE = Message("hardware.no_allreduce", "no allreduce was measured with the engine {engine}")
NO_ROOFS = Message("hardware.no_roofs", "no measured {roofs} of a rank with {threads} threads")


@dataclass(frozen=True)
class RankRates:
    """The measured roofs of one rank in one precision.

    Attributes
    ----------
    peak_flop_per_s, memory_bytes_per_s
        Highest rates measured with the threads of a rank; NaN if there are none.
    source
        Raw files.
    reason
        Why a rate is NaN; blank if none is.
    """

    peak_flop_per_s: float
    memory_bytes_per_s: float
    source: str
    reason: str = ""


@dataclass(frozen=True)
class Exchange:
    """Cost of an allreduce of gradients.

    Attributes
    ----------
    name
        ``measured``, or the name of an assumed link.
    latency_s, link_bit_per_s
        Latency of one hop of the ring, and rate of one direction of its links.
    coordination_s
        Waiting time of a call besides the transfer, independent of size and ranks: the difference between the latencies
        of the lines fitted to calls and to transfers of as many ranks; 0 without two such lines.
    assumed
        What was not measured; blank if nothing.
    reason
        Why numbers are NaN; blank if none is.
    """

    name: str
    latency_s: float
    link_bit_per_s: float
    coordination_s: float
    source: str
    assumed: str = ""
    reason: str = ""


def rank_rates(ceilings: pd.DataFrame, threads: int, precision: str, network: LayerList) -> RankRates:
    """Return the roofs of a rank for a network and a precision.

    Parameters
    ----------
    ceilings
        Table ``ceilings``. A ceiling without a number of threads belongs to an accelerator; refused ones do not count.
    threads
        Threads of one rank.
    precision
        ``fp32``, ``bf16`` or ``fp16``.
    network
        The kind of most of its operations determines whether convolutions or matrix products define the peak.
    """
    sound = ceilings[ceilings["status"] != REFUSED]
    own = sound[(sound["threads"] == threads) | sound["threads"].isna()]
    kinds = ("convolution", "gemm") if _is_convolutional(network) else ("gemm", "convolution")
    peaks = next((rows for kind in kinds if len(rows := _known(own, kind, precision))), own.iloc[:0])
    memory = _known(own, "memory", "")
    reason = _why_missing(own, threads, {precision: peaks, "": memory})
    sources = dict.fromkeys([*peaks["source"].astype(str), *memory["source"].astype(str)])
    return RankRates(_highest(peaks), _highest(memory), ", ".join(sources), reason)


def measured_exchange(link_fits: pd.DataFrame, nodes: int, engine: str) -> Exchange:
    """Return the ring over some nodes that follows from the measured allreduces.

    Parameters
    ----------
    link_fits
        Table ``link_fits``: lines over message sizes, of calls and of transfers, inside a node and between nodes.
    nodes
        Nodes of the ring. If links between nodes were not measured, they are *assumed* to equal those inside a node.
    engine
        Engine of the exchange; links of other engines are ignored.
    """
    wanted = "node" if nodes == 1 else "network"
    fits = of_engine(link_fits, engine)
    known = fits[fits["latency_s"].notna() & (fits["ranks"] > 1)]
    rows = known[known["scope"] == wanted]
    assumed = ""
    if rows.empty and nodes > 1 and len(known):
        rows, assumed = known, ASSUMED_LINKS()
    if rows.empty:
        return Exchange(MEASURED_LINK, NAN, NAN, NAN, "", reason=NO_ALLREDUCE(engine=engine))
    line, waiting_s = _widest(rows)
    ring = _ring(line)
    return Exchange(
        MEASURED_LINK, ring.latency_s, ring.link_bit_per_s, waiting_s, str(line["source"]), assumed, ring.reason
    )


def assumed_exchange(link: AssumedLink, measured: Exchange) -> Exchange:
    """Return an exchange over an assumed link, with the other waiting times of a call as measured."""
    waiting_s = 0.0 if math.isnan(measured.coordination_s) else measured.coordination_s
    return Exchange(
        name=link.name,
        latency_s=link.latency_s,
        link_bit_per_s=8 * link.bandwidth_bytes_per_s,
        coordination_s=waiting_s,
        source=measured.source,
        assumed=f"{8 * link.bandwidth_bytes_per_s / 1e9:g} Gbit/s and {link.latency_s:g} s per hop; "
        f"coordination of {waiting_s * 1e3:.3g} ms per message as measured",
    )


def exchange_s(parameters: float, exchange: Exchange, ranks: int, compression: str, messages: int) -> float:
    """Return the time of exchanging the gradients of a step [s]: ring allreduces (Barrachina et al. 2023, eq. 1).

    Parameters
    ----------
    parameters
        Number of exchanged parameters.
    exchange
        Links; their rate includes the time of adding numbers.
    ranks
        A single rank exchanges nothing.
    compression
        Compression of the messages; the conversion time is not modelled.
    messages
        Number of messages for the gradients.
    """
    if ranks == 1:
        return 0.0
    ring = Ring(ranks, exchange.latency_s, exchange.link_bit_per_s)
    ratio = COMPRESSION_RATIOS[compression]
    message_s = float(ring_allreduce_s(parameters * GRADIENT_BYTES / messages, ring, GRADIENT_BYTES, ratio))
    return messages * (exchange.coordination_s + message_s)


def _why_missing(own: pd.DataFrame, threads: int, found: Mapping[str, pd.DataFrame]) -> str:
    """Return which roofs of a rank were not measured, and why, by precision; blank means memory."""
    missing = [precision for precision, rows in found.items() if rows.empty]
    if not missing:
        return ""
    names = [f"peak in {precision}" if precision else "memory bandwidth" for precision in missing]
    kinds = [*(DENSE if any(missing) else ()), *(("memory",) if "" in missing else ())]
    lost = own[own["value"].isna() & own["kind"].isin(kinds) & own["precision"].isin([*missing, ""])]
    reasons = join_words(*lost["reason"], separator="; ")
    words = NO_ROOFS(roofs=" and no ".join(names), threads=threads)
    return f"{words}: {reasons}" if reasons else words


def _is_convolutional(network: LayerList) -> bool:
    flop = [(layer.kind in CONVOLUTIONS, count_forward_flop(layer)) for layer in network.layers]
    return sum(count for convolution, count in flop if convolution) > sum(count for _, count in flop) / 2


def _known(ceilings: pd.DataFrame, kind: str, precision: str) -> pd.DataFrame:
    return ceilings[(ceilings["kind"] == kind) & (ceilings["precision"] == precision) & ceilings["value"].notna()]


def _highest(rows: pd.DataFrame) -> float:
    return float(rows["value"].max()) if len(rows) else NAN


def _widest(rows: pd.DataFrame) -> "tuple[pd.Series, float]":
    """Return the line of transfers with the most ranks, and what a call of as many waits besides [s].

    Latency grows with the ranks, so a difference between other numbers of them is no waiting. Where no number of ranks
    has both lines, that of the calls includes the waiting.
    """
    transfers, calls = (
        {int(row["ranks"]): row for _, row in rows[rows["what"] == what].iterrows()} for what in (TRANSFER, CALL)
    )
    if both := transfers.keys() & calls.keys():
        most = max(both)
        return transfers[most], max(float(calls[most]["latency_s"]) - float(transfers[most]["latency_s"]), 0.0)
    lines = calls or transfers
    return lines[max(lines)], 0.0


def _ring(row: "pd.Series") -> RingLink:
    fit = LinkFit(
        latency_s=float(row["latency_s"]),
        latency_error_s=float(row["latency_error_s"]),
        bandwidth_bytes_per_s=float(row["bandwidth_bytes_per_s"]),
        bandwidth_error_bytes_per_s=float(row["bandwidth_error_bytes_per_s"]),
        n=int(row["n"]),
        misfit_ratio=float(row["misfit_ratio"]),
        reason=str(row["reason"]),
    )
    return derive_ring_link(fit, int(row["ranks"]))
