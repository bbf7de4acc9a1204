import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from unit.data.data_samples import SHAPE, sample_bytes
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data.tfrecord import write_records
from hpcai.workloads.cosmoflow.data.sample import NO_FEATURES, OTHER_SIZE, decode_sample, encode_sample

FLOATS = st.floats(-1, 1, width=32)


@given(hnp.arrays(np.int16, (2, 2, 2, 4)), hnp.arrays(np.float32, (4,), elements=FLOATS))
def test_round_trip(x, y):
    found_x, found_y = decode_sample(encode_sample(x, y), (2, 2, 2, 4))
    np.testing.assert_array_equal(found_x, x)
    np.testing.assert_array_equal(found_y, y)


@pytest.mark.parametrize("compress", [True, False])
def test_tensorflow_reads_it(tmp_path, compress):
    import tensorflow as tf

    x = np.arange(16 * 16 * 16 * 4, dtype=np.int16).reshape(16, 16, 16, 4)
    y = np.array([-1, -0.5, 0.25, 1], np.float32)
    write_records(tmp_path / "a.tfrecord", [encode_sample(x, y)], compress=compress)
    records = tf.data.TFRecordDataset(str(tmp_path / "a.tfrecord"), compression_type="GZIP" if compress else "")
    features = {"x": tf.io.FixedLenFeature([], tf.string), "y": tf.io.FixedLenFeature([4], tf.float32)}
    parsed = tf.io.parse_single_example(records.get_single_element(), features)
    np.testing.assert_array_equal(tf.reshape(tf.io.decode_raw(parsed["x"], tf.int16), x.shape), x)
    np.testing.assert_array_equal(parsed["y"], y)


def test_it_reads_what_tensorflow_writes():
    import tensorflow as tf

    counts = np.arange(32, dtype="<i2")
    features = {
        "other": tf.train.Feature(int64_list=tf.train.Int64List(value=[1, 2])),
        "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[counts.tobytes()])),
        "y": tf.train.Feature(float_list=tf.train.FloatList(value=[0, 0.5, -0.5, 1])),
    }
    payload = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    x, y = decode_sample(payload, (2, 2, 2, 4))
    assert x.ravel().tolist() == counts.tolist()
    assert y.tolist() == [0, 0.5, -0.5, 1]


def test_wrong_samples_are_refused():
    x, y = np.zeros(SHAPE, np.int16), np.zeros(4, np.float32)
    with pytest.raises(DatasetError, match="x: found int32"):
        encode_sample(x.astype(np.int32), y)
    with pytest.raises(DatasetError, match="y: found float32 of shape \\(3,\\)"):
        encode_sample(x, y[:3])
    with pytest.raises(DatasetError, match="nan"):
        encode_sample(x, np.full(4, np.nan, np.float32))
    with refused(DatasetError, OTHER_SIZE, place="feature x", found_bytes=4096, expected_bytes=32768):
        decode_sample(sample_bytes(1), (16, 16, 16, 4))
    with refused(DatasetError, NO_FEATURES, place="feature x and y"):
        decode_sample(b"", SHAPE)


@given(st.binary(max_size=60))
def test_garbage_is_a_dataset_error(data):
    with pytest.raises(DatasetError):
        decode_sample(data, SHAPE)
