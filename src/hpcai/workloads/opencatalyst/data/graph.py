"""One structure of OC20 as a graph: its fields, their constraints, and the tf.train.Example that TensorFlow reads.

Fields and types as the MLPerf HPC reference makes them (open_catalyst/ocpmodels/preprocessing/atoms_to_graphs.py and
scripts/preprocess_ef.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.example import encode_example

CROWDED_ATOM = Message("graph.crowded_atom", "found an atom with {neighbours} neighbours")
WRONG_FIELD = Message("graph.wrong_field", "{found}, expected {expected}; {remedy}")

HIGHEST_NUMBER = 94
"""The model's table has 95 rows (torch_geometric 1.7.2, nn/models/dimenet.py, EmbeddingBlock)."""
SUBSURFACE, SURFACE, ADSORBATE = 0, 1, 2
"""The tags of atoms (Open Catalyst 2020 dataset, arXiv:2010.09990)."""
_ROUNDING_ANGSTROM = 1e-3
"""Positions are float32: a distance recomputed from them may exceed the one that the edges were made with."""
_MOST_EXTREME_OFFSET = 127
REPAIR = "make the dataset again, or correct the settings cutoff_angstrom and max_neighbours"

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class GraphLimits:
    """Limits on the edges of a graph."""

    cutoff_angstrom: float
    max_neighbours: int


