"""The official CosmoFlow sample: a tf.train.Example with the cube ``x`` and its four targets ``y``.

Schema from the MLPerf HPC reference, cosmoflow/prepare.py: ``x`` is one bytes feature with little-endian int16 counts,
``y`` a float feature with 4 values.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.example import decode_example, encode_example

OTHER_SIZE = Message(
    "sample.other_size", "found {found_bytes} bytes, expected {expected_bytes} for int16 of shape {shape}; {remedy}"
)
NO_FEATURES = Message(
    "sample.no_features", "found only {found}, expected x (bytes) and y (4 floats) of the official schema; {remedy}"
)

TARGETS = 4
AXES = 4
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
        If a type or shape is wrong.
    """
    if x.dtype != np.int16 or x.ndim != AXES or not x.size:
        raise DatasetError(f"x: found {x.dtype} of shape {x.shape}, expected int16 of shape (edge, edge, edge, 4)")
    if y.dtype != np.float32 or y.shape != (TARGETS,) or not np.isfinite(y).all():
        raise DatasetError(f"y: found {y.dtype} of shape {y.shape}, {y}, expected 4 finite float32 numbers")
    return encode_example({"x": np.ascontiguousarray(x, "<i2").tobytes(), "y": y})


def decode_sample(payload: bytes | memoryview, shape: Sequence[int]) -> tuple[Counts, Targets]:
    """Return the arrays of a tf.train.Example.

    Parameters
    ----------
    payload
        One record.
    shape
        Expected shape of ``x``, (edge, edge, edge, channels).

    Raises
    ------
    DatasetError
        If the message is damaged, a feature is missing, or a shape is wrong.
    """
    features = decode_example(payload)
    if "x" not in features or "y" not in features:
        missing = sorted({"x", "y"} - features.keys())
        raise DatasetError(at(f"feature {' and '.join(missing)}", NO_FEATURES(found=sorted(features), remedy=REPAIR)))
    cubes, y, expected_bytes = features["x"], features["y"], 2 * math.prod(shape)
    if isinstance(cubes, np.ndarray) or len(cubes) != 1:
        raise DatasetError(f"feature x: found {len(cubes)} values, expected 1 byte string; {REPAIR}")
    if len(cubes[0]) != expected_bytes:
        raise DatasetError(
            at(
                "feature x",
                OTHER_SIZE(found_bytes=len(cubes[0]), expected_bytes=expected_bytes, shape=tuple(shape), remedy=REPAIR),
            )
        )
    if not isinstance(y, np.ndarray) or y.dtype != np.float32 or y.shape != (TARGETS,):
        raise DatasetError(f"feature y: found {len(y)} numbers, expected {TARGETS}; {REPAIR}")
    # A sixth of the time of NumPy's, which counts where half a million files are examined.
    if not all(map(math.isfinite, y.tolist())):
        raise DatasetError(f"feature y: found {y.tolist()}, expected finite numbers; {REPAIR}")
    return np.frombuffer(cubes[0], "<i2").reshape(shape), np.asarray(y, np.float32)
