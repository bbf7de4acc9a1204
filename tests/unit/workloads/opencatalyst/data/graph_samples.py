"""A small crystal as a graph, for the tests of OpenCatalyst's data."""

from typing import Any

import numpy as np

from hpcai.workloads.opencatalyst.data.graph import Graph, GraphLimits
from hpcai.workloads.opencatalyst.data.neighbours import find_edges
from hpcai.workloads.opencatalyst.settings import OpenCatalystData

LIMITS = GraphLimits(6.0, 12)


def make_graph(fid: int = 0) -> Graph:
    """Four atoms of a distorted fcc cell; another one for each frame."""
    random = np.random.default_rng(fid)
    cell = 4.0 * np.eye(3)
    positions = np.array([[0, 0, 0], [0, 2, 2], [2, 0, 2], [2, 2, 0]]) + random.normal(0, 0.1, (4, 3))
    edge_index, cell_offsets = find_edges(positions, cell, LIMITS)
    return Graph(
        pos=positions.astype(np.float32),
        cell=cell.astype(np.float32)[None],
        atomic_numbers=np.array([29, 29, 29, 8], np.float32),
        sid=7,
        fid=fid,
        edge_index=edge_index,
        cell_offsets=cell_offsets,
        y=-1.25,
        force=random.normal(size=(4, 3)).astype(np.float32),
        fixed=np.array([1, 0, 0, 0], np.float32),
        tags=np.array([0, 1, 1, 2]),
    )


def settings(**changes: Any) -> OpenCatalystData:
    """A dataset of few small slabs."""
    values = {
        "dataset": "tiny",
        "source": "generate",
        "train_samples": 6,
        "validation_samples": 2,
        "samples_per_file": 4,
        "max_neighbours": 12,
        "slabs": {"metals": ["Cu", "Al"], "adsorbates": ["H", "CO"], "systems": 3},
    }
    return OpenCatalystData.model_validate({**values, **changes})
