"""Read one part of a sample from a plain TFRecord file, without reading the rest.

The cube ``x`` is raw int16, depth first, so the planes of a part are one contiguous range of bytes; where planes are
cut, each part of one is. The checksum of a record covers the whole record and cannot be verified for a part: only files
that staging has verified are read so.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message
from hpcai.data.example import decode_example
from hpcai.data.tfrecord import HEADER, masked_crc32c
from hpcai.workloads.cosmoflow.data.sample import REPAIR, TARGETS, Counts, Targets
from hpcai.workloads.cosmoflow.settings import PartGrid

NO_SLAB = Message(
    "slab.no_slab", "{path}: record at {offset_bytes} bytes: found {found}, expected {expected}; {remedy}"
)
HEAD_BYTES = 64
"""Covers the header of a record and of each feature in it."""
FEATURES = ENTRY = KEY = BYTES_LIST = VALUE = 0x0A
"""Field 1 of a message, with a length (tensorflow/core/example/example.proto)."""
FEATURE = 0x12
"""Field 2 of a message, with a length."""


def read_slab(path: Path, offset_bytes: int, shape: Sequence[int], part: int, grid: PartGrid) -> tuple[Counts, Targets]:
    """Return one of several equal parts of a sample, and its targets.

    Parameters
    ----------
    path
        A plain file of records.
    offset_bytes
        Offset of the record in the file.
    shape
        Shape of the whole cube, (edge, edge, edge, channels).
    part, grid
        Index of the part, and how the cube is cut.

    Returns
    -------
    counts : (edge / grid.depth, edge / grid.rows, edge, channels)
        int16.
    targets : (4,)
        float32.

    Raises
    ------
    ValueError
        If the file cannot be read or holds no such sample.
    """
    try:
        file = os.open(path, os.O_RDONLY)
        try:
            return _read(file, offset_bytes, shape, part, grid)
        finally:
            os.close(file)
    except OSError as error:
        found, expected = str(error.strerror), "a readable file"
    except DatasetError as error:
        found, expected = f"a damaged y ({error})", "4 floats"
    except ValueError as error:
        found, expected = error.args
    raise ValueError(NO_SLAB(path=path, offset_bytes=offset_bytes, found=found, expected=expected, remedy=REPAIR))


def _read(file: int, offset_bytes: int, shape: Sequence[int], part: int, grid: PartGrid) -> tuple[Counts, Targets]:
    head = os.pread(file, HEAD_BYTES, offset_bytes)
    if len(head) < HEAD_BYTES or masked_crc32c(head[:8]) != HEADER.unpack_from(head)[1]:
        raise ValueError("no head of a record", "a whole record")
    end = offset_bytes + HEADER.size + HEADER.unpack_from(head)[0]
    place = offset_bytes + _field(head, HEADER.size, FEATURES)[0]
    counts: Counts | None = None
    targets: Targets | None = None
    while place < end and (counts is None or targets is None):
        head = os.pread(file, HEAD_BYTES, place)
        begin, size = _field(head, 0, ENTRY)
        key, key_size = _field(head, begin, KEY)
        name = head[key : key + key_size]
        if name == b"x":
            data, data_bytes = _bytes_of(head, key + key_size)
            counts = _part(file, place + data, data_bytes, shape, part, grid)
        elif name == b"y":
            targets = _targets(os.pread(file, begin + size, place))
        place += begin + size
    if counts is None or targets is None:
        raise ValueError("not both features", "x (bytes) and y (4 floats) of the official schema")
    return counts, targets


def _part(file: int, begin: int, found_bytes: int, shape: Sequence[int], part: int, grid: PartGrid) -> Counts:
    """Return one part of a cube that starts at a byte offset of the file."""
    cube_bytes = 2 * int(np.prod(shape))
    if found_bytes != cube_bytes:
        raise ValueError(f"{found_bytes} bytes of x", f"{cube_bytes} for int16 of shape {tuple(shape)}")
    along_depth, along_rows = grid.place(part)
    depth, plane_bytes = shape[0] // grid.depth, cube_bytes // shape[0]
    begin += along_depth * depth * plane_bytes
    # Whole planes lie together; of planes that are cut, each has a range of its own.
    ranges, size = (1, depth * plane_bytes) if grid.rows == 1 else (depth, plane_bytes // grid.rows)
    data = b"".join(os.pread(file, size, begin + number * plane_bytes + along_rows * size) for number in range(ranges))
    if len(data) != ranges * size:
        raise ValueError(f"{len(data)} bytes of its part of x", f"{ranges * size}: the tail of the file is cut")
    return np.frombuffer(data, "<i2").reshape(depth, shape[1] // grid.rows, *shape[2:])


def _targets(entry: bytes) -> Targets:
    """Decode the targets from their entry, which is a valid Example by itself."""
    y = decode_example(bytes([FEATURES]) + _varint(len(entry)) + entry)["y"]
    if not isinstance(y, np.ndarray) or y.dtype != np.float32 or y.shape != (TARGETS,):
        raise ValueError(f"{len(y)} values of y", f"{TARGETS} floats")
    return y.astype(np.float32)


def _bytes_of(head: bytes, place: int) -> tuple[int, int]:
    """Return offset and length of a feature's bytes, which follow its key."""
    for tag in (FEATURE, BYTES_LIST):
        place, _ = _field(head, place, tag)
    return _field(head, place, VALUE)


def _field(head: bytes, place: int, tag: int) -> tuple[int, int]:
    """Return offset and length of a field's content."""
    found, place = head[place : place + 1], place + 1
    length = shift = 0
    while found == bytes([tag]) and place < len(head):
        length |= (head[place] & 0x7F) << shift
        if head[place] < 0x80:
            return place + 1, length
        place, shift = place + 1, shift + 7
    raise ValueError(f"{bytes(head[:16]).hex()}...", "a tf.train.Example of the official schema")


def _varint(number: int) -> bytes:
    """Encode a number as a protobuf varint: groups of seven bits, least significant first."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])
