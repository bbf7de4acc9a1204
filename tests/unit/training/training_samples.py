"""Hand-written TFRecord files in CosmoFlow's schema."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf


def write_sample(
    path: Path, counts: np.ndarray, targets: Sequence[float], *, gzip: bool = False, copies: int = 1
) -> None:
    """Write one file with ``copies`` equal records."""
    features = {
        "x": tf.train.Feature(bytes_list=tf.train.BytesList(value=[counts.astype("<i2").tobytes()])),
        "y": tf.train.Feature(float_list=tf.train.FloatList(value=targets)),
    }
    example = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), options="GZIP" if gzip else "") as writer:
        for _ in range(copies):
            writer.write(example)


def write_numbered(folder: Path, count: int, *, gzip: bool = False) -> tuple[Path, ...]:
    """Write ``count`` cubes of edge 16 whose first target is their number."""
    paths = tuple(folder / f"univ_ics_test_a0001_{number:03d}.tfrecord" for number in range(count))
    for number, path in enumerate(paths):
        write_sample(path, np.full((16, 16, 16, 4), number), [number, 0, 0, 0], gzip=gzip)
    return paths
