"""The official sample: an HDF5 file with one frame, channels last, and the class of each pixel.

From the MLPerf HPC reference, deepcam/src/deepCam/data/cam_hdf5_dataset.py: ``climate/data`` (height, width, 16)
float32 and ``climate/labels_0`` (height, width) integers; ``climate/labels_1``, by looser thresholds, is not read.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.hdf5 import stored_dataset
from hpcai.workloads.deepcam.settings import CLASSES

NO_HDF5 = Message(
    "frame.no_hdf5", "found {found_bytes} bytes that are not a complete HDF5 file ({reason}), expected one; {remedy}"
)
NO_DATASET = Message(
    "frame.no_dataset", "found no dataset {missing}, expected {expected} of the official layout; {remedy}"
)

CHANNELS = (
    "TMQ", "U850", "V850", "UBOT", "VBOT", "QREFHT", "PS", "PSL",
    "T200", "T500", "PRECT", "TS", "TREFHT", "Z1000", "Z200", "ZBOT",
)  # fmt: skip
"""Order of the last axis: water in the column, winds at 850 hPa and at the bottom, humidity, pressures at the surface
and at sea level, temperatures, precipitation, more temperatures, heights."""
DATA, LABELS, LOOSE_LABELS = "climate/data", "climate/labels_0", "climate/labels_1"
REPAIR = "copy the file again, or make the dataset again"

Frame = NDArray[np.float32]
Labels = NDArray[np.uint8]


def encode_frame(data: Frame, labels: Labels, loose_labels: Labels) -> bytes:
    """Return a frame as the bytes of an HDF5 file; equal frames give equal bytes.

    Parameters
    ----------
    data
        Shape (height, width, 16), float32.
    labels, loose_labels
        Shape (height, width), 0, 1 or 2.
    """
    buffer = BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, values in ((DATA, data), (LABELS, labels), (LOOSE_LABELS, loose_labels)):
            file.create_dataset(name, data=values)
    return buffer.getvalue()


def decode_frame(content: bytes, file: Path, shape: Sequence[int]) -> tuple[Frame, Labels]:
    """Return channels and classes from a file's bytes after checking everything that can be checked.

    Parameters
    ----------
    content
        The whole file.
    file
        Its name, for messages.
    shape
        Expected shape of the channels, (height, width, 16).

    Raises
    ------
    DatasetError
        If it is not an HDF5 file, or a dataset, shape, type or value differs from the official layout.
    """
    data, labels = read_arrays(content, file, (DATA, LABELS))
    _check_shape(data, file, tuple(shape))
    if labels.shape != tuple(shape[:2]):
        raise DatasetError(
            f"{file}: {LABELS}: found shape {labels.shape}, expected {tuple(shape[:2])}, one class per pixel; "
            f"correct the settings height and width, or {REPAIR}"
        )
    _check_values(data, labels, file)
    return np.asarray(data, "<f4"), labels.astype(np.uint8)


def read_arrays(content: bytes, file: Path, names: Sequence[str]) -> list[NDArray[np.generic]]:
    """Return datasets of an HDF5 file.

    Raises
    ------
    DatasetError
        If the file is not HDF5, is damaged, lacks a dataset, or does not hold all of its numbers itself.
    """
    try:
        with h5py.File(BytesIO(content), "r") as opened:
            missing = [name for name in names if stored_dataset(opened, name, file) is None]
            if missing:
                raise DatasetError(
                    at(str(file), NO_DATASET(missing=" and ".join(missing), expected=", ".join(names), remedy=REPAIR))
                )
            return [np.asarray(opened[name][()]) for name in names]
    # h5py raises any of these for errors of the HDF5 library.
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise DatasetError(at(str(file), NO_HDF5(found_bytes=len(content), reason=error, remedy=REPAIR))) from error


def _check_shape(data: NDArray[np.generic], file: Path, expected: tuple[int, ...]) -> None:
    """Refuse a wrong shape; name the layout if it is channels first."""
    if data.shape == expected:
        return
    height, width, channels = expected
    if data.shape == (channels, height, width):
        raise DatasetError(
            f"{file}: {DATA}: found shape {data.shape}, which is NCHW (channels first), expected NHWC (channels last) "
            f"{expected}, as in the official files; transpose the data"
        )
    raise DatasetError(
        f"{file}: {DATA}: found shape {data.shape}, expected {expected}; "
        f"correct the settings height and width, or {REPAIR}"
    )


def _check_values(data: NDArray[np.generic], labels: NDArray[np.generic], file: Path) -> None:
    """Refuse wrong types, non-finite numbers and unknown classes."""
    if data.dtype != np.float32:
        raise DatasetError(f"{file}: {DATA}: found {data.dtype}, expected float32; {REPAIR}")
    if not np.issubdtype(labels.dtype, np.integer):
        raise DatasetError(f"{file}: {LABELS}: found {labels.dtype}, expected integers; {REPAIR}")
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0 or highest >= CLASSES:
        raise DatasetError(
            f"{file}: {LABELS}: found classes from {lowest} to {highest}, expected 0 (background), 1 (tropical "
            f"cyclone) and 2 (atmospheric river); {REPAIR}"
        )
    finite = np.isfinite(data)
    if not finite.all():
        row, column, channel = (int(place[0]) for place in np.nonzero(~finite))
        raise DatasetError(
            f"{file}: {DATA}: found {data[row, column, channel]} at row {row}, column {column} of "
            f"{CHANNELS[channel]}, expected finite numbers; {REPAIR}"
        )
