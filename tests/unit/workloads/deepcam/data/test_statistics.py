"""stats.h5 is read in both layouts, and refused when its values are impossible."""

import re
from pathlib import Path

import numpy as np
import pytest
from unit.refusals import refused
from unit.workloads.deepcam.data.deepcam_frames import hdf5, module, write_statistics

from hpcai.core.errors import DatasetError
from hpcai.workloads.deepcam.data.frame import NO_DATASET
from hpcai.workloads.deepcam.data.statistics import (
    encode_statistics,
    merge_statistics,
    read_statistics,
    summarise_frame,
)

FOUND = {"train": ["train/data-1.h5"], "validation": ["validation/data-1.h5"]}
NUMBERS = np.arange(16, dtype=np.float32)


@pytest.mark.parametrize("place", ["stats.h5", "train/stats.h5"])
def test_both_layouts_are_read(tmp_path: Path, place: str) -> None:
    write_statistics(tmp_path / place)
    assert module().statistics(tmp_path, FOUND) == {
        "minval": tuple(range(16)),
        "maxval": tuple(range(1, 17)),
    }


def test_a_missing_file_is_named_and_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=rf"{re.escape(str(tmp_path))}/stats\.h5: cannot be read.*summarize_data"):
        module().statistics(tmp_path, FOUND)


def changed(channel: int, value: float, values: np.ndarray = NUMBERS) -> np.ndarray:
    other = values.copy()
    other[channel] = value
    return other


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"maxval": None}, "found no dataset climate/maxval"),
        ({"count": None}, "found no dataset climate/count"),
        ({"minval": NUMBERS[:15]}, "climate/minval: found float32 of shape (15,), expected 16 floats"),
        ({"mean": NUMBERS.astype(np.int32)}, "climate/mean: found int32 of shape (16,)"),
        ({"minval": changed(8, np.nan)}, "climate/minval: found nan for T200, expected numbers"),
        ({"maxval": changed(0, np.inf, NUMBERS + 1)}, "climate/maxval: found inf for TMQ"),
        ({"maxval": changed(10, 10.0, NUMBERS + 1)}, "PRECT: found maxval 10 and minval 10"),
        ({"maxval": changed(2, -1.0, NUMBERS + 1)}, "V850: found maxval -1 and minval 2"),
        ({"mean": changed(5, 20.0)}, "QREFHT: found mean 20"),
        ({"sqmean": changed(15, 3.0, (NUMBERS + 0.5) ** 2)}, "ZBOT: found mean 15.5 and sqmean 3"),
        ({"count": 0}, "climate/count: found 0, expected one number of frames"),
        ({"count": [3, 3]}, "climate/count: found [3, 3]"),
    ],
)
def test_statistics_that_cannot_be_true_are_named(tmp_path: Path, changes: dict, message: str) -> None:
    file = write_statistics(tmp_path / "stats.h5", **changes)
    with pytest.raises(DatasetError, match=re.escape(f"{file}: {message}")):
        read_statistics(file)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    file = write_statistics(tmp_path / "stats.h5")
    file.write_bytes(file.read_bytes()[:900])
    with pytest.raises(DatasetError, match="not a complete HDF5 file"):
        read_statistics(file)


def test_statistics_of_frames_are_those_of_their_pixels(tmp_path: Path) -> None:
    frames = np.random.default_rng(1).normal(100, 5, (4, 16, 32, 16)).astype(np.float32)
    parts = [summarise_frame(frame) for frame in frames]
    nested = merge_statistics([merge_statistics(parts[:3]), parts[3]])
    (tmp_path / "stats.h5").write_bytes(encode_statistics(nested))
    found = read_statistics(tmp_path / "stats.h5")
    pixels = frames.reshape(-1, 16).astype(np.float64)
    assert found.count == 4
    np.testing.assert_allclose(found.mean, pixels.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found.sqmean, (pixels**2).mean(0), rtol=1e-6)
    np.testing.assert_array_equal(found.minval, pixels.min(0))
    np.testing.assert_array_equal(found.maxval, pixels.max(0))


def test_a_file_without_the_group_is_named(tmp_path: Path) -> None:
    (tmp_path / "stats.h5").write_bytes(hdf5({"other": 1}))
    with refused(
        DatasetError,
        NO_DATASET,
        missing=" and ".join(f"climate/{name}" for name in ("count", "mean", "sqmean", "minval", "maxval")),
    ):
        read_statistics(tmp_path / "stats.h5")
