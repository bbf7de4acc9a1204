"""Several processes find what one finds, in the same order."""

import os
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest
from unit.data.data_samples import cut, flip_bit, found_in, header, small_cubes, write_split
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data import examine, tfrecord_module
from hpcai.data.manifest import (
    NOT_AS_EXPECTED,
    ODD_FACTS,
    Manifest,
    ManifestHeader,
    make_manifest,
    verify_dataset,
    write_manifest,
)
from hpcai.data.module import finding_of
from hpcai.workloads.extreme_weather.data import module as years_module
from hpcai.workloads.extreme_weather.data.container import NOT_FINITE, YearShape, write_year
from hpcai.workloads.extreme_weather.data.module import ExtremeWeatherDataModule
from hpcai.workloads.extreme_weather.settings import ExtremeWeatherData

FRAMES = 5
YEARS = ExtremeWeatherDataModule(
    ExtremeWeatherData.model_validate(
        {
            "dataset": "small",
            "source": "existing",
            "path": ".",
            "height": 64,
            "width": 64,
            "train_years": (1979, 1980),
            "validation_years": (1984,),
            "train_samples": 2 * FRAMES,
            "validation_samples": FRAMES,
        }
    )
)
YEARS_HEADER = ManifestHeader(
    dataset="small", workload="extreme_weather", source="existing", edition="official", sample_shape=(16, 64, 64)
)


@pytest.fixture(params=["one process", "files of several processes", "groups of files of several processes"])
def processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    several = request.param != "one process"
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(3))
    monkeypatch.setattr(examine, "PROCESSES_FROM_BYTES", 0 if several else 1 << 40)
    monkeypatch.setattr(examine, "_ROUNDS", 2 if "groups" in request.param else 100)
    return request.param


def write_years(root: Path) -> None:
    draw = np.random.default_rng(3)
    for year in (1979, 1980, 1984):
        shape = YearShape(FRAMES, 64, 64)
        images = (1e5 + draw.normal(size=shape.images)).astype(np.float32)
        write_year(root / f"climo_{year}.h5", iter(images), np.full(shape.boxes, -1, np.int32), shape)


def cubes_of(root: Path) -> Manifest:
    calls: list[int] = []
    manifest = make_manifest(header(), small_cubes(), root, found_in(root), calls.append)
    assert sum(calls) == sum(len(files) for files in manifest.splits.values())
    return manifest


def years_of(root: Path) -> Manifest:
    found = YEARS.find(root)
    assert found is not None
    return make_manifest(YEARS_HEADER, YEARS, root, found)


def written(manifest: Manifest, path: Path) -> bytes:
    write_manifest(manifest, path)
    return path.read_bytes()


def test_cubes(tmp_path: Path, processes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_split(tmp_path / "train", 20)
    write_split(tmp_path / "validation", 3, first=50)
    found = cubes_of(tmp_path)
    calls: list[int] = []
    verify_dataset(found, small_cubes(), tmp_path, calls.append)
    assert sum(calls) == 23
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(1))
    assert written(found, tmp_path / "here.json") == written(cubes_of(tmp_path), tmp_path / "there.json")


def test_years(tmp_path: Path, processes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(years_module, "_STEP_FRAMES", 2)
    write_years(tmp_path)
    found = years_of(tmp_path)
    samples = verify_dataset(found, YEARS, tmp_path)
    assert [len(moments) for moments in samples.values()] == [FRAMES] * 3
    whole = {name: YEARS.examine(tmp_path / name) for name in samples}
    assert {entry.path: entry.facts for entry in found.entries} == whole
    names = YEARS.find(tmp_path)
    assert names is not None
    assert found.statistics == YEARS.statistics(tmp_path, names) == YEARS.statistics(tmp_path, names, samples)


def test_damaged_cubes_in_their_order(tmp_path: Path, processes: str) -> None:
    write_split(tmp_path / "train", 20)
    (tmp_path / "validation").mkdir()
    files = sorted((tmp_path / "train").iterdir())
    for number in (17, 3, 11):
        cut(files[number], 4)
    with refused(DatasetError, NOT_AS_EXPECTED, files=3) as caught:
        cubes_of(tmp_path)
    expected = []
    for number in (3, 11, 17):
        with pytest.raises(DatasetError) as single:
            small_cubes().examine(files[number])
        expected.append(f"  {single.value}")
    assert str(caught.value).splitlines()[1:] == expected


@pytest.mark.parametrize(("files", "size_bytes"), [(1, 1 << 20), (4, 1 << 20), (32, 1), (32, 1 << 20)])
def test_cubes_that_are_read_together(
    tmp_path: Path, files: int, size_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tfrecord_module, "TOGETHER", files)
    monkeypatch.setattr(tfrecord_module, "TOGETHER_BYTES", size_bytes)
    write_split(tmp_path / "train", 10)
    paths = sorted((tmp_path / "train").iterdir())
    cut(paths[4], 4)
    paths[6].unlink()
    expected = [repr(finding_of(partial(small_cubes().examine, path))) for path in paths]
    names = [f"train/{path.name}" for path in paths]
    assert list(map(repr, small_cubes().examine_together(tmp_path, names))) == expected
    found = small_cubes().examine_together(tmp_path, names[4:7])
    assert [isinstance(one, DatasetError) for one in found] == [True, False, True]


@pytest.mark.parametrize("harm", ["frames", "tail", "bytes"])
def test_damaged_years_in_their_order(
    tmp_path: Path, processes: str, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(years_module, "_STEP_FRAMES", 2)
    write_years(tmp_path)
    files = [tmp_path / f"climo_{year}.h5" for year in (1980, 1984)]
    for file in files:
        if harm == "frames":
            with h5py.File(file, "r+") as opened:
                for frame in (4, 3):
                    opened["images"][frame, 2] = np.nan
        elif harm == "tail":
            cut(file, 5000)
        else:
            flip_bit(file, file.stat().st_size // 2)
    with refused(DatasetError, NOT_AS_EXPECTED, files=2) as caught:
        years_of(tmp_path)
    expected = []
    for file in files:
        with pytest.raises(DatasetError) as single:
            YEARS.examine(file)
        assert harm != "frames" or ("frame 3" in str(single.value) and single.value.code == NOT_FINITE.code)
        expected.append(f"  {single.value}")
    assert str(caught.value).splitlines()[1:] == expected


@pytest.mark.parametrize("name", ["a\nb.tfrecord", "a\udcffb.tfrecord"])
def test_a_name_that_no_manifest_may_have(tmp_path: Path, processes: str, name: str) -> None:
    write_split(tmp_path / "train", 4)
    (tmp_path / "validation").mkdir()
    file = min((tmp_path / "train").iterdir())
    file.rename(file.with_name(name))
    with refused(DatasetError, NOT_AS_EXPECTED, files=1) as caught:
        cubes_of(tmp_path)
    assert ODD_FACTS.find_in(str(caught.value))
