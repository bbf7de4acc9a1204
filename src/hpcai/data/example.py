"""tf.train.Example messages (tensorflow/core/example/example.proto) without importing TensorFlow in data jobs.

An Example maps names to features, each a list of byte strings, float32 or int64 numbers. The map is declared as its
wire format, a list of entries, so that features keep their order.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.protobuf import message_class

Feature = bytes | Sequence[bytes] | NDArray[np.generic]
Decoded = list[bytes] | NDArray[np.float32] | NDArray[np.int64]
REPAIR = "copy the file again, or make the dataset again"
MESSAGES = {
    "Example": {"features": (1, "Features")},
    "Features": {"feature": (1, "Entry*")},
    "Entry": {"key": (1, "string"), "value": (2, "Feature")},
    "Feature": {"bytes_list": (1, "BytesList"), "float_list": (2, "FloatList"), "int64_list": (3, "Int64List")},
    "BytesList": {"value": (1, "bytes*")},
    "FloatList": {"value": (1, "float*")},
    "Int64List": {"value": (1, "int64*")},
}


@cache
def _example_class() -> Any:  # noqa: ANN401  a protocol buffer has no static type
    return message_class(MESSAGES, "Example")


def encode_example(features: Mapping[str, Feature]) -> bytes:
    """Encode features as a tf.train.Example; equal features in equal order give equal bytes.

    Parameters
    ----------
    features
        By name: bytes or a list of them, an array of floats (stored as float32) or of integers (stored as int64).
        Store large arrays as bytes: as a list of numbers they take many times as long.

    Raises
    ------
    DatasetError
        If an array has another type.
    """
    example = _example_class()()
    example.features.SetInParent()
    for name, value in features.items():
        kind, items = _items(name, value)
        chosen = getattr(example.features.feature.add(key=name).value, kind)
        chosen.SetInParent()  # even an empty list has its kind
        chosen.value.extend(items)
    return bytes(example.SerializeToString())


def _items(name: str, value: Feature) -> tuple[str, Sequence[Any] | NDArray[Any]]:
    """Return the kind of a feature's list, and its items."""
    if isinstance(value, bytes):
        return "bytes_list", [value]
    if not isinstance(value, np.ndarray):
        return "bytes_list", value
    if np.issubdtype(value.dtype, np.floating):
        return "float_list", value.ravel().astype(np.float32)
    if np.issubdtype(value.dtype, np.integer):
        return "int64_list", value.ravel().astype(np.int64)
    raise DatasetError(f"feature {name}: found an array of {value.dtype}, expected floats or integers")


def decode_example(payload: bytes | memoryview) -> dict[str, Decoded]:
    """Return the features of a tf.train.Example by name.

    Returns
    -------
    dict
        A list of byte strings, or a one-dimensional float32 or int64 array. A feature without any value is an empty
        list.

    Raises
    ------
    DatasetError
        If the message is damaged.
    """
    from google.protobuf.message import DecodeError

    example = _example_class()()
    try:
        example.ParseFromString(payload)
    except DecodeError as error:
        raise DatasetError(f"found {len(payload)} bytes that are no whole tf.train.Example; {REPAIR}") from error
    return {entry.key: _decode(entry.value) for entry in example.features.feature}


def _decode(feature: Any) -> Decoded:  # noqa: ANN401
    if feature.HasField("bytes_list"):
        values: list[bytes] = feature.bytes_list.value[:]
        return values
    # From a list: from a message's field, NumPy takes up to six times as long.
    if feature.HasField("float_list"):
        return np.array(feature.float_list.value[:], np.float32)
    if feature.HasField("int64_list"):
        return np.array(feature.int64_list.value[:], np.int64)
    return []
