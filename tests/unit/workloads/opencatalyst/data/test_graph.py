"""Requirements on a graph, with a message per deviation; its Example; paths k -> j -> i by brute force."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from unit.refusals import refused
from unit.workloads.opencatalyst.data.graph_samples import LIMITS, make_graph

from hpcai.core.errors import DatasetError
from hpcai.data.example import decode_example
from hpcai.workloads.opencatalyst.data.graph import (
    CROWDED_ATOM,
    WRONG_FIELD,
    count_triplets,
    edge_vectors,
    graph_from_fields,
)


def changed(**changes: Any) -> dict[str, Any]:
    return {**make_graph().fields(), **changes}


def test_a_good_graph_passes_and_keeps_its_fields() -> None:
    graph = make_graph()
    again = graph_from_fields(graph.fields(), LIMITS)
    for name, value in graph.fields().items():
        np.testing.assert_array_equal(getattr(again, name), value)
    # The reference writes tags as float in one of its two places.
    tags = graph_from_fields(changed(tags=graph.tags.astype(np.float32)), LIMITS).tags
    assert tags.dtype == np.int64


G = make_graph()
FAR = G.cell_offsets + np.array([2, 0, 0])


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"natoms": 5}, r"natoms: found 5, expected 4 .* a ragged graph"),
        ({"natoms": "4"}, "natoms: found '4', expected a whole number"),
        ({"pos": G.pos[:3]}, r"atomic_numbers: found shape \(4,\), expected \(3,\): a ragged graph"),
        ({"force": G.force[:3]}, r"force: found shape \(3, 3\), expected \(4, 3\): a ragged graph"),
        ({"fixed": G.fixed[:3]}, "fixed: found shape"),
        ({"tags": G.tags[:3]}, "tags: found shape"),
        ({"cell_offsets": G.cell_offsets[1:]}, "cell_offsets: found shape .*a ragged graph"),
        ({"edge_index": G.edge_index.T}, "edge_index: found shape"),
        ({"edge_index": G.edge_index + 1}, "edge_index: found atoms 1 to 4, expected 0 to 3: a ragged graph"),
        ({"edge_index": G.edge_index[:, :0], "cell_offsets": G.cell_offsets[:0]}, "edge_index: found no edge"),
        ({"edge_index": G.edge_index.astype(np.int32)}, "edge_index: found int32, expected int64"),
        ({"pos": G.pos.astype(np.float64)}, "pos: found float64, expected float32"),
        ({"pos": G.pos.tolist()}, "pos: found a list, expected a tensor"),
        ({"cell": G.cell[0]}, r"cell: found shape \(3, 3\), expected \(1, 3, 3\)"),
        ({"cell_offsets": FAR}, "edge_index: found an edge of .* A, expected 6.0 A at most"),
        ({"cell_offsets": G.cell_offsets * 200}, "cell_offsets: found .*, expected up to 127"),
        ({"force": G.force * np.nan}, "force: found values that are not finite"),
        ({"y": float("nan")}, "y: found nan, expected a finite energy"),
        ({"atomic_numbers": G.atomic_numbers + 0.5}, "atomic_numbers: found 8.5 to 29.5, expected 1 to 94"),
        ({"atomic_numbers": G.atomic_numbers * 0}, "atomic_numbers: found 0 to 0"),
        ({"fixed": G.fixed * 2}, "fixed: found 0 to 2, expected 0"),
        ({"tags": G.tags + 1}, "tags: found 1 to 3, expected 0, 1 or 2"),
        ({"sid": 1.5}, "sid: found 1.5, expected a whole number"),
    ],
)
def test_a_bad_graph_is_named(changes: dict[str, Any], match: str) -> None:
    with pytest.raises(DatasetError, match=f"field {match}"):
        graph_from_fields(changed(**changes), LIMITS)


@pytest.mark.parametrize("name", [*G.fields()])
def test_a_missing_field_is_named(name: str) -> None:
    fields = changed()
    del fields[name]
    with pytest.raises(DatasetError, match=f"field {name}: found only"):
        graph_from_fields(fields, LIMITS)


def test_too_many_neighbours() -> None:
    with refused(DatasetError, WRONG_FIELD, found=CROWDED_ATOM(neighbours=12), expected="11 at most"):
        graph_from_fields(changed(), replace(LIMITS, max_neighbours=11))


def test_the_example_holds_the_same_numbers() -> None:
    graph = make_graph()
    example = decode_example(graph.example())
    raw = {"pos": "<f4", "cell": "<f4", "atomic_numbers": "<i4", "edge_index": "<i4", "cell_offsets": "<i1",
           "force": "<f4", "fixed": "<f4", "tags": "<i1"}  # fmt: skip
    for name, dtype in raw.items():
        (data,) = example[name]
        np.testing.assert_array_equal(np.frombuffer(data, dtype), np.ravel(getattr(graph, name)))
    assert [int(example[name][0]) for name in ("sid", "fid")] == [7, 0]
    assert float(example["y"][0]) == graph.y
    assert set(example) == {*raw, "sid", "fid", "y"}


def test_paths_are_counted_as_the_reference_enumerates_them() -> None:
    graph = make_graph()
    edges = [
        (*edge, tuple(offset))
        for edge, offset in zip(graph.edge_index.T.tolist(), graph.cell_offsets.tolist(), strict=True)
    ]
    paths = [
        (k, j, i)
        for j, i, outer in edges
        for k, middle, inner in edges
        if middle == j and not (k == i and all(a + b == 0 for a, b in zip(outer, inner, strict=True)))
    ]
    assert count_triplets(graph) == len(paths) < 12 * len(edges)


def test_edges_lead_from_the_centre_to_the_neighbour() -> None:
    graph = make_graph()
    (source, centre), offset = graph.edge_index[:, 5], graph.cell_offsets[5]
    expected = graph.pos[source] + offset @ graph.cell[0] - graph.pos[centre]
    np.testing.assert_allclose(edge_vectors(graph)[5], expected, rtol=1e-5)
