"""Neighbours in a periodic structure: the nearest ones within a radius, up to a maximum, without the atom itself.

Replaces pymatgen in the MLPerf HPC reference (open_catalyst/ocpmodels/preprocessing/atoms_to_graphs.py): computes the
distances to every atom in every image of the cell that can reach into the radius.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from hpcai.workloads.opencatalyst.data.graph import GraphLimits, Integers

_SAME_PLACE_ANGSTROM = 1e-8
"""Shorter distances are from an atom to itself (atoms_to_graphs.py, _reshape_features)."""


def find_edges(
    positions: NDArray[np.float64], cell: NDArray[np.float64], limits: GraphLimits
) -> tuple[Integers, Integers]:
    """Return the edges of a structure that is periodic along its three lattice vectors.

    Edges are sorted by their centre, and for each centre by their length.

    Parameters
    ----------
    positions
        Angstrom, (N, 3); atoms may lie outside the cell.
    cell
        Lattice vectors as rows, (3, 3).
    limits
        Cut-off and number of neighbours.

    Returns
    -------
    tuple
        ``edge_index`` (2, E), neighbours in row 0 and centres in row 1, and ``cell_offsets`` (E, 3).
    """
    offsets = _images(positions, cell, limits.cutoff_angstrom)
    # Axes: centre, image, neighbour.
    vectors = (positions[None, None] + (offsets @ cell)[None, :, None]) - positions[:, None, None]
    lengths = np.sqrt((vectors**2).sum(axis=-1)).reshape(len(positions), -1)
    centres, places = np.nonzero((lengths <= limits.cutoff_angstrom) & (lengths >= _SAME_PLACE_ANGSTROM))
    # Rounded, so that rounding errors do not decide the order of equal lengths.
    order = np.lexsort((places, np.round(lengths[centres, places], 6), centres))
    centres, places = centres[order], places[order]
    first = np.searchsorted(centres, centres)
    kept = np.arange(len(centres)) - first < limits.max_neighbours
    centres, places = centres[kept], places[kept]
    image, neighbours = np.divmod(places, len(positions))
    return np.stack([neighbours, centres]).astype(np.int64), offsets[image].astype(np.int64)


def _images(positions: NDArray[np.float64], cell: NDArray[np.float64], cutoff: float) -> NDArray[np.int64]:
    """Return the offsets of all cells from which an atom can be a neighbour, (images, 3)."""
    inverse = np.linalg.inv(cell)
    # The planes of a lattice direction lie 1 / |column of the inverse| apart.
    reach = cutoff * np.linalg.norm(inverse, axis=0)
    fractions = positions @ inverse
    most = np.floor(reach + np.ptp(fractions, axis=0)).astype(int)
    return np.array(list(itertools.product(*(range(-count, count + 1) for count in most))), np.int64)
