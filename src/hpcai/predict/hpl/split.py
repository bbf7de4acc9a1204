"""How work is split between processor and GPUs of a node (Hu and Lu 2021, eqs 3 and 8).

C and G are the effective rates [flop/s] of the processors and of all GPUs of one node.
"""

import numpy as np

from hpcai.predict.hpl.counts import Floats, Values


def split_by_rates(cpu_rate: Values, gpu_rate: Values) -> Values:
    """Return the GPUs' share R0 = G / (G + C) (eq. 3)."""
    return gpu_rate / (gpu_rate + cpu_rate)


def split_step(
    trailing_order: Values,
    block: Values,
    cpu_rate: Values,
    gpu_rate: Values,
    host_link_bytes_per_s: Values,
    a22_both_ways: bool = False,
) -> Floats:
    """Return the GPUs' share R_k of one step, with its transfer in the balance, clipped to 0 … 1 (eq. 8 corrected).

    R_k = (1 - C a / (B W)) / (1 + C/G + C b / (B W)) with a = 8 m NB, b = 8 (m NB + m²), W = 2 NB m²; both parts are
    multiplied by m, so that a last step with m = 0 has the share 0 instead of 0/0.
    """
    per_byte = 8 * cpu_rate / host_link_bytes_per_s
    ways = 2 if a22_both_ways else 1
    work = 2 * block * trailing_order
    share = (work - per_byte * block) / (work * (1 + cpu_rate / gpu_rate) + per_byte * (block + ways * trailing_order))
    return np.asarray(np.clip(share, 0.0, 1.0), dtype=np.float64)
