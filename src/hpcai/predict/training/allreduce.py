"""Time of a ring allreduce, and the messages of a training step.

Barrachina et al. 2023 (doi 10.1007/s00607-021-00997-9), eq. 1. The printed form multiplies the message by the bandwidth
and by the peak performance; the corrected form divides by them. The time of a message grows with the number of ranks
only through the latency term: the factor ``(P - 1) / P`` of the other terms saturates at 1.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcai.core.errors import ConfigError
from hpcai.metrics.profiles.link import LinkFit
from hpcai.predict.training.layers import Layer

AllreduceKind = Literal["per-layer", "fused"]
AllreduceForm = Literal["corrected", "printed"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RingLink:
    """A link between neighbours of a ring, derived from measured allreduces.

    Attributes
    ----------
    latency_s
        Latency of one hop; the ring has ``2 (P - 1)`` hops.
    link_bit_per_s
        Rate of the link in one direction, including the time of adding numbers.
    ranks
        Ranks of the measurement.
    reason
        Why the numbers are NaN; blank if they are not.
    """

    latency_s: float
    link_bit_per_s: float
    ranks: int
    reason: str = ""


@dataclass(frozen=True)
class Ring:
    """Ranks in a ring; numbers or arrays that broadcast.

    Attributes
    ----------
    ranks
        P; a single rank exchanges nothing.
    latency_s
        alpha, of one hop.
    link_bit_per_s
        beta, of one direction.
    peak_flop_per_s
        gamma, the rate of adding gradients; infinite if the link's rate includes adding.
    """

    ranks: ArrayLike
    latency_s: ArrayLike
    link_bit_per_s: ArrayLike
    peak_flop_per_s: ArrayLike = math.inf


def ring_allreduce_s(
    message_bytes: ArrayLike,
    ring: Ring,
    precision_bytes: ArrayLike = 4.0,
    compression_ratio: ArrayLike = 1.0,
    form: AllreduceForm = "corrected",
) -> Floats:
    """Return the time of a ring allreduce [s] (eq. 1); everything broadcasts.

    Parameters
    ----------
    message_bytes
        Size of the gradients of one rank, before compression.
    ring
        The ranks and links.
    precision_bytes
        delta, of one element before compression.
    compression_ratio
        Bytes sent over bytes of the gradients: 0.5 for 16-bit messages of 32-bit gradients. The additions stay the
        same.
    form
        ``printed`` multiplies by the bandwidth [B/s] and by the peak, as in the source's eq. 1; the result is
        **not a time**.
    """
    message, processes = np.asarray(message_bytes, float), np.asarray(ring.ranks, float)
    rate_bytes, peak = np.asarray(ring.link_bit_per_s, float) / 8, np.asarray(ring.peak_flop_per_s, float)
    share = (processes - 1) / processes
    hops_s = 2 * (processes - 1) * np.asarray(ring.latency_s, float)
    if form == "printed":
        adding = np.where(np.isinf(peak), 0.0, peak)
        whole = hops_s + 2 * share * message * compression_ratio * rate_bytes + share * message * adding
    else:
        numbers = message / np.asarray(precision_bytes)
        whole = hops_s + 2 * share * message * compression_ratio / rate_bytes + share * numbers / peak
    return np.where(processes == 1, 0.0, whole)


def derive_ring_link(fit: LinkFit, ranks: int) -> RingLink:
    """Derive latency and rate of a ring's links from a line fitted to whole allreduces at some number of ranks.

    The line ``t = latency_s + n / bandwidth_bytes_per_s`` is eq. 1 at these ranks, term by term:
    ``latency_s = 2 (P - 1) alpha`` and ``1 / bandwidth = 2 (P - 1) / P * 8 / beta + (P - 1) / P / (delta gamma)``.
    Both parts of the second are proportional to ``(P - 1) / P``, so one rate ``beta = 16 (P - 1) / P * bandwidth``
    covers sending and adding at any number of ranks; adding must not be counted again (use an infinite peak).
    It is *assumed* that other numbers of ranks use the same ring, with equally fast links.

    Parameters
    ----------
    fit
        Measured fit; without a fit, numbers stay NaN with the reason.
    ranks
        Ranks of the measurement.

    Raises
    ------
    ConfigError
        If fewer than two ranks were measured, which exchange nothing.
    """
    if ranks < 2:
        raise ConfigError(f"an allreduce of {ranks} rank tells nothing of a link: measure it with 2 ranks or more")
    return RingLink(
        latency_s=fit.latency_s / (2 * (ranks - 1)),
        link_bit_per_s=16 * (ranks - 1) / ranks * fit.bandwidth_bytes_per_s,
        ranks=ranks,
        reason=fit.reason,
    )


def count_message_parameters(layers: tuple[Layer, ...], *, batch_norm: bool = True) -> Floats:
    """Return the parameters in each layer's message, 0 without exchange; weights and bias share a message.

    Parameters
    ----------
    layers
        Layers of the network.
    batch_norm
        Whether scale and shift of normalisations are exchanged: in the source's text they are, in its library they are
        not.
    """
    return np.array(
        [layer.parameters if batch_norm or layer.kind != "batch_norm" else 0 for layer in layers], dtype=float
    )
