"""Times of one message over Ethernet and InfiniBand, and the host links of the source (Hu and Lu 2021, eqs 9 to 14)."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message

Form = Literal["corrected", "printed"]
"""The equation with consistent dimensions, or as printed in the source."""

Framing = Literal["paper", "standard"]

SLOT_BIT = 512
HEADERS_BYTES = 58
"""Bytes that the source subtracts from the MTU and adds to each frame."""
HEADERS_IN_PAYLOAD_BYTES, OVERHEAD_ON_WIRE_BYTES = 40, 38
"""The MTU includes IP and TCP headers; preamble, Ethernet header, checksum and gap are extra."""

HOST_LINKS_BYTES_PER_S: dict[str, float] = {
    "paper_Gen3": 32e9,
    "paper_Gen4": 64e9,
    "paper_Gen4E": 102.4e9,
    "paper_Gen4S": 128e9,
    "x16_Gen3": 15.75e9,
    "x16_Gen4": 31.5e9,
}
"""Host links by name. ``paper_…``: the rates of the source's Figs 5 to 7. Gen3 and Gen4 count both directions of 16
lanes. Gen4E and Gen4S are not standard names; which of the two larger rates each has is inferred from
their order.
``x16_…``: one direction of 16 lanes."""
UNKNOWN_GENERATION = Message(
    "links.unknown_generation",
    "InfiniBand generation {generation!r} is not known; choose one of {known}",
)
NO_PRINTED_FORM = Message(
    "links.no_printed_form",
    "the printed form is not defined for {network}: it needs Ethernet, or InfiniBand with a known encoding; use the "
    "corrected form",
)


@dataclass(frozen=True)
class LaneRate:
    """Rates of one InfiniBand lane."""

    data_bit_per_s: float
    encoding_ratio: float | None
    """Share of the signalling rate that carries data; None = the source only gives the data rate."""


def _from_signalling(signalling_bit_per_s: float, encoding_ratio: float) -> LaneRate:
    return LaneRate(signalling_bit_per_s * encoding_ratio, encoding_ratio)


INFINIBAND_LANES: dict[str, LaneRate] = {
    "SDR": _from_signalling(2.5e9, 8 / 10),
    "DDR": _from_signalling(5e9, 8 / 10),
    "QDR": _from_signalling(10e9, 8 / 10),
    "FDR": _from_signalling(14.0625e9, 64 / 66),
    "EDR": _from_signalling(25.78125e9, 64 / 66),
    "HDR": LaneRate(50e9, None),
}


@dataclass(frozen=True)
class Network:
    """A network between nodes; :func:`message_time_s` computes its cost.

    Attributes
    ----------
    name
        Display name in tables.
    kind
        ``plain`` is a rate without frames; in the corrected form, InfiniBand costs the same.
    rate_bit_per_s
        Data rate of one direction [bit/s], including encoding and lanes; may be an array.
    encoding_ratio
        InfiniBand only: required by the printed form, which divides by it a second time.
    mtu_bytes, framing, slot_time
        Ethernet only, see :func:`ethernet_time_s`.
    """

    name: str
    kind: Literal["plain", "ethernet", "infiniband"]
    rate_bit_per_s: ArrayLike
    encoding_ratio: float | None = None
    mtu_bytes: int = 1500
    framing: Framing = "paper"
    slot_time: bool = True


def plain_network(rate_bit_per_s: ArrayLike, name: str = "") -> Network:
    """Return a network defined by its rate alone [bit/s]."""
    return Network(name or _name_of(rate_bit_per_s), "plain", rate_bit_per_s)


def ethernet_network(
    rate_bit_per_s: ArrayLike, mtu_bytes: int = 1500, framing: Framing = "paper", slot_time: bool = True
) -> Network:
    """Return an Ethernet of a rate [bit/s], see :func:`ethernet_time_s`."""
    name = f"Ethernet {_name_of(rate_bit_per_s)}"
    return Network(name, "ethernet", rate_bit_per_s, None, mtu_bytes, framing, slot_time)


def infiniband_network(generation: str, lanes: int = 4) -> Network:
    """Return an InfiniBand link by generation (SDR … HDR) and lanes.

    Raises
    ------
    ConfigError
        If the generation is unknown or there is no lane.
    """
    if generation not in INFINIBAND_LANES:
        known = ", ".join(INFINIBAND_LANES)
        raise ConfigError(UNKNOWN_GENERATION(generation=generation, known=known))
    if lanes < 1:
        raise ConfigError(f"found {lanes} InfiniBand lanes; expected at least 1, usually 4")
    lane = INFINIBAND_LANES[generation]
    rate_bit_per_s = lane.data_bit_per_s * lanes
    return Network(f"InfiniBand {generation} {lanes}x", "infiniband", rate_bit_per_s, lane.encoding_ratio)


def named_network(text: str) -> Network | None:
    """Return the network for a name such as ``10GbE``, ``EDR`` (4 lanes) or ``EDR1x``; None for any other text."""
    ethernet = re.fullmatch(r"(\d+(?:\.\d+)?)GbE", text)
    if ethernet:
        return ethernet_network(float(ethernet[1]) * 1e9)
    infiniband = re.fullmatch(rf"({'|'.join(INFINIBAND_LANES)})(?:(\d+)x)?", text)
    return infiniband_network(infiniband[1], int(infiniband[2] or 4)) if infiniband else None


def ethernet_time_s(
    size_bytes: ArrayLike,
    rate_bit_per_s: ArrayLike,
    mtu_bytes: int = 1500,
    framing: Framing = "paper",
    slot_time: bool = True,
    form: Form = "corrected",
) -> NDArray[np.float64]:
    """Return the time [s] of one message over Ethernet (eqs 9 to 11).

    Parameters
    ----------
    size_bytes, rate_bit_per_s
        Message [B] and link [bit/s]; they broadcast.
    framing
        ``paper``: 58 bytes are subtracted from the MTU and added to each frame. ``standard``: a frame carries MTU - 40
        bytes (IP and TCP headers) and takes MTU + 38 on the wire.
    slot_time
        Charge 512 bit times per frame, as the source does; this applies to half-duplex links only.
    form
        ``printed``: eq. 9 adds the payload in bytes to headers in bits.

    Raises
    ------
    ConfigError
        If the MTU holds no payload, or the framing or form is unknown.
    """
    headers = {"paper": HEADERS_BYTES, "standard": HEADERS_IN_PAYLOAD_BYTES}
    if framing not in headers or form not in {"corrected", "printed"}:
        raise ConfigError(
            f"found framing {framing!r} and form {form!r}; expected paper or standard, corrected or printed"
        )
    payload_bytes = mtu_bytes - headers[framing]
    if payload_bytes < 1:
        raise ConfigError(f"an MTU of {mtu_bytes} bytes holds no payload; expected more than {headers[framing]}")
    size = np.asarray(size_bytes, dtype=np.float64)
    frames = np.ceil(size / payload_bytes)
    overhead_bytes = HEADERS_BYTES if framing == "paper" else HEADERS_IN_PAYLOAD_BYTES + OVERHEAD_ON_WIRE_BYTES
    bits = frames * ((SLOT_BIT if slot_time else 0) + 8 * overhead_bytes) + (size if form == "printed" else 8 * size)
    return np.asarray(bits / np.asarray(rate_bit_per_s, dtype=np.float64), dtype=np.float64)


def message_time_s(network: Network, size_bytes: ArrayLike, efficiency_ratio: ArrayLike = 1.0) -> NDArray[np.float64]:
    """Return the time [s] of one message over any network, corrected form, at a share of its rate."""
    rate = np.asarray(network.rate_bit_per_s, dtype=np.float64) * np.asarray(efficiency_ratio, dtype=np.float64)
    if network.kind == "ethernet":
        return ethernet_time_s(size_bytes, rate, network.mtu_bytes, network.framing, network.slot_time)
    return np.asarray(8 * np.asarray(size_bytes, dtype=np.float64) / rate, dtype=np.float64)


def printed_step_time_s(
    network: Network, block: ArrayLike, trailing_order: ArrayLike, nodes: ArrayLike, efficiency_ratio: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """Return the network time [s] of one HPL step as eqs 15 (Ethernet) and 16 (InfiniBand) are printed.

    Eq. 15 adds a number of doubles to bits; it does not define the number of frames, so we use as many as the bytes
    need. Eq. 16 has the block twice, 8 in place of 64, and the encoding twice. Both lack the factor of the topology.

    Raises
    ------
    ConfigError
        If the network is neither Ethernet nor InfiniBand with a known encoding.
    """
    block, order = np.asarray(block, dtype=np.float64), np.asarray(trailing_order, dtype=np.float64)
    rate = np.asarray(network.rate_bit_per_s, dtype=np.float64) * np.asarray(efficiency_ratio, dtype=np.float64)
    doubles = block * order / np.asarray(nodes, dtype=np.float64)
    if network.kind == "ethernet":
        whole_s = ethernet_time_s(8 * doubles, rate, network.mtu_bytes, network.framing, network.slot_time)
        return whole_s - (64 - 1) * doubles / rate
    return np.asarray(8 * block * doubles / (rate * _encoding(network)), dtype=np.float64)


def _encoding(network: Network) -> float:
    if network.encoding_ratio is None:
        raise ConfigError(NO_PRINTED_FORM(network=network.name))
    return network.encoding_ratio


def _name_of(rate_bit_per_s: ArrayLike) -> str:
    rates = np.asarray(rate_bit_per_s, dtype=np.float64)
    return f"{float(rates.flat[0]) / 1e9:g} Gbit/s" if rates.size == 1 else f"{rates.size} rates"
