"""Both HDF5 containers refuse data stored elsewhere, and data never written."""

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from unit.refusals import refused
from unit.workloads.deepcam.data.deepcam_frames import arrays, module, write_statistics

from hpcai.core.errors import DatasetError
from hpcai.data.hdf5 import A_LINK, stored_dataset
from hpcai.workloads.deepcam.data.statistics import read_statistics
from hpcai.workloads.extreme_weather.data.container import YearShape, read_year

YEAR = YearShape(frames=2, height=8, width=8)
Values = np.ndarray
Write = Callable[[h5py.File, str, Values, Path], None]


def external_link(file: h5py.File, name: str, values: Values, beside: Path) -> None:
    with h5py.File(beside, "w") as other:
        other["values"] = values
    file[name] = h5py.ExternalLink(str(beside), "/values")


def soft_link(file: h5py.File, name: str, values: Values, beside: Path) -> None:
    external_link(file, "outside", values, beside)
    file[name] = h5py.SoftLink("/outside")


def virtual_dataset(file: h5py.File, name: str, values: Values, beside: Path) -> None:
    with h5py.File(beside, "w") as other:
        other["values"] = values
    layout = h5py.VirtualLayout(values.shape, values.dtype)
    layout[...] = h5py.VirtualSource(str(beside), "values", values.shape)
    file.create_virtual_dataset(name, layout)


def external_storage(file: h5py.File, name: str, values: Values, beside: Path) -> None:
    beside.write_bytes(values.tobytes())
    file.create_dataset(name, values.shape, values.dtype, external=[(str(beside), 0, values.nbytes)])


def never_written(file: h5py.File, name: str, values: Values, beside: Path) -> None:
    file.create_dataset(name, values.shape, values.dtype)


def half_written(file: h5py.File, name: str, values: Values, beside: Path) -> None:
    dataset = file.create_dataset(name, values.shape, values.dtype, chunks=(1, *values.shape[1:]), compression="gzip")
    dataset[: len(values) // 2] = values[: len(values) // 2]


WAYS: tuple[Write, ...] = (
    external_link, soft_link, virtual_dataset, external_storage, never_written, half_written,
)  # fmt: skip


def year_arrays() -> dict[str, Values]:
    return {"images": np.ones(YEAR.images, np.float32), "boxes": np.full(YEAR.boxes, -1, np.int32)}


def write(path: Path, datasets: dict[str, Values], name: str, way: Write) -> Path:
    """Write datasets, one of them in the given way."""
    with h5py.File(path, "w") as file:
        for other, values in datasets.items():
            if other != name:
                file[other] = values
        way(file, name, datasets[name], path.with_suffix(".elsewhere"))
    return path


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["images", "boxes"])
def test_a_year(tmp_path: Path, name: str, way: Write) -> None:
    file = write(tmp_path / "climo_1979.h5", year_arrays(), name, way)
    with pytest.raises(DatasetError, match=f"{file}: /{name}: found "):
        list(read_year(file, YEAR))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["climate/data", "climate/labels_0"])
def test_a_frame(tmp_path: Path, name: str, way: Write) -> None:
    file = write(tmp_path / "data-1.h5", arrays(), name, way)
    with pytest.raises(DatasetError, match=f"{file}: /{name}: found "):
        module().examine(file)


def test_a_group_elsewhere(tmp_path: Path) -> None:
    write_statistics(tmp_path / "other.h5")
    with h5py.File(tmp_path / "stats.h5", "w") as file:
        file["climate"] = h5py.ExternalLink("other.h5", "/climate")
    with refused(DatasetError, A_LINK, place=f"{tmp_path / 'stats.h5'}: /climate", link="an external link"):
        read_statistics(tmp_path / "stats.h5")


@pytest.mark.parametrize("chunks", [None, (3, 4), (5, 7), True])
def test_what_is_written_whole_is_read(tmp_path: Path, chunks: object) -> None:
    """Chunks at the border extend beyond it."""
    values = np.arange(70).reshape(10, 7)
    with h5py.File(tmp_path / "file.h5", "w") as file:
        file.create_dataset("group/values", data=values, chunks=chunks)
        file.create_dataset("number", data=5)
        file["again"] = file["group/values"]
    with h5py.File(tmp_path / "file.h5") as file:
        for name in ("group/values", "again"):
            np.testing.assert_array_equal(stored_dataset(file, name, tmp_path)[()], values)
        assert stored_dataset(file, "number", tmp_path)[()] == 5
        for name in ("group", "group/other", "other", "number/values"):
            assert stored_dataset(file, name, tmp_path) is None


def test_compact_numbers_lie_in_the_header(tmp_path: Path) -> None:
    layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    layout.set_layout(h5py.h5d.COMPACT)
    with h5py.File(tmp_path / "file.h5", "w") as file:
        space = h5py.h5s.create_simple((3,))
        h5py.Dataset(h5py.h5d.create(file.id, b"values", h5py.h5t.STD_I32LE, space, layout))[...] = [1, 2, 3]
    with h5py.File(tmp_path / "file.h5") as file:
        assert stored_dataset(file, "values", tmp_path)[()].tolist() == [1, 2, 3]
