"""A frame as TensorFlow reads it: a tf.train.Example with the same bytes as in the container."""

import numpy as np
from numpy.typing import NDArray

from hpcai.data.example import encode_example

IMAGE, BOXES, IDENTITY = "image", "boxes", "identity"
"""Features: raw little-endian float32 (16, height, width), raw int32 (15, 5), and one int64."""
_IDENTITIES_PER_YEAR = 100_000


def frame_identity(year: int, frame: int) -> int:
    """Return a number that is unique to this frame of the dataset."""
    return year * _IDENTITIES_PER_YEAR + frame


def encode_frame(image: NDArray[np.float32], boxes: NDArray[np.int32], identity: int) -> bytes:
    """Return one frame as the bytes of a tf.train.Example."""
    return encode_example(
        {
            IMAGE: image.astype("<f4", copy=False).tobytes(),
            BOXES: boxes.astype("<i4", copy=False).tobytes(),
            IDENTITY: np.array([identity], np.int64),
        }
    )
