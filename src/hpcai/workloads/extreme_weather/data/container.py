"""The official container: one HDF5 file per year with fields and boxes (Racah et al. 2017, NeurIPS 30).

``/images`` has the shape (frames, 16, height, width), float32 in physical units; ``/boxes`` has (frames, 15, 5), int32
rows ``ymin, xmin, ymax, xmax, class`` in pixels. Unused rows hold -1 throughout. Both are gzip-compressed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.hdf5 import stored_dataset

NO_DATASETS = Message("container.no_datasets", "found {found}, expected the datasets /images and /boxes; {remedy}")
NOT_FINITE = Message("container.not_finite", "found {values} non-finite values, expected none; {remedy}")
NO_HDF5 = Message(
    "container.no_hdf5",
    "found {found_bytes} bytes that HDF5 cannot read ({reason}), expected a whole HDF5 file: a flipped bit, or "
    "its tail is cut; {remedy}",
)
CHANNELS_LAST = Message(
    "container.channels_last",
    "found the layout NHWC, {found}, expected NCHW, {expected}: channels before rows; transpose the images",
)
OTHER_SHAPE = Message(
    "container.other_shape",
    "found {found_type} of shape {found_shape}, expected {expected_type} of shape {expected_shape}; correct the "
    "benchmark's data section, or convert the file",
)

CHANNELS = (
    "PRECT", "PS", "PSL", "QREFHT", "T200", "T500", "TMQ", "TREFHT",
    "TS", "U850", "UBOT", "V850", "VBOT", "Z1000", "Z200", "ZBOT",
)  # fmt: skip
"""Order of the channels; the dataset's web page prints Z100 for Z1000, its converter and older page do not."""
CLASSES = ("tropical depression", "tropical cyclone", "extratropical cyclone", "atmospheric river")
MAX_BOXES = 15
BOX_FIELDS = 5
UNUSED = -1
_SLAB_BYTES = 1 << 30
"""Memory limit for frames read together; compressed chunks may span many frames."""
_REPAIR = "copy the file again, or make the dataset again"
Images = NDArray[np.float32]
Boxes = NDArray[np.int32]


@dataclass(frozen=True)
class YearShape:
    """Extents of one year's file; height and width in pixels."""

    frames: int
    height: int
    width: int

    @property
    def images(self) -> tuple[int, ...]:
        """Shape of /images."""
        return (self.frames, len(CHANNELS), self.height, self.width)

    @property
    def boxes(self) -> tuple[int, ...]:
        """Shape of /boxes."""
        return (self.frames, MAX_BOXES, BOX_FIELDS)


def write_year(path: Path, images: Iterator[Images], boxes: Boxes, shape: YearShape) -> None:
    """Write one year in the official schema; equal content gives equal bytes.

    Parameters
    ----------
    path
        File to write.
    images
        One field per frame, (16, height, width), in physical units.
    boxes
        Boxes of all frames, (frames, 15, 5).
    shape
        Extents.
    """
    with h5py.File(path, "w", libver="earliest") as file:
        chunk = (1, 1, shape.height, shape.width)
        fields = file.create_dataset(
            "images", shape.images, "<f4", chunks=chunk, compression="gzip", compression_opts=1
        )
        for number, image in enumerate(images):
            fields[number] = image
        file.create_dataset("boxes", data=boxes.astype("<i4"), compression="gzip")


def read_year(path: Path, shape: YearShape, numbers: range | None = None) -> Iterator[tuple[Images, Boxes]]:
    """Yield the frames of a year, checked: a field (16, height, width) and boxes (15, 5).

    Parameters
    ----------
    path
        HDF5 file; only a part of it is in memory at a time.
    shape
        Expected extents.
    numbers
        Adjacent frames to read; all by default.

    Raises
    ------
    DatasetError
        If anything is wrong; names file, frame and box.
    """
    with _opened(path) as file:
        fields, boxes = (_dataset(path, file, name) for name in ("images", "boxes"))
        _check_layout(path, fields, shape)
        _check(path, boxes, shape.boxes, np.dtype("int32"))
        together = _frames_together(fields)
        first, stop = (numbers.start, numbers.stop) if numbers else (0, shape.frames)
        while first < stop:
            last = min(first + together - first % together, stop)  # whole layers of chunks
            frames = zip(fields[first:last], boxes[first:last], strict=True)
            for number, (image, rows) in enumerate(frames, first):
                _check_field(path, number, image)
                check_boxes(f"{path}: /boxes: frame {number}", rows, (shape.height, shape.width))
                yield image, rows
            first = last
            del frames, image, rows  # otherwise they stay in memory while the next ones are read