@dataclass(frozen=True)
class Graph:
    """Atoms of one periodic structure and their neighbours; N atoms, E edges.

    Parameters
    ----------
    pos
        Positions in Angstrom, (N, 3).
    cell
        Lattice vectors as rows, Angstrom, (1, 3, 3).
    atomic_numbers
        (N,), whole numbers in a float type, as in the official files.
    sid, fid
        Numbers of the system and of the frame.
    edge_index
        (2, E): row 0 the neighbour j (source), row 1 the centre i.
    cell_offsets
        (E, 3): in which image of the cell the neighbour lies.
    y
        Energy minus the system's reference, eV.
    force
        eV/Angstrom, (N, 3).
    fixed
        (N,): 1 for an atom held in place.
    tags
        (N,): 0 below the surface, 1 surface, 2 adsorbate.
    """

    pos: Floats
    cell: Floats
    atomic_numbers: Floats
    sid: int
    fid: int
    edge_index: Integers
    cell_offsets: Integers
    y: float
    force: Floats
    fixed: Floats
    tags: Integers

    @property
    def natoms(self) -> int:
        """Number of atoms."""
        return len(self.pos)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the official schema, in the order in which the reference sets them."""
        names = ("edge_index", "y", "pos", "cell", "atomic_numbers", "natoms", "tags")
        return {name: getattr(self, name) for name in (*names, "cell_offsets", "force", "fixed", "sid", "fid")}

    def example(self) -> bytes:
        """Return the graph as a tf.train.Example: raw little-endian numbers under the names of the fields.

        Edges become int32 and offsets int8, which hold the same numbers in less space.
        """
        return encode_example(
            {
                "pos": self.pos.astype("<f4").tobytes(),
                "cell": self.cell.astype("<f4").tobytes(),
                "atomic_numbers": self.atomic_numbers.astype("<i4").tobytes(),
                "sid": np.array([self.sid], np.int64),
                "fid": np.array([self.fid], np.int64),
                "edge_index": self.edge_index.astype("<i4").tobytes(),
                "cell_offsets": self.cell_offsets.astype("<i1").tobytes(),
                "y": np.array([self.y], np.float32),
                "force": self.force.astype("<f4").tobytes(),
                "fixed": self.fixed.astype("<f4").tobytes(),
                "tags": self.tags.astype("<i1").tobytes(),
            }
        )


def edge_vectors(graph: Graph) -> Floats:
    """Return the vector of each edge from its centre to its neighbour, Angstrom, (E, 3)."""
    source, centre = graph.edge_index
    shift = graph.cell_offsets.astype(np.float32) @ graph.cell[0]
    return np.asarray(graph.pos[source] - graph.pos[centre] + shift)


def count_triplets(graph: Graph) -> int:
    """Return the number of paths k -> j -> i, without those that return to the same atom of the same image."""
    source, centre = graph.edge_index
    incoming = np.bincount(centre, minlength=graph.natoms)
    # An edge and its reverse make one path that returns: k = i, and the offsets cancel.
    forward = _edge_codes(source, centre, graph.cell_offsets)
    returning = np.isin(_edge_codes(centre, source, -graph.cell_offsets), forward)
    return int(incoming[source].sum() - returning.sum())


def _edge_codes(source: Integers, centre: Integers, offsets: Integers) -> Integers:
    """Return a number that is unique to each edge."""
    digits = [source, centre, *(offsets + _MOST_EXTREME_OFFSET).T]
    code = np.zeros_like(source)
    for digit, base in zip(digits, (1, 1 << 16, *[1 << 8] * 3), strict=True):
        code = code * base + digit
    return code


def graph_from_fields(fields: Mapping[str, object], limits: GraphLimits) -> Graph:
    """Build a graph from its fields after checking all of them.

    Raises
    ------
    DatasetError
        If a field is missing, has a wrong type or shape, disagrees in counts or is out of range; names the field.
    """
    pos = _array(fields, "pos", "f", (None, 3))
    atoms = len(pos)
    edge_index = _array(fields, "edge_index", "i", (2, None))
    edges = edge_index.shape[1]
    graph = Graph(
        pos=pos,
        cell=_array(fields, "cell", "f", (1, 3, 3)),
        atomic_numbers=_array(fields, "atomic_numbers", "f", (atoms,)),
        sid=_whole(fields, "sid"),
        fid=_whole(fields, "fid"),
        edge_index=edge_index,
        cell_offsets=_array(fields, "cell_offsets", "i", (edges, 3)),
        y=_energy(fields),
        force=_array(fields, "force", "f", (atoms, 3)),
        fixed=_array(fields, "fixed", "f", (atoms,)),
        tags=_array(fields, "tags", "i", (atoms,)),
    )
    if _whole(fields, "natoms") != atoms or not atoms:
        raise _problem("natoms", f"found {fields['natoms']}", f"{atoms} as pos has rows: a ragged graph")
    _check_atoms(graph)
    _check_edges(graph, limits)
    return graph


def _problem(field: str, found: str, expected: str) -> DatasetError:
    return DatasetError(at(f"field {field}", WRONG_FIELD(found=found, expected=expected, remedy=REPAIR)))


def _value(fields: Mapping[str, object], name: str) -> object:
    if name not in fields:
        raise _problem(name, f"found only {', '.join(sorted(fields))}", "it, as in the official schema")
    return fields[name]


def _array(fields: Mapping[str, object], name: str, kind: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """Return an array of float32 ("f") or int64 ("i") with a shape in which None fits anything."""
    value = _value(fields, name)
    dtype = np.dtype({"f": np.float32, "i": np.int64}[kind])
    if not isinstance(value, np.ndarray):
        raise _problem(name, f"found a {type(value).__name__}", f"a tensor of {dtype}")
    # The reference stores tags as float where it takes them from atoms_to_graphs.py.
    if name == "tags" and value.dtype == np.float32 and np.array_equal(value, np.round(value)):
        value = value.astype(np.int64)
    if value.dtype != dtype:
        raise _problem(name, f"found {value.dtype}", f"{dtype}")
    if value.ndim != len(shape) or any(want not in {None, have} for want, have in zip(shape, value.shape, strict=True)):
        wanted = tuple("any" if want is None else want for want in shape)
        raise _problem(name, f"found shape {value.shape}", f"{wanted}: a ragged graph")
    if not np.isfinite(value).all():
        raise _problem(name, "found values that are not finite", "finite numbers")
    return value


def _whole(fields: Mapping[str, object], name: str) -> int:
    value = _value(fields, name)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int):
        raise _problem(name, f"found {value!r}", "a whole number")
    return value


def _energy(fields: Mapping[str, object]) -> float:
    value = _value(fields, "y")
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
        raise _problem("y", f"found {value!r}", "a finite energy in eV")
    return float(value)


def _check_atoms(graph: Graph) -> None:
    numbers = graph.atomic_numbers
    if not np.array_equal(numbers, np.round(numbers)) or numbers.min() < 1 or numbers.max() > HIGHEST_NUMBER:
        raise _problem("atomic_numbers", f"found {numbers.min():g} to {numbers.max():g}", f"1 to {HIGHEST_NUMBER}")
    if not np.isin(graph.fixed, (0, 1)).all():
        raise _problem("fixed", f"found {graph.fixed.min():g} to {graph.fixed.max():g}", "0 (free) or 1 (fixed)")
    if not np.isin(graph.tags, (SUBSURFACE, SURFACE, ADSORBATE)).all():
        raise _problem("tags", f"found {graph.tags.min()} to {graph.tags.max()}", "0, 1 or 2")


def _check_edges(graph: Graph, limits: GraphLimits) -> None:
    edges, atoms = graph.edge_index, graph.natoms
    if not edges.size:
        raise _problem("edge_index", "found no edge", "neighbours within the cut-off")
    if edges.min() < 0 or edges.max() >= atoms:
        raise _problem("edge_index", f"found atoms {edges.min()} to {edges.max()}", f"0 to {atoms - 1}: a ragged graph")
    if np.abs(graph.cell_offsets).max() > _MOST_EXTREME_OFFSET:
        raise _problem("cell_offsets", f"found {np.abs(graph.cell_offsets).max()}", f"up to {_MOST_EXTREME_OFFSET}")
    longest = float(np.sqrt((edge_vectors(graph) ** 2).sum(axis=1).max()))
    if longest > limits.cutoff_angstrom + _ROUNDING_ANGSTROM:
        raise _problem("edge_index", f"found an edge of {longest:.3f} A", f"{limits.cutoff_angstrom} A at most")
    most = int(np.bincount(edges[1]).max())
    if most > limits.max_neighbours:
        raise _problem("edge_index", CROWDED_ATOM(neighbours=most), f"{limits.max_neighbours} at most")
