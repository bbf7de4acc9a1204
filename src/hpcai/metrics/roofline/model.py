"""The HPC-AI roofline: the attainable rate of a machine and its links, given the traffic of a training step.

The communication operation intensity (COI) is a count of operations per byte that one participant sends in the
allreduce of a step; the source divides a rate by traffic, which has no unit of intensity (HPC AI500 V2.0, section 7).
"""

import math

from hpcai.metrics.roofline.columns import NETWORK


def count_participants(scope: str, nodes: int, ranks: int) -> int:
    """Return the number of participants in a scope: nodes over a network, ranks elsewhere.

    Over a network a hierarchical ring is assumed: the ranks of a node first reduce among themselves, and each node
    sends over its own link (performance_models.md, C.1).

    Parameters
    ----------
    scope
        ``network``, or any other name for a node or its memory.
    nodes, ranks
        Counts of the result.
    """
    return nodes if scope == NETWORK else ranks


def ring_traffic(message_bytes: float, participants: float) -> float:
    """Return the bytes that each participant sends in one ring allreduce.

    Equation: traffic = 2 (p - 1) / p * message, for p participants (Patarasuk and Yuan 2009, doi
    10.1016/j.jpdc.2008.09.002).

    Parameters
    ----------
    message_bytes
        Size of the reduced message [bytes].
    participants
        Ranks of one node, or nodes of a network. A single participant exchanges nothing: 0 bytes.

    Raises
    ------
    ValueError
        If the message is negative or there is less than one participant.
    """
    if message_bytes < 0:
        raise ValueError(f"message_bytes: found {message_bytes:g}, expected a number of bytes, zero or more")
    if participants < 1:
        raise ValueError(f"participants: found {participants:g}, expected at least one")
    return 2 * (participants - 1) / participants * message_bytes


def communication_intensity(work_flop: float, traffic_bytes: float) -> float:
    """Return the communication operation intensity of one participant [FLOP/byte].

    Equation: COI = work / traffic, with the work as a count (HPC AI500 V2.0, section 7, its rate replaced by a count).

    Parameters
    ----------
    work_flop
        Floating-point operations of one participant in a step [FLOP].
    traffic_bytes
        Bytes that this participant sends in the step. Without traffic the intensity is infinite.

    Raises
    ------
    ValueError
        If the work is not positive or the traffic is negative.
    """
    _check_positive("work_flop", work_flop)
    if traffic_bytes < 0:
        raise ValueError(f"traffic_bytes: found {traffic_bytes:g}, expected a number of bytes, zero or more")
    return math.inf if traffic_bytes == 0 else work_flop / traffic_bytes


def attainable_rate(
    peak_flop_per_s: float, intensity_flop_per_byte: float, link_bytes_per_s: float, links: float = 1
) -> float:
    """Return the roof over a point [FLOP/s].

    Equation: min(peak, links * link * COI) (HPC AI500 V2.0, section 7). Each of n participants has its own link:
    points measured on 64 devices would otherwise lie above the roof of a single link.

    Parameters
    ----------
    peak_flop_per_s
        Peak rate of all participants together [FLOP/s].
    intensity_flop_per_byte
        Operations of one participant per byte that it sends [FLOP/byte].
    link_bytes_per_s
        Bandwidth of one participant's link in one direction [bytes/s].
    links
        Participants that send concurrently.

    Raises
    ------
    ValueError
        If a number is not positive.
    """
    _check_positive("peak_flop_per_s", peak_flop_per_s)
    _check_positive("intensity_flop_per_byte", intensity_flop_per_byte)
    _check_positive("link_bytes_per_s", link_bytes_per_s)
    _check_positive("links", links)
    slope = links * link_bytes_per_s * intensity_flop_per_byte
    # min() would return either number where one is NaN.
    return math.nan if math.isnan(peak_flop_per_s + slope) else min(peak_flop_per_s, slope)


def ridge_point(peak_flop_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """Return the intensity where both roofs meet [FLOP/byte]: peak / bandwidth of all links together.

    Raises
    ------
    ValueError
        If a number is not positive.
    """
    _check_positive("peak_flop_per_s", peak_flop_per_s)
    _check_positive("bandwidth_bytes_per_s", bandwidth_bytes_per_s)
    return peak_flop_per_s / bandwidth_bytes_per_s


def _check_positive(name: str, value: float) -> None:
    if value <= 0:
        raise ValueError(f"{name}: found {value:g}, expected more than zero")
