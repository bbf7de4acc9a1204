"""The official CosmoFlow sample: a tf.train.Example with the cube ``x`` and its four targets ``y``.

Schema from the MLPerf HPC reference, cosmoflow/prepare.py: ``x`` is one bytes feature with little-endian int16 counts,
``y`` a float feature with 4 values. The protocol-buffer message (tensorflow/core/example/example.proto) is small enough
to be written and read here, so that no data job has to import TensorFlow.
"""

import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hpcai.errors import DatasetError

TARGETS = 4
AXES = 4
_LENGTH_DELIMITED, _FIXED_64, _FIXED_32, _VARINT = 2, 1, 5, 0
_BYTES_LIST, _FLOAT_LIST = 1, 2
REPAIR = "correct the setting edge, or make the dataset again"

Counts = NDArray[np.int16]
Targets = NDArray[np.float32]


def encode_sample(x: Counts, y: Targets) -> bytes:
    """Return a sample as the bytes of a tf.train.Example; equal samples give equal bytes.

    Parameters
    ----------
    x
        Particle counts, int16, shape (edge, edge, edge, channels).
    y
        Parameters of the universe scaled to [-1, 1], float32, shape (4,).

    Raises
    ------
    DatasetError
        If a type or shape is another one.
    """
    if x.dtype != np.int16 or x.ndim != AXES or not x.size:
        raise DatasetError(f"x: found {x.dtype} of shape {x.shape}, expected int16 of shape (edge, edge, edge, 4)")
    if y.dtype != np.float32 or y.shape != (TARGETS,) or not np.isfinite(y).all():
        raise DatasetError(f"y: found {y.dtype} of shape {y.shape}, {y}, expected 4 finite float32 numbers")
    cube = _field(_BYTES_LIST, _field(1, np.ascontiguousarray(x, "<i2").tobytes()))
    targets = _field(_FLOAT_LIST, _field(1, y.astype("<f4").tobytes()))
    features = b"".join(
        _field(1, _field(1, name) + _field(2, feature)) for name, feature in ((b"x", cube), (b"y", targets))
    )
    return _field(1, features)


def decode_sample(payload: bytes | memoryview, shape: Sequence[int]) -> tuple[Counts, Targets]:
    """Return the arrays of a tf.train.Example; ``x`` is a read-only view of the payload.

    Parameters
    ----------
    payload
        One record.
    shape
        Expected shape of ``x``, (edge, edge, edge, channels).

    Raises
    ------
    DatasetError
        If the message is damaged, a feature is missing, or a shape is another one.
    """
    features = _features(memoryview(payload))
    missing = sorted({"x", "y"} - features.keys())
    if missing:
        raise DatasetError(
            f"feature {' and '.join(missing)}: found only {sorted(features)}, "
            f"expected x (bytes) and y (4 floats) of the official schema; {REPAIR}"
        )
    cube, expected_bytes = _bytes_value(features["x"]), 2 * int(np.prod(shape))
    if len(cube) != expected_bytes:
        raise DatasetError(
            f"feature x: found {len(cube)} bytes, expected {expected_bytes} for int16 of shape {tuple(shape)}; {REPAIR}"
        )
    y = _float_values(features["y"])
    if y.shape != (TARGETS,):
        raise DatasetError(f"feature y: found {y.size} numbers, expected {TARGETS}; {REPAIR}")
    if not np.isfinite(y).all():
        raise DatasetError(f"feature y: found {y.tolist()}, expected finite numbers; {REPAIR}")
    return np.frombuffer(cube, "<i2").reshape(shape), y


def _varint(value: int) -> bytes:
    """Encode an unsigned number in groups of 7 bits, lowest first."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])


def _field(number: int, content: bytes) -> bytes:
    """Encode one length-delimited field of a message."""
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _read_varint(data: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise DatasetError(f"the tf.train.Example ends, or is damaged, at byte {position} of {len(data)}; {REPAIR}")


def _fields(data: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield number, wire type and content of the fields of a message."""
    position = 0
    while position < len(data):
        key, position = _read_varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == _LENGTH_DELIMITED:
            size, position = _read_varint(data, position)
        elif wire == _VARINT:
            size = _read_varint(data, position)[1] - position
        elif wire in {_FIXED_64, _FIXED_32}:
            size = 8 if wire == _FIXED_64 else 4
        else:
            raise DatasetError(f"found wire type {wire} in a message, expected a tf.train.Example; {REPAIR}")
        if position + size > len(data):
            raise DatasetError(
                f"a field of the tf.train.Example has {len(data) - position} bytes, expected {size}; {REPAIR}"
            )
        yield number, wire, data[position : position + size]
        position += size


def _messages(data: memoryview, number: int) -> Iterator[memoryview]:
    """Yield the length-delimited fields with a number; others are skipped, as protocol buffers demand."""
    for found, wire, content in _fields(data):
        if found == number and wire == _LENGTH_DELIMITED:
            yield content


def _features(payload: memoryview) -> dict[str, memoryview]:
    """Return the features of an Example by name: Example.features.feature is a map."""
    found: dict[str, memoryview] = {}
    for features in _messages(payload, 1):
        for entry in _messages(features, 1):
            names, values = list(_messages(entry, 1)), list(_messages(entry, 2))
            if names and values:
                found[bytes(names[-1]).decode("utf-8", "replace")] = values[-1]
    return found


def _bytes_value(feature: memoryview) -> memoryview:
    values = [value for values in _messages(feature, _BYTES_LIST) for value in _messages(values, 1)]
    if len(values) != 1:
        raise DatasetError(f"feature x: found {len(values)} byte strings, expected 1; {REPAIR}")
    return values[0]


def _float_values(feature: memoryview) -> Targets:
    """Return the numbers of a FloatList; writers may pack them or not."""
    raw = b"".join(
        bytes(content)
        for values in _messages(feature, _FLOAT_LIST)
        for number, wire, content in _fields(values)
        if number == 1 and wire in {_LENGTH_DELIMITED, _FIXED_32}
    )
    if len(raw) % struct.calcsize("<f"):
        raise DatasetError(f"feature y: found {len(raw)} bytes, expected a multiple of 4; {REPAIR}")
    return np.frombuffer(raw, "<f4").astype(np.float32)
