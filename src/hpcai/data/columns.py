"""Columns of a table: unsigned numbers in the smallest type that holds them."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BLOCK = 4096
"""Rows that become Python objects together."""


def smallest(values: Sequence[int] | Array) -> Array:
    """Return unsigned numbers in the smallest type that holds them."""
    array = np.asarray(values, np.uint64)
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def bounds_of(lengths: Sequence[int] | Array) -> Array:
    """Return where spans of these lengths begin in an array of them all, and where it ends."""
    return smallest(np.concatenate([[0], np.cumsum(lengths, dtype=np.uint64)]))


def gathered(flat: Array, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Array:
    """Return spans of an array, one after the other: in blocks, because the place of each number takes eight bytes."""
    blocks = [flat[:0]]
    for row in range(0, len(starts), BLOCK):
        own = lengths[row : row + BLOCK]
        before = np.cumsum(own) - own
        blocks.append(flat[np.repeat(starts[row : row + BLOCK] - before, own) + np.arange(int(own.sum()))])
    return np.concatenate(blocks)


def column_digest(array: Array) -> str:
    """Return the SHA-256 of a column, its type included."""
    whole = hashlib.sha256(array.dtype.str.encode())
    whole.update(np.ascontiguousarray(array).view(np.uint8).data)
    return whole.hexdigest()
