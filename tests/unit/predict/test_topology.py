"""Factors of the five topologies (Hu and Lu 2021, section 4.3)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.core.errors import ConfigError
from hpcai.predict.topology import TOPOLOGIES, UNKNOWN_TOPOLOGY, topology_factor


@pytest.mark.parametrize(
    ("nodes", "factors"), [(8, (2, 8, 1, 4, 6)), (5, (2, 5, 1, 2, 6)), (1, (0,) * 5), (0, (0,) * 5)]
)
def test_factors_of_all_topologies(nodes, factors):
    assert tuple(topology_factor(list(TOPOLOGIES), nodes)) == factors


def test_names_and_nodes_broadcast():
    table = topology_factor(np.array(["bus", "ring"])[:, None], np.array([1, 2, 7]))
    assert table.tolist() == [[0, 2, 7], [0, 1, 3]]


@given(st.integers(2, 2**40))
def test_the_tree_is_exact_for_all_sizes(nodes):
    assert topology_factor("tree", nodes) == 2 * (nodes - 1).bit_length()
    assert topology_factor("tree", nodes) == pytest.approx(2 * math.ceil(math.log2(nodes)), abs=2)


def test_an_unknown_topology_lists_the_known_ones():
    with pytest.raises(ConfigError, match=UNKNOWN_TOPOLOGY(topology="torus", known="star, bus, mesh, ring, tree")):
        topology_factor(["star", "torus"], 4)