def frame_ranges(path: Path, shape: YearShape, least: int) -> list[range]:
    """Return the frames of a year in ranges that can be read apart, so that each chunk is still unpacked once.

    Parameters
    ----------
    path, shape
        HDF5 file, and its expected extents.
    least
        Frames of a range, at least.
    """
    try:
        with _opened(path) as file:
            fields = _dataset(path, file, "images")
            _check_layout(path, fields, shape)
            together = _frames_together(fields)
    except DatasetError:
        together = 1  # reading any range tells what is wrong
    size = together * -(-least // together)
    return [range(first, min(first + size, shape.frames)) for first in range(0, shape.frames, size)]


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """Open an HDF5 file; errors of the library become a DatasetError."""
    if not path.is_file():
        raise DatasetError(f"{path}: found no such file, expected an HDF5 file; {_REPAIR}")
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DatasetError(
            at(str(path), NO_HDF5(found_bytes=path.stat().st_size, reason=reason, remedy=_REPAIR))
        ) from error


def _dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    found = stored_dataset(file, name, path)
    if found is None:
        names = ", ".join(f"/{key}" for key in file) or "nothing"
        raise DatasetError(at(str(path), NO_DATASETS(found=names, remedy=_REPAIR)))
    return found


def _check_layout(path: Path, fields: h5py.Dataset, shape: YearShape) -> None:
    frames, channels, height, width = shape.images
    if fields.shape == (frames, height, width, channels):
        raise DatasetError(at(f"{path}: /images", CHANNELS_LAST(found=fields.shape, expected=shape.images)))
    _check(path, fields, shape.images, np.dtype("float32"))


def _check(path: Path, found: h5py.Dataset, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> None:
    if found.shape != shape or found.dtype != dtype:
        raise DatasetError(
            at(
                f"{path}: {found.name}",
                OTHER_SHAPE(found_type=found.dtype, found_shape=found.shape, expected_type=dtype, expected_shape=shape),
            )
        )


def _frames_together(fields: h5py.Dataset) -> int:
    """Return how many frames to read at once: a whole layer of chunks if it fits, so that each is unpacked once."""
    frame_bytes = int(np.prod(fields.shape[1:])) * fields.dtype.itemsize
    layer = fields.chunks[0] if fields.chunks else 1
    return int(max(1, min(layer, _SLAB_BYTES // frame_bytes)))


def _check_field(path: Path, number: int, image: Images) -> None:
    for name, field in zip(CHANNELS, image, strict=True):
        # A sum over finite float64 numbers is finite, and cheaper than a mask.
        if not np.isfinite(field.sum(dtype=np.float64)):
            raise DatasetError(
                at(
                    f"{path}: /images: frame {number}: channel {name}",
                    NOT_FINITE(values=int((~np.isfinite(field)).sum()), remedy=_REPAIR),
                )
            )


def check_boxes(place: str, rows: Boxes, image: tuple[int, int]) -> None:
    """Check the boxes of one frame.

    Parameters
    ----------
    place
        Name of the frame in messages.
    rows
        Boxes ``ymin, xmin, ymax, xmax, class``, (15, 5).
    image
        Height and width [pixels].

    Raises
    ------
    DatasetError
        If a used row has no area, leaves the image or has a class outside 0..3, or an unused row is not -1 throughout.
    """
    height, width = image
    for index, row in enumerate(rows.tolist()):
        if row == [UNUSED] * BOX_FIELDS:
            continue
        top, left, bottom, right, label = row
        problem = ""
        if not 0 <= label < len(CLASSES):
            problem = f"expected a class of 0 to {len(CLASSES) - 1}, or {UNUSED} in all five fields of an unused row"
        elif not (top < bottom and left < right):
            problem = "expected ymin < ymax and xmin < xmax (order ymin, xmin, ymax, xmax, class)"
        elif min(top, left) < 0 or bottom > height or right > width:
            problem = f"expected a box inside the image of {height} rows and {width} columns"
        if problem:
            raise DatasetError(f"{place}: box {index}: found {row}, {problem}; correct the labels")
