"""From tf.train.Examples to batches of graphs with a fixed shape."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from hpcai.core.errors import TrainingError
from hpcai.core.messages import Message
from hpcai.workloads.opencatalyst.settings import GraphCapacity
from hpcai.workloads.opencatalyst.training.model import Structure

NO_SIZES = Message(
    "graphs.no_sizes", "statistics: found {found}, expected {expected}; prepare the dataset again or set data.capacity"
)

_RAW = {"pos": tf.float32, "cell": tf.float32, "atomic_numbers": tf.int32, "edge_index": tf.int32,
        "cell_offsets": tf.int8, "force": tf.float32, "fixed": tf.float32}  # fmt: skip
STANDARD_DEVIATIONS = 6


class Graphs(NamedTuple):
    """Graphs joined into one, with A atoms and E edges; padding has the atomic number 0 and is not free.

    ``positions`` and ``forces`` are (A, 3) float32, ``free`` (A,) float32 is 1 for atoms that count, ``graph`` (A,)
    int32 is the sample that an atom belongs to. The rest is as in `Structure`.
    """

    positions: tf.Tensor
    forces: tf.Tensor
    free: tf.Tensor
    graph: tf.Tensor
    numbers: tf.Tensor
    degrees: tf.Tensor
    source: tf.Tensor
    centre: tf.Tensor
    shifts: tf.Tensor
    returning: tf.Tensor

    @property
    def structure(self) -> Structure:
        """Inputs of the network besides the positions."""
        return Structure(*self[4:])


class Room(NamedTuple):
    """Atoms and edges of a batch; the last atom is always padding, where padding edges end."""

    atoms: int
    edges: int

    @classmethod
    def of(cls, capacity: GraphCapacity, samples: int) -> "Room":
        """Return the room for some samples."""
        return cls(samples * capacity.atoms + 1, samples * capacity.edges)

    @classmethod
    def for_dataset(cls, statistics: Mapping[str, tuple[float, ...]], samples: int) -> "Room":
        """Return the room that suffices for all but one in 1e9 batches of a dataset.

        The mean of n graphs plus six standard deviations of their sum; never less than the largest graph, and never
        more than n times that.

        Raises
        ------
        TrainingError
            If the manifest lacks the sizes of the graphs.
        """
        rooms = []
        for what in ("atoms", "edges"):
            names = [f"{kind}_{what}" for kind in ("mean", "standard_deviation", "max")]
            if not all(name in statistics for name in names):
                raise TrainingError(NO_SIZES(found=sorted(statistics), expected=names))
            mean, deviation, largest = (statistics[name][0] for name in names)
            likely = samples * mean + STANDARD_DEVIATIONS * math.sqrt(samples) * deviation
            rooms.append(math.ceil(min(max(likely, largest), samples * largest)))
        return cls(rooms[0] + 1, rooms[1])

    def spec(self) -> tuple[tf.TensorSpec, ...]:
        """Return the shapes and types of `Graphs`."""
        atoms, edges = [self.atoms], [self.edges]
        per_atom = [([*atoms, 3], tf.float32)] * 2 + [(atoms, tf.float32), *[(atoms, tf.int32)] * 3]
        per_edge = [(edges, tf.int32), (edges, tf.int32), ([*edges, 3], tf.float32), (edges, tf.int32)]
        return tuple(tf.TensorSpec(shape, dtype) for shape, dtype in per_atom + per_edge)


class Sample(NamedTuple):
    """One graph: edges of length zero removed, the others sorted by centre."""

    positions: tf.Tensor
    forces: tf.Tensor
    free: tf.Tensor
    numbers: tf.Tensor
    source: tf.Tensor
    centre: tf.Tensor
    offsets: tf.Tensor
    shifts: tf.Tensor


def parse_graph(record: tf.Tensor) -> Sample:
    """Return the graph of a serialised tf.train.Example as hpcai.workloads.opencatalyst.data.graph writes it."""
    example = tf.io.parse_single_example(record, {name: tf.io.FixedLenFeature([], tf.string) for name in _RAW})
    raw = {name: tf.io.decode_raw(example[name], dtype, little_endian=True) for name, dtype in _RAW.items()}
    positions = tf.reshape(raw["pos"], [-1, 3])
    source, centre = tf.unstack(tf.reshape(raw["edge_index"], [2, -1]))
    offsets = tf.cast(tf.reshape(raw["cell_offsets"], [-1, 3]), tf.int32)
    shifts = tf.matmul(tf.cast(offsets, tf.float32), tf.reshape(raw["cell"], [3, 3]))
    vectors = tf.gather(positions, source) - tf.gather(positions, centre) + shifts
    kept = tf.where(tf.reduce_any(vectors != 0, axis=1))[:, 0]
    kept = tf.gather(kept, tf.argsort(tf.gather(centre, kept), stable=True))
    edges = (tf.gather(part, kept) for part in (source, centre, offsets, shifts))
    forces = tf.reshape(raw["force"], [-1, 3])
    return Sample(positions, forces, 1 - raw["fixed"], raw["atomic_numbers"], *edges)


def join_graphs(samples: tf.data.Dataset, size: int, room: Room, columns: int) -> tf.data.Dataset:
    """Return batches (*`Graphs`, weights) of samples; see `hpcai.training.workload.Workload.collate`.

    Parameters
    ----------
    samples
        Elements are `Sample`.
    size
        Samples per batch.
    room
        Room of a batch.
    columns
        Most neighbours of an atom.
    """

    def join(*parts: tf.RaggedTensor) -> tuple[tf.Tensor, ...]:
        sample = Sample(*parts)
        weights = tf.sequence_mask(sample.numbers.nrows(), size, dtype=tf.float32)
        return *_padded(_joined(sample), room, columns), weights

    return samples.ragged_batch(size).map(join)


def _joined(sample: Sample) -> Graphs:
    """Join the graphs of a batch: atoms are renumbered, edges still sorted by centre."""
    first = sample.numbers.row_starts()
    moved = tf.cast(tf.repeat(first, sample.source.row_lengths()), tf.int32)
    flat = Sample(*(part.merge_dims(0, 1) for part in sample))
    source, centre = flat.source + moved, flat.centre + moved
    degrees = tf.math.bincount(centre, minlength=tf.size(flat.numbers), dtype=tf.int32)
    returning = _returning(source, centre, flat.offsets, degrees)
    graph = tf.cast(sample.numbers.value_rowids(), tf.int32)
    return Graphs(
        flat.positions, flat.forces, flat.free, graph, flat.numbers, degrees, source, centre, flat.shifts, returning
    )


def _returning(source: tf.Tensor, centre: tf.Tensor, offsets: tf.Tensor, degrees: tf.Tensor) -> tf.Tensor:
    """Return which neighbour k of an edge's source j is the edge's centre i in the same image; -1 if none is.

    The path k -> j -> i is excluded only if k = i and the offsets add up to zero.
    """
    first = tf.gather(tf.cumsum(degrees, exclusive=True), source)
    count = tf.gather(degrees, source)
    columns = tf.range(tf.reduce_max(degrees))[None]
    candidates = tf.minimum(first[:, None] + columns, tf.size(source) - 1)
    found = (columns < count[:, None]) & (tf.gather(source, candidates) == centre[:, None])
    found &= tf.reduce_all(tf.gather(offsets, candidates) == -offsets[:, None], axis=-1)
    return tf.where(tf.reduce_any(found, axis=1), tf.argmax(found, axis=1, output_type=tf.int32), -1)


def _padded(graphs: Graphs, room: Room, columns: int) -> Graphs:
    """Fill graphs up to a room; edges of padding lead from the last atom to itself."""
    atoms, edges = tf.size(graphs.numbers), tf.size(graphs.source)
    checks = [
        _require(atoms, room.atoms - 1, "atoms", "data.capacity.atoms"),
        _require(edges, room.edges, "edges", "data.capacity.edges"),
        _require(tf.reduce_max(graphs.degrees), columns, "neighbours of one atom", "data.max_neighbours"),
    ]
    with tf.control_dependencies(checks):
        missing_atoms = room.atoms - atoms
        missing = dict.fromkeys(("source", "centre", "shifts", "returning"), room.edges - edges)
    parts = []
    for (name, part), spec in zip(graphs._asdict().items(), room.spec(), strict=True):
        value = room.atoms - 1 if name in {"source", "centre"} else 0
        count = missing.get(name, missing_atoms)
        filled = tf.pad(part, [[0, count]] + [[0, 0]] * (part.shape.rank - 1), constant_values=value)
        parts.append(tf.ensure_shape(filled, spec.shape))
    return Graphs(*parts)


def _require(found: tf.Tensor, most: int, what: str, setting: str) -> tf.Operation:
    template = f"a batch of graphs has {{}} {what}, but room for {{}}: raise {setting} of the benchmark file"
    return tf.debugging.Assert(found <= most, [tf.strings.format(template, (found, most))])
