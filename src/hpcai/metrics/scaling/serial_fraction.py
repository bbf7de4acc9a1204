"""The serial share that explains one speed-up, by Amdahl's law in strong and by Gustafson's in weak scaling."""

import math


def karp_flatt(speedup_ratio: float, ranks: float, base_ranks: float = 1) -> float:
    """Return the serial share that explains one speed-up (Karp and Flatt, Communications of the ACM 33(5), 1990).

    Parameters
    ----------
    speedup_ratio
        Rate at ``ranks`` over the rate at ``base_ranks``.
    ranks, base_ranks
        Ranks of both.

    Returns
    -------
    float
        ``(1/S - 1/p) / (1 - 1/p)`` from one rank to p; from a larger base the share of one rank's time for which
        Amdahl's law gives the same speed-up. Below 0 for more than ideal speed-ups, above 1 for a slow-down; NaN
        where the rate falls so steeply from its base that no share explains it.
    """
    _check_speedup(speedup_ratio, ranks, base_ranks)
    ideal = ranks / base_ranks
    below = speedup_ratio * (ranks - 1) - ideal * (base_ranks - 1)
    return (ideal - speedup_ratio) / below if below > 0 else math.nan


def gustafson_share(speedup_ratio: float, ranks: float, base_ranks: float = 1) -> float:
    """Return the serial share of weak scaling that explains a speed-up (Gustafson, Communications of the ACM 31, 1988).

    Parameters
    ----------
    speedup_ratio
        Rate at ``ranks`` over the rate at ``base_ranks``.
    ranks, base_ranks
        Ranks of both.

    Returns
    -------
    float
        ``(p - S) / (p - 1)`` from one rank to p, the share of a rank's own time; from a larger base the share for which
        Gustafson's law gives the same speed-up. Below 0 for more than ideal speed-ups, above 1 for a slow-down; NaN
        where the rate rises so steeply from its base that one rank would have none.
    """
    _check_speedup(speedup_ratio, ranks, base_ranks)
    below = (ranks - 1) - speedup_ratio * (base_ranks - 1)
    return (ranks - speedup_ratio * base_ranks) / below if below > 0 else math.nan


def _check_speedup(speedup_ratio: float, ranks: float, base_ranks: float) -> None:
    if not ranks > base_ranks >= 1 or speedup_ratio <= 0:
        raise ValueError(f"found a speed-up of {speedup_ratio:g} from {base_ranks:g} to {ranks:g} ranks, expected more")
