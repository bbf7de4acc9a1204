"""tf.train.Example without TensorFlow: TensorFlow reads what we write, and we read what it writes."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from hpcai.core.errors import DatasetError
from hpcai.data.example import decode_example, encode_example

NUMBERS = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4).map(lambda some: np.array(some, np.int64))
FLOATS = st.lists(st.floats(width=32), max_size=4).map(lambda some: np.array(some, np.float32))
FEATURES = st.dictionaries(st.text(max_size=9), NUMBERS | FLOATS | st.lists(st.binary(max_size=200)), max_size=4)


def plain(values):
    return values if isinstance(values, list) else [values.dtype, values.tobytes()]


@given(FEATURES)
def test_tensorflow_reads_it_and_it_reads_tensorflow(features):
    theirs = tf.train.Example.FromString(encode_example(features))
    assert set(theirs.features.feature) == set(features)
    again = decode_example(memoryview(theirs.SerializeToString()))
    assert {name: plain(again[name]) for name in features} == {name: plain(value) for name, value in features.items()}


def test_features_keep_their_order():
    features = {"b": b"1", "a": b"2", "c": np.array([3])}
    assert list(decode_example(encode_example(features))) == ["b", "a", "c"]
    assert encode_example(features) != encode_example(dict(sorted(features.items())))


def test_numbers_that_are_not_packed_are_read():
    floats = b"\x0d\x00\x00\x80\x3f\x0d\x00\x00\x00\x40"  # field 1 as fixed 32-bit numbers: 1, 2
    feature = b"\x12" + bytes([len(floats)]) + floats
    entry = b"\x0a\x01y\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    assert decode_example(b"\x0a" + bytes([len(features)]) + features)["y"].tolist() == [1.0, 2.0]


def test_what_is_damaged_or_no_number_is_refused():
    whole = encode_example({"x": bytes(300)})
    for place in range(1, len(whole)):
        with pytest.raises(DatasetError, match="copy the file again"):
            decode_example(whole[:place])
    with pytest.raises(DatasetError, match=r"feature z: .*complex128"):
        encode_example({"z": np.array([1j])})
