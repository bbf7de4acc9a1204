"""Number of times that a step's data cross a link, for five network topologies (Hu and Lu 2021, section 4.3)."""

from typing import get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hpcai.config.machine import Topology
from hpcai.core.errors import ConfigError
from hpcai.core.messages import Message

TOPOLOGIES: tuple[str, ...] = get_args(Topology)
UNKNOWN_TOPOLOGY = Message("topology.unknown_topology", "topology {topology!r} is not known; choose one of {known}")


def topology_factor(topology: ArrayLike, nodes: ArrayLike) -> NDArray[np.float64]:
    """Return the factor of a network on the time of one message.

    Parameters
    ----------
    topology
        One or several names of :data:`TOPOLOGIES`.
    nodes
        Number of nodes; names and numbers broadcast against each other.

    Returns
    -------
    numpy.ndarray
        star 2, bus = nodes, mesh 1, ring floor(nodes / 2), tree 2 ceil(log2 nodes). It is 0 for one node in every
        topology, because nothing is sent; the source's formulas would charge a bus of one node.

    Raises
    ------
    ConfigError
        For an unknown topology.

    Notes
    -----
    Hu and Lu 2021, doi 10.1007/s11227-021-03829-x, section 4.3. The tree's printed height already holds the 2.
    """
    names = np.asarray(topology, dtype=np.str_)
    unknown = sorted(set(np.unique(names).tolist()) - set(TOPOLOGIES))
    if unknown:
        raise ConfigError(UNKNOWN_TOPOLOGY(topology=unknown[0], known=", ".join(TOPOLOGIES)))
    count = np.maximum(np.asarray(nodes, dtype=np.float64), 1)
    # frexp gives the exact power of two: ceil(log2 n) with a floating-point logarithm can be one too large.
    height = np.frexp(count - 0.5)[1]
    factors = {"star": 2.0, "bus": count, "mesh": 1.0, "ring": np.floor(count / 2), "tree": 2.0 * height}
    chosen = np.select([names == name for name in TOPOLOGIES], [factors[name] for name in TOPOLOGIES])
    return np.asarray(np.where(count > 1, chosen, 0.0), dtype=np.float64)
