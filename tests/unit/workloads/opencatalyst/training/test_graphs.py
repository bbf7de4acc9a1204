"""Batches of graphs: parsed, joined, padded, and the paths k -> j -> i that they imply."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from unit.refusals import refused
from unit.workloads.opencatalyst.training.opencatalyst_plans import make_graph, make_plan

from hpcai.core.errors import TrainingError
from hpcai.workloads.opencatalyst.data.graph import Graph
from hpcai.workloads.opencatalyst.training.graphs import NO_SIZES, Graphs, Room
from hpcai.workloads.opencatalyst.training.grid import add_rows, make_grid, take_rows
from hpcai.workloads.opencatalyst.training.workload import OpenCatalyst

SIZES = {
    "mean_atoms": (70.0,),
    "standard_deviation_atoms": (40.0,),
    "max_atoms": (225.0,),
    "mean_edges": (3500.0,),
    "standard_deviation_edges": (2000.0,),
    "max_edges": (11_250.0,),
}


@pytest.mark.parametrize(("samples", "edges"), [(1, 11_250), (4, 38_000), (32, 179_883), (2, 22_500)])
def test_room_follows_from_the_sizes_of_the_graphs(samples: int, edges: int) -> None:
    """n means and six standard deviations of their sum; at least the largest graph, at most n of it."""
    room = Room.for_dataset(SIZES, samples)
    assert room.edges == edges
    assert 225 < room.atoms <= samples * 225 + 1


def test_room_of_unknown_graphs() -> None:
    with refused(TrainingError, NO_SIZES) as error:
        OpenCatalyst(make_plan(data={"capacity": None})).batch_spec()
    assert "max_atoms" in error.value.facts["expected"]


def batches_of(workload: OpenCatalyst, *graphs: Graph) -> list[tuple[Graphs, np.ndarray]]:
    records = tf.data.Dataset.from_tensor_slices([graph.example() for graph in graphs])
    parsed = records.map(lambda record: workload.parse(record, None))
    batches = workload.collate(parsed, workload.plan.micro_batch)
    return [(Graphs(*(part.numpy() for part in batch[:-1])), batch[-1].numpy()) for batch in batches]


def test_graphs_are_joined_and_padded() -> None:
    workload = OpenCatalyst(make_plan())
    first, second, third = make_graph(4), make_graph(5), make_graph(3)
    (graphs, weights), (last, last_weights) = batches_of(workload, first, second, third)
    assert [tuple(part.shape) for part in graphs] == [tuple(spec.shape) for spec in workload.batch_spec()]
    assert [part.dtype for part in graphs] == [spec.dtype.as_numpy_dtype for spec in workload.batch_spec()]
    assert (weights.tolist(), last_weights.tolist()) == ([1, 1], [1, 0])
    np.testing.assert_array_equal(graphs.positions[:9], np.concatenate([first.pos, second.pos]))
    np.testing.assert_array_equal(graphs.forces[:9], np.concatenate([first.force, second.force]))
    np.testing.assert_array_equal(graphs.numbers[:9], np.concatenate([first.atomic_numbers, second.atomic_numbers]))
    assert not graphs.numbers[9:].any()
    assert graphs.free.tolist() == [0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    assert graphs.graph[:9].tolist() == [0] * 4 + [1] * 5
    edges = first.edge_index.shape[1]
    np.testing.assert_array_equal(graphs.source[edges : edges + second.edge_index.shape[1]], second.edge_index[0] + 4)
    assert set(graphs.centre[graphs.degrees.sum() :]) == {12}
    np.testing.assert_allclose(graphs.shifts[:edges], first.cell_offsets @ first.cell[0], atol=1e-6)
    assert np.count_nonzero(last.numbers) == 3


def reference_paths(graph: Graph) -> set[tuple[int, int]]:
    """Pairs of edges (kj, ji), dropped only if k = i and the summed offset is zero."""
    ends, offsets = graph.edge_index.T.tolist(), graph.cell_offsets.tolist()
    return {
        (kj, ji)
        for ji, (j, i) in enumerate(ends)
        for kj, (k, centre) in enumerate(ends)
        if centre == j and not (k == i and all(a + b == 0 for a, b in zip(offsets[kj], offsets[ji], strict=True)))
    }


def test_the_grid_holds_exactly_the_paths_of_the_reference() -> None:
    workload = OpenCatalyst(make_plan())
    first, second = make_graph(4), make_graph(5)
    ((graphs, _),) = batches_of(workload, first, second)
    real = tf.constant(graphs.numbers[graphs.centre] > 0)
    grid = make_grid(tf.constant(graphs.degrees), (tf.constant(graphs.source), tf.constant(graphs.centre)), real, 9)
    numbered = tf.range(1, len(graphs.source) + 1, dtype=tf.float32)[:, None]
    continued = grid.continued(numbered).numpy()[:, :, 0].astype(int) - 1
    column = np.arange(9)
    found = {
        (int(kj), ji)
        for ji in range(graphs.degrees.sum())
        for kj, m in zip(continued[ji], column, strict=True)
        if m < graphs.degrees[graphs.source[ji]] and m != graphs.returning[ji]
    }
    edges = first.edge_index.shape[1]
    assert found == reference_paths(first) | {(kj + edges, ji + edges) for kj, ji in reference_paths(second)}
    # Spreading and collecting are each other's inverse on real edges.
    back = grid.collect(grid.spread(numbered)).numpy()[:, 0]
    np.testing.assert_array_equal(back, np.where(real, numbered.numpy()[:, 0], 0))


def test_unsorted_edges_and_edges_of_length_zero_are_put_right() -> None:
    workload = OpenCatalyst(make_plan())
    graph = make_graph(4)
    order = np.random.default_rng(1).permutation(graph.edge_index.shape[1])
    nothing = np.zeros((1, 3), np.int64)
    shuffled = replace(
        graph,
        edge_index=np.concatenate([graph.edge_index[:, order], [[2], [2]]], axis=1),
        cell_offsets=np.concatenate([graph.cell_offsets[order], nothing]),
    )
    ((tidy, _), (untidy, _)) = (batches_of(workload, one)[0] for one in (graph, shuffled))
    np.testing.assert_array_equal(tidy.degrees, untidy.degrees)
    assert sorted(zip(tidy.source, tidy.centre, strict=True)) == sorted(zip(untidy.source, untidy.centre, strict=True))
    assert (np.diff(untidy.centre) >= 0).all()


@pytest.mark.parametrize(
    ("data", "match"),
    [
        ({"capacity": {"atoms": 3, "edges": 54}}, "has 9 atoms, but room for 6: raise data.capacity.atoms"),
        ({"capacity": {"atoms": 6, "edges": 20}}, "has 81 edges, but room for 40: raise data.capacity.edges"),
        ({"max_neighbours": 5}, "has 9 neighbours of one atom, but room for 5: raise data.max_neighbours"),
    ],
)
def test_a_batch_without_room_says_what_to_raise(data: dict, match: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        batches_of(OpenCatalyst(make_plan(data=data)), make_graph(4), make_graph(5))


def test_rows_and_sums_are_adjoint_to_second_order() -> None:
    random = np.random.default_rng(2)
    values, rows = tf.constant(random.normal(size=(4, 3))), tf.constant([2, 0, 2, 3, 3])
    weights = tf.constant(random.normal(size=(5, 3)))

    def slopes(take: object) -> list[np.ndarray]:
        with tf.GradientTape() as outer:
            outer.watch(values)
            with tf.GradientTape() as inner:
                inner.watch(values)
                total = tf.reduce_sum(weights * take(values) ** 3)  # type: ignore[operator]
            first = inner.gradient(total, values)
            square = tf.reduce_sum(tf.convert_to_tensor(first) ** 2)
        second = outer.gradient(square, values)
        return [tf.convert_to_tensor(first).numpy(), tf.convert_to_tensor(second).numpy()]

    for ours, plain in zip(slopes(lambda v: take_rows(v, rows)), slopes(lambda v: tf.gather(v, rows)), strict=True):
        np.testing.assert_allclose(ours, plain)
    np.testing.assert_allclose(add_rows(weights, rows, 4), tf.math.unsorted_segment_sum(weights, rows, 4))
