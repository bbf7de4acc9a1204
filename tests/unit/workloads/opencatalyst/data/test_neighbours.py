"""The neighbour list against ASE's, and its choice of the nearest."""

import numpy as np
import pytest
from ase import Atoms
from ase.neighborlist import neighbor_list

from hpcai.workloads.opencatalyst.data.graph import GraphLimits
from hpcai.workloads.opencatalyst.data.neighbours import find_edges


def random_crystal(seed: int, atoms: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    cell = np.diag(random.uniform(2.5, 7, 3)) + random.normal(0, 0.8, (3, 3))
    # Some atoms lie outside the cell, as they may.
    return random.uniform(-0.7, 1.6, (atoms, 3)) @ cell, cell


@pytest.mark.parametrize(("seed", "atoms"), [(1, 1), (2, 3), (3, 6), (4, 10)])
def test_all_neighbours_are_those_of_ase(seed: int, atoms: int) -> None:
    positions, cell = random_crystal(seed, atoms)
    edge_index, offsets = find_edges(positions, cell, GraphLimits(5.0, 10_000))
    centre, source, shift = neighbor_list("ijS", Atoms(f"H{atoms}", positions, cell=cell, pbc=True), 5.0)
    ours = {(*edge, *offset) for edge, offset in zip(edge_index.T.tolist(), offsets.tolist(), strict=True)}
    theirs = {(j, i, *s) for i, j, s in zip(centre.tolist(), source.tolist(), shift.tolist(), strict=True)}
    assert ours == theirs
    assert edge_index.shape[1] == len(theirs)
    assert edge_index.dtype == offsets.dtype == np.int64


def test_the_nearest_are_kept_sorted_by_centre_and_length() -> None:
    positions, cell = random_crystal(5, 6)
    all_edges, all_offsets = find_edges(positions, cell, GraphLimits(6.0, 10_000))
    edges, offsets = find_edges(positions, cell, GraphLimits(6.0, 7))
    np.testing.assert_array_equal(np.bincount(edges[1]), 7)
    assert (np.diff(edges[1]) >= 0).all()

    def lengths(index: np.ndarray, offset: np.ndarray) -> np.ndarray:
        return np.linalg.norm(positions[index[0]] + offset @ cell - positions[index[1]], axis=1)

    kept, every = lengths(edges, offsets), lengths(all_edges, all_offsets)
    for atom in range(6):
        own = kept[edges[1] == atom]
        assert (np.diff(own) > -1e-6).all()
        np.testing.assert_allclose(own, np.sort(every[all_edges[1] == atom])[:7], atol=1e-6)
