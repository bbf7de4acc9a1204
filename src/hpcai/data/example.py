"""tf.train.Example messages without TensorFlow, so that no data job has to import it.

The protocol-buffer message (tensorflow/core/example/example.proto) is small enough to be written and read here. An
Example is a map from names to features, each a list of byte strings, of float32 or of int64 numbers.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError

Feature = bytes | Sequence[bytes] | NDArray[np.generic]
Decoded = list[bytes] | NDArray[np.float32] | NDArray[np.int64]
REPAIR = "copy the file again, or make the dataset again"
_VARINT, _FIXED_64, _LENGTH_DELIMITED, _FIXED_32 = 0, 1, 2, 5
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3


def encode_example(features: Mapping[str, Feature]) -> bytes:
    """Return features as the bytes of a tf.train.Example; equal features in equal order give equal bytes.

    Parameters
    ----------
    features
        By name: bytes or a list of them, an array of floats (stored as float32) or of integers (stored as int64).

    Raises
    ------
    DatasetError
        If an array holds something else.
    """
    entries = (
        _field(1, _field(1, name.encode()) + _field(2, _encode(name, value))) for name, value in features.items()
    )
    return _field(1, b"".join(entries))


def _encode(name: str, value: Feature) -> bytes:
    if isinstance(value, bytes):
        value = [value]
    if not isinstance(value, np.ndarray):
        return _field(_BYTES_LIST, b"".join(_field(1, item) for item in value))
    flat = value.ravel()
    if np.issubdtype(flat.dtype, np.floating):
        return _field(_FLOAT_LIST, _field(1, flat.astype("<f4").tobytes()) if flat.size else b"")
    if np.issubdtype(flat.dtype, np.integer):
        packed = b"".join(_varint(int(number) & 0xFFFFFFFFFFFFFFFF) for number in flat)
        return _field(_INT64_LIST, _field(1, packed) if flat.size else b"")
    raise DatasetError(f"feature {name}: found an array of {flat.dtype}, expected floats or integers")


def decode_example(payload: bytes | memoryview) -> dict[str, Decoded]:
    """Return the features of a tf.train.Example by name.

    Returns
    -------
    dict
        A list of byte strings, or a float32 or int64 array of one dimension. A feature that holds nothing at all is an
        empty list.

    Raises
    ------
    DatasetError
        If the message is damaged.
    """
    found: dict[str, Decoded] = {}
    for features in _messages(memoryview(payload), 1):
        for entry in _messages(features, 1):
            names, values = list(_messages(entry, 1)), list(_messages(entry, 2))
            if names and values:
                name = bytes(names[-1]).decode("utf-8", "replace")
                found[name] = _decode(name, values[-1])
    return found


def _decode(name: str, feature: memoryview) -> Decoded:
    for kind, wire, values in _fields(feature):
        if wire != _LENGTH_DELIMITED:
            continue
        if kind == _BYTES_LIST:
            return [bytes(value) for value in _messages(values, 1)]
        if kind == _FLOAT_LIST:
            return _floats(name, values)
        if kind == _INT64_LIST:
            return _integers(values)
    return []


def _floats(name: str, values: memoryview) -> NDArray[np.float32]:
    """Return the numbers of a FloatList; writers may pack them or not."""
    kinds = {_LENGTH_DELIMITED, _FIXED_32}
    raw = b"".join(bytes(content) for number, wire, content in _fields(values) if number == 1 and wire in kinds)
    if len(raw) % 4:
        raise DatasetError(f"feature {name}: found {len(raw)} bytes of float32, expected a multiple of 4; {REPAIR}")
    return np.frombuffer(raw, "<f4").astype(np.float32)


def _integers(values: memoryview) -> NDArray[np.int64]:
    """Return the numbers of an Int64List; writers may pack them or not."""
    kinds = {_LENGTH_DELIMITED, _VARINT}
    numbers: list[int] = []
    for number, wire, content in _fields(values):
        position = 0
        while number == 1 and wire in kinds and position < len(content):
            value, position = _read_varint(content, position)
            numbers.append(value)
    return np.array(numbers, np.uint64).astype(np.int64)


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
            return value & 0xFFFFFFFFFFFFFFFF, position
    raise DatasetError(f"the tf.train.Example ends, or is damaged, at byte {position} of {len(data)}; {REPAIR}")


def _fields(data: memoryview) -> Iterator[tuple[int, int, memoryview]]:
    """Yield number, wire type and content of the fields of a message; the content of a varint is its own bytes."""
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
