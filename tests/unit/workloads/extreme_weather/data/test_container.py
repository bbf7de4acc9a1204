"""The official container reads back what it wrote, and each kind of damage raises an error that names it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.workloads.extreme_weather.data import container
from hpcai.workloads.extreme_weather.data.container import (
    CHANNELS,
    CHANNELS_LAST,
    NO_DATASETS,
    NO_HDF5,
    NOT_FINITE,
    YearShape,
    check_boxes,
    read_year,
    write_year,
)

SHAPE = YearShape(frames=3, height=32, width=64)
BOX = [4, 8, 20, 40, 2]


def content() -> tuple[np.ndarray, np.ndarray]:
    images = np.random.default_rng(1).normal(size=SHAPE.images).astype(np.float32)
    boxes = np.full(SHAPE.boxes, -1, np.int32)
    boxes[1, 0] = BOX
    return images, boxes


@pytest.fixture
def year(tmp_path: Path) -> Path:
    images, boxes = content()
    write_year(tmp_path / "climo_1979.h5", iter(images), boxes, SHAPE)
    return tmp_path / "climo_1979.h5"


def read(path: Path, shape: YearShape = SHAPE) -> list[Any]:
    return list(read_year(path, shape))


def change(path: Path, edit: Callable[[h5py.File], None]) -> None:
    with h5py.File(path, "r+") as file:
        edit(file)


def replace(path: Path, name: str, values: np.ndarray) -> None:
    def edit(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, data=values, compression="gzip")

    change(path, edit)


def test_what_is_written_is_read(year: Path) -> None:
    images, boxes = content()
    frames = read(year)
    assert len(frames) == SHAPE.frames
    assert (np.stack([image for image, _ in frames]) == images).all()
    assert (np.stack([rows for _, rows in frames]) == boxes).all()
    with h5py.File(year) as file:
        assert file["images"].dtype == np.float32
        assert file["boxes"].dtype == np.int32
        assert {file[name].compression for name in ("images", "boxes")} == {"gzip"}


def test_equal_content_gives_equal_bytes(year: Path, tmp_path: Path) -> None:
    images, boxes = content()
    write_year(tmp_path / "again.h5", iter(images), boxes, SHAPE)
    assert (tmp_path / "again.h5").read_bytes() == year.read_bytes()


def test_chunks_of_many_frames_are_read_together(year: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, _ = content()

    def edit(file: h5py.File) -> None:
        del file["images"]
        file.create_dataset("images", data=images, chunks=(3, 1, 32, 64), compression="gzip")

    change(year, edit)
    whole = read(year)
    with h5py.File(year) as file:
        assert container._frames_together(file["images"]) == 3
        monkeypatch.setattr(container, "_SLAB_BYTES", 2 * images[0].nbytes)
        assert container._frames_together(file["images"]) == 2
    assert all((one[0] == other[0]).all() for one, other in zip(whole, read(year), strict=True))


def test_channels_last_is_named(year: Path) -> None:
    replace(year, "images", content()[0].transpose(0, 2, 3, 1))
    with refused(DatasetError, CHANNELS_LAST, place=f"{year}: /images"):
        read(year)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("images", np.zeros((3, 16, 32, 32), np.float32), r"expected float32 of shape \(3, 16, 32, 64\)"),
        ("images", np.zeros((3, 15, 32, 64), np.float32), r"expected float32 of shape"),
        ("images", np.zeros((2, 16, 32, 64), np.float32), r"expected float32 of shape"),
        ("images", np.zeros((3, 16, 32, 64), np.float64), r"found float64"),
        ("boxes", np.full((3, 15, 4), -1, np.int32), r"expected int32 of shape \(3, 15, 5\)"),
        ("boxes", np.full((3, 15, 5), -1, np.int64), r"found int64"),
    ],
)
def test_wrong_shapes_and_types(year: Path, name: str, values: np.ndarray, message: str) -> None:
    replace(year, name, values)
    with pytest.raises(DatasetError, match=message):
        read(year)


@pytest.mark.parametrize("name", ["images", "boxes"])
def test_missing_dataset(year: Path, name: str) -> None:
    change(year, lambda file: file.__delitem__(name))
    with refused(DatasetError, NO_DATASETS):
        read(year)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite(year: Path, value: float) -> None:
    change(year, lambda file: file["images"].__setitem__((1, 6, 3, 4), value))
    with refused(DatasetError, NOT_FINITE, place=f"{year}: /images: frame 1: channel TMQ", values=1):
        read(year)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([4, 8, 20, 40, 4], "expected a class of 0 to 3"),
        ([4, 8, 20, 40, -1], "expected a class of 0 to 3"),
        ([-1, -1, -1, -1, 0], "expected ymin < ymax"),
        ([20, 8, 4, 40, 1], "expected ymin < ymax"),
        ([4, 40, 20, 40, 1], "xmin < xmax"),
        ([4, 8, 33, 40, 1], "expected a box inside the image of 32 rows and 64 columns"),
        ([8, 4, 20, 65, 1], "inside the image"),
        ([-2, 8, 20, 40, 1], "inside the image"),
    ],
)
def test_wrong_boxes(year: Path, row: list[int], message: str) -> None:
    change(year, lambda file: file["boxes"].__setitem__((2, 3), row))
    with pytest.raises(DatasetError, match=rf"/boxes: frame 2: box 3: found \[.*{message}"):
        read(year)


def test_a_box_may_touch_the_border() -> None:
    rows = np.full((15, 5), -1, np.int32)
    rows[0] = [0, 0, 32, 64, 3]
    check_boxes("here", rows, (32, 64))


def test_files_that_hdf5_cannot_read(year: Path, tmp_path: Path) -> None:
    whole = year.read_bytes()
    damaged = tmp_path / "climo_1980.h5"
    with pytest.raises(DatasetError, match="no such file"):
        read(damaged)
    for data in (b"", whole[: len(whole) // 2], whole[:-100], b"not HDF5 at all" * 100):
        damaged.write_bytes(data)
        with refused(DatasetError, NO_HDF5, place=str(damaged), found_bytes=len(data)):
            read(damaged)


def test_a_flipped_bit_in_a_compressed_chunk(year: Path) -> None:
    with h5py.File(year) as file:
        chunk = file["images"].id.get_chunk_info(20)
    data = bytearray(year.read_bytes())
    data[chunk.byte_offset + chunk.size // 2] ^= 0x10
    year.write_bytes(data)
    with pytest.raises(DatasetError, match="a flipped bit"):
        read(year)


def test_channels_are_the_published_ones() -> None:
    assert len(CHANNELS) == len(set(CHANNELS)) == 16
    assert CHANNELS[2] == "PSL"
    assert CHANNELS[13] == "Z1000"
