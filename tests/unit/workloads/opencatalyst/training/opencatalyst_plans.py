"""Small OpenCatalyst plans and graphs for the tests."""

from typing import Any

import numpy as np
from unit.training.training_plans import plan_of

from hpcai.config.runs import RunPlan
from hpcai.workloads.opencatalyst.data.graph import Graph, GraphLimits
from hpcai.workloads.opencatalyst.data.neighbours import find_edges

BENCHMARK: dict[str, Any] = {
    "name": "opencatalyst_test",
    "workload": "opencatalyst",
    "title": "a test",
    "data": {
        "dataset": "opencatalyst_test",
        "source": "generate",
        "train_samples": 16,
        "validation_samples": 7,
        "cutoff_angstrom": 4.0,
        "max_neighbours": 9,
        "capacity": {"atoms": 6, "edges": 54},
    },
    "pack": {"codec": "zstd"},
    "model": {
        "hidden": 8,
        "output_hidden": 6,
        "blocks": 2,
        "interaction_hidden": 5,
        "basis_hidden": 3,
        "radial": 3,
        "spherical": 4,
        "output_layers": 2,
    },
    "recipe": {"global_batch": 2, "max_epochs": 2, "force_standard_deviation": 0.5},
    "target": {"value": 0.036},
}
LIMITS = GraphLimits(4.0, 9)


def make_plan(ranks: int = 1, **changes: dict[str, Any]) -> RunPlan:
    """Return a plan; ``changes`` go into the benchmark's sections, or into the point."""
    return plan_of(BENCHMARK, ranks, **changes)


def make_graph(atoms: int = 4, seed: int = 1) -> Graph:
    """Return a random crystal; its first atom is fixed."""
    random = np.random.default_rng([seed, atoms])
    cell = np.diag([3.4, 3.7, 4.1]) + random.normal(0, 0.1, (3, 3))
    positions = (random.uniform(0, 0.3, (atoms, 3)) + np.arange(atoms)[:, None] / atoms) @ cell
    edge_index, cell_offsets = find_edges(positions, cell, LIMITS)
    return Graph(
        pos=positions.astype(np.float32),
        cell=cell.astype(np.float32)[None],
        atomic_numbers=random.integers(1, 90, atoms).astype(np.float32),
        sid=3,
        fid=seed,
        edge_index=edge_index,
        cell_offsets=cell_offsets,
        y=-0.5,
        force=random.normal(size=(atoms, 3)).astype(np.float32),
        fixed=(np.arange(atoms) == 0).astype(np.float32),
        tags=np.full(atoms, 1),
    )
