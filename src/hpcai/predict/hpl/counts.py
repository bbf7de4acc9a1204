"""Floating-point operations and bytes of one HPL step (Hu and Lu 2021, eqs 2 and 6).

A step ``k`` leaves a trailing matrix of order ``m = N - k NB``; sizes of all functions broadcast.
"""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

FlopCount = Literal["hpl", "linpack"]
"""``hpl``: 2/3 N³ + 3/2 N², which HPL 2.3 divides by its time. ``linpack``: 2/3 N³ + 2 N², printed in eq. 2."""

SECOND_ORDER: dict[str, float] = {"hpl": 3 / 2, "linpack": 2.0}

Floats = NDArray[np.float64]
Values: TypeAlias = Any
"""A number or an array; equations return the type that they receive."""
BYTES_PER_DOUBLE = 8


def count_reported_flop(order: Values, count: FlopCount = "hpl") -> Values:
    """Return the operations [flop] of a reported rate."""
    return order * (2 / 3 * order * order + SECOND_ORDER[count] * order)


def count_gemm_flop(trailing_order: Values, block: Values) -> Values:
    """Return the operations [flop] of the update of the trailing matrix, W = 2 NB m²."""
    return trailing_order * trailing_order * (2 * block)


def count_trsm_flop(trailing_order: Values, block: Values) -> Values:
    """Return the operations [flop] of the triangular solve, T = NB² m."""
    return trailing_order * (block * block)


def count_panel_flop(trailing_order: Values, block: Values) -> Values:
    """Return the operations [flop] of the panel of m + NB rows, P = NB² (m + NB) - NB³/3."""
    return trailing_order * (block * block) + block * block * block * (2 / 3)


def count_host_link_bytes(
    trailing_order: Values, block: Values, gpu_share_ratio: Values, a22_both_ways: bool = False
) -> Values:
    """Return the bytes [B] of one step over the host link, D = 8 [m NB (1 + R) + m² R] (eq. 6 corrected).

    Parameters
    ----------
    gpu_share_ratio
        Share R of the update that GPUs compute, 0 to 1.
    a22_both_ways
        Count the trailing matrix in both directions; the source counts one.
    """
    ways = 2 if a22_both_ways else 1
    moved = trailing_order * block * (1 + gpu_share_ratio) + ways * trailing_order * trailing_order * gpu_share_ratio
    return BYTES_PER_DOUBLE * moved


def count_panel_link_bytes(trailing_order: Values, block: Values) -> Values:
    """Return the bytes [B] of one panel to the processor and back, 16 (m + NB) NB (section 5.1)."""
    return 2 * BYTES_PER_DOUBLE * (trailing_order + block) * block


def count_exchange_bytes(trailing_order: Values, block: Values) -> Values:
    """Return the bytes [B] of memory traffic for the row exchanges of one step, 32 NB m.

    NB pairs of rows of m elements; each element of a pair is read and written (HPL's dlaswp).
    """
    return trailing_order * (4 * BYTES_PER_DOUBLE * block)


def count_substitution_bytes(order: Values) -> Values:
    """Return the bytes [B] of the upper triangle that back substitution reads once, 4 N²."""
    return order * order * (BYTES_PER_DOUBLE / 2)


def count_network_bytes(trailing_order: Values, block: Values, nodes: Values) -> Values:
    """Return the bytes [B] that one node sends in one step, 8 NB m / nodes."""
    return trailing_order * (BYTES_PER_DOUBLE * block / nodes)


def deal_out(size: Values, block: Values, processes: int) -> Values:
    """Return how many of some rows or columns the process with the first block has (ScaLAPACK's ``numroc``).

    Blocks of NB are dealt to the processes in turn; the last one may be smaller. No process has more.
    """
    rounds, rest = np.divmod(size, block * processes)
    return rounds * block + np.minimum(rest, block)


def list_trailing_orders(order: int, block: int, first_step: int = 1) -> Floats:
    """Return m_k = N - k NB for k = first_step … floor(N / NB); a remainder N mod NB is ignored."""
    return order - np.arange(first_step, order // block + 1, dtype=np.float64) * block
