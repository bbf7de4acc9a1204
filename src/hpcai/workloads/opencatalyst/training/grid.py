"""Edges as a list and as a grid of neighbours, so that paths k -> j -> i need no separate list.

The edges of a batch are sorted by their centre. Edge e, j -> i, continues every edge k -> j, and these are row j of a
grid with one row per atom and one column per neighbour. Sums over triplets become products with whole rows of the
grid. That is far faster than gathering and scattering triplets one by one, and needs no bound on their number.
"""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class NeighbourGrid:
    """Where each edge lies in the grid; A atoms, K columns, E edges.

    Parameters
    ----------
    edges
        (A, K) int32: the edge in each place, arbitrary where there is none.
    filled
        (A, K) bool: whether there is one.
    places
        (E,) int32: the place of each edge in the flat grid, arbitrary for padding.
    real
        (E,) bool: False for padding.
    source
        (E,) int32: the atom that each edge comes from, whose row holds the edges that it continues.
    """

    edges: tf.Tensor
    filled: tf.Tensor
    places: tf.Tensor
    real: tf.Tensor
    source: tf.Tensor

    def continued(self, values: tf.Tensor) -> tf.Tensor:
        """Return the values of edges, (E, c), for all edges k -> j that each edge j -> i continues, (E, K, c)."""
        grid = self.spread(values)
        rows = take_rows(tf.reshape(grid, [grid.shape[0], -1]), self.source)
        return tf.reshape(rows, [-1, *grid.shape[1:]])

    def spread(self, values: tf.Tensor) -> tf.Tensor:
        """Return the values of edges, (E, c), in the grid, (A, K, c); zero where there is no edge."""

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def operation(inputs: tf.Tensor) -> tuple[tf.Tensor, object]:
            return tf.where(self.filled[:, :, None], tf.gather(inputs, self.edges), 0), self.collect

        return operation(values)

    def collect(self, grid: tf.Tensor) -> tf.Tensor:
        """Return the values of the grid, (A, K, c), for each edge, (E, c); zero for padding. Adjoint of `spread`."""

        @tf.custom_gradient  # type: ignore[untyped-decorator]
        def operation(inputs: tf.Tensor) -> tuple[tf.Tensor, object]:
            flat = tf.reshape(inputs, [-1, inputs.shape[-1]])
            return tf.where(self.real[:, None], tf.gather(flat, self.places), 0), self.spread

        return operation(grid)


def make_grid(degrees: tf.Tensor, ends: tuple[tf.Tensor, tf.Tensor], real: tf.Tensor, columns: int) -> NeighbourGrid:
    """Return the grid of edges that are sorted by their centre, with padding at their end.

    Parameters
    ----------
    degrees
        Number of edges of each centre, (A,) int32, each at most ``columns``.
    ends
        Source and centre of each edge, (E,) int32.
    real
        (E,) bool: False for padding.
    columns
        Width of the grid.
    """
    source, centres = ends
    count = centres.shape[0]
    first = tf.cumsum(degrees, exclusive=True)
    column = tf.range(columns)[None]
    edges = tf.minimum(first[:, None] + column, count - 1)
    rank = tf.range(count) - tf.gather(first, centres)
    places = centres * columns + tf.clip_by_value(rank, 0, columns - 1)
    return NeighbourGrid(edges=edges, filled=column < degrees[:, None], places=places, real=real, source=source)


def take_rows(values: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return rows of values, as tf.gather does; its gradients of any order are tensors, not slices."""
    count = values.shape[0]

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def operation(inputs: tf.Tensor) -> tuple[tf.Tensor, object]:
        return tf.gather(inputs, rows), lambda upstream: add_rows(upstream, rows, count)

    return operation(values)


def add_rows(values: tf.Tensor, rows: tf.Tensor, count: int) -> tf.Tensor:
    """Return sums of values by row, (count, ...). Adjoint of `take_rows`."""

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def operation(inputs: tf.Tensor) -> tuple[tf.Tensor, object]:
        return tf.math.unsorted_segment_sum(inputs, rows, count), lambda upstream: take_rows(upstream, rows)

    return operation(values)
