"""Choose a rank's cores; must run before TensorFlow starts its threads."""

import os
from collections.abc import Iterable, Mapping

from hpcai.core.accelerators import visible_names
from hpcai.core.errors import LaunchError


def accelerator_of(environment: Mapping[str, str], place: int) -> str:
    """Return a rank's accelerator on its node, as in ``CUDA_VISIBLE_DEVICES``.

    The result is an index or a UUID. If the variable is unset, all accelerators are visible by index.

    Parameters
    ----------
    environment
        Environment of the rank.
    place
        Index among the accelerators that the rank sees.
    """
    names = visible_names(environment) or []
    return names[place] if place < len(names) else str(place)


def own_cores(allowed: Iterable[int], local_rank: int, cores_per_rank: int) -> tuple[int, ...]:
    """Return the cores of one rank.

    Parameters
    ----------
    allowed
        Cores that the process may use now.
    local_rank
        Index of the rank on its node.
    cores_per_rank
        Cores that each rank may use.

    Returns
    -------
    tuple of int
        ``allowed`` if the launcher already bound the rank to that few cores, else the rank's own block of them.

    Raises
    ------
    LaunchError
        If there are fewer cores than the node's ranks need.
    """
    cores = sorted(allowed)
    if len(cores) <= cores_per_rank:
        return tuple(cores)
    block = tuple(cores[local_rank * cores_per_rank : (local_rank + 1) * cores_per_rank])
    if len(block) < cores_per_rank:
        raise LaunchError(
            f"local rank {local_rank}: found {len(cores)} usable cores on this node, expected "
            f"{(local_rank + 1) * cores_per_rank} (cores_per_rank {cores_per_rank}); "
            "lower cores_per_rank or ranks_per_node, or give the job more cores"
        )
    return block


def pin_to_own_cores(local_rank: int, cores_per_rank: int) -> tuple[int, ...]:
    """Bind this process, and all its future threads, to its own cores; return them."""
    cores = own_cores(os.sched_getaffinity(0), local_rank, cores_per_rank)
    os.sched_setaffinity(0, cores)
    return cores
