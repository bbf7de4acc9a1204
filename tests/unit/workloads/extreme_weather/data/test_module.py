"""The data module: layouts, facts, conversion and downloads."""

import errno
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.refusals import refused

from hpcai.core.errors import DatasetError
from hpcai.data.catalogue import Archive
from hpcai.data.example import decode_example
from hpcai.data.module import CHANGED_FILE
from hpcai.data.tfrecord import FRAME_BYTES, Content, split_records
from hpcai.workloads.extreme_weather.data.container import OTHER_SHAPE, YearShape, read_year, write_year
from hpcai.workloads.extreme_weather.data.module import NO_ROOM, YEARS_MISSING, ExtremeWeatherDataModule
from hpcai.workloads.extreme_weather.data.sample import frame_identity
from hpcai.workloads.extreme_weather.settings import ExtremeWeatherData

SETTINGS: dict[str, Any] = {
    "dataset": "small",
    "source": "generate",
    "height": 64,
    "width": 64,
    "train_years": (1979, 1980),
    "validation_years": (1984,),
    "train_samples": 4,
    "validation_samples": 3,
}
MODULE = ExtremeWeatherDataModule(ExtremeWeatherData.model_validate(SETTINGS))
YEARS = ("climo_1979.h5", "climo_1980.h5", "climo_1984.h5")


def write(path: Path, frames: int = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    shape = YearShape(frames, 64, 64)
    images = np.random.default_rng(int(path.stem[-4:])).normal(size=shape.images).astype(np.float32)
    boxes = np.full(shape.boxes, -1, np.int32)
    boxes[0, 0] = [1, 2, 30, 40, 3]
    write_year(path, iter(images), boxes, shape)
    return path


def test_flat_layout(tmp_path: Path) -> None:
    assert MODULE.find(tmp_path) is None
    for name in (*YEARS, "climo_1990.h5"):
        (tmp_path / name).touch()
    assert MODULE.find(tmp_path) == {"train": list(YEARS[:2]), "validation": [YEARS[2]]}


@pytest.mark.parametrize("folder", ["validation", "val"])
def test_folders(tmp_path: Path, folder: str) -> None:
    for place, name in zip(("train", "train", folder), YEARS, strict=True):
        (tmp_path / place).mkdir(exist_ok=True)
        (tmp_path / place / name).touch()
    assert MODULE.find(tmp_path) == {
        "train": ["train/climo_1979.h5", "train/climo_1980.h5"],
        "validation": [f"{folder}/climo_1984.h5"],
    }


def test_a_missing_year_is_named(tmp_path: Path) -> None:
    for name in YEARS[::2]:
        (tmp_path / name).touch()
    with refused(DatasetError, YEARS_MISSING, found=2, years=3, missing="climo_1980.h5"):
        MODULE.find(tmp_path)


def test_facts_and_members(tmp_path: Path) -> None:
    file = write(tmp_path / "climo_1984.h5", 3)
    facts = MODULE.examine(file)
    assert (facts.bytes, facts.records) == (file.stat().st_size, 3)
    assert (facts.content_bytes, facts.content_crc32c) == (facts.bytes, facts.crc32c)
    members = list(MODULE.members(file, facts))
    assert [member.name for member in members] == [f"climo_1984_000{n}.tfrecord" for n in range(3)]
    frames = list(read_year(file, YearShape(3, 64, 64)))
    for number, (member, (image, boxes)) in enumerate(zip(members, frames, strict=True)):
        (payload,) = split_records(Content(member.content), member.name)
        assert len(payload) + FRAME_BYTES == len(member.content)
        assert member.record_offsets == (0,)
        features = decode_example(payload)
        assert features["image"] == [image.tobytes()]
        assert features["boxes"] == [boxes.tobytes()]
        assert features["identity"].tolist() == [frame_identity(1984, number)]


def test_identities_are_unique() -> None:
    identities = {frame_identity(year, frame) for year in (1979, 1980) for frame in (0, 1, 1459)}
    assert len(identities) == 6


def test_a_file_that_changed_after_its_examination(tmp_path: Path) -> None:
    file = write(tmp_path / "climo_1984.h5", 3)
    facts = MODULE.examine(file)
    file.write_bytes(file.read_bytes() + b"\0")
    with refused(DatasetError, CHANGED_FILE):
        next(MODULE.members(file, facts))


def test_too_few_frames(tmp_path: Path) -> None:
    with refused(DatasetError, OTHER_SHAPE, found_shape=(2, 16, 64, 64), expected_shape=(3, 16, 64, 64)):
        MODULE.examine(write(tmp_path / "climo_1984.h5", 2))


def test_statistics_are_of_the_training_years(tmp_path: Path) -> None:
    files = [write(tmp_path / name, 3 if name == YEARS[2] else 2) for name in YEARS]
    found = MODULE.find(tmp_path)
    assert found is not None
    images = np.stack([image for file in files[:2] for image, _ in read_year(file, YearShape(2, 64, 64))])
    statistics = MODULE.statistics(tmp_path, found)
    np.testing.assert_allclose(statistics["mean"], images.astype(np.float64).mean(axis=(0, 2, 3)), rtol=1e-9)
    assert len(statistics["standard_deviation"]) == 16


def archive(name: str) -> Archive:
    return Archive(dataset=name, file=f"{name}.h5", url=f"https://example.org/{name}.h5", format="file")


def test_downloads_are_linked(tmp_path: Path) -> None:
    (tmp_path / "fetched.part").write_bytes(b"content")
    (tmp_path / "folder").mkdir()
    MODULE.arrange([(archive("climo_1979"), tmp_path / "fetched.part")], tmp_path / "folder", 0)
    assert (tmp_path / "folder" / "climo_1979.h5").stat().st_ino == (tmp_path / "fetched.part").stat().st_ino


def test_downloads_are_copied_where_links_are_impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    for name in ("climo_1979", "climo_1980"):
        (tmp_path / name).write_bytes(b"content")
    folder = tmp_path / "folder"
    folder.mkdir()
    pairs = [(archive(name), tmp_path / name) for name in ("climo_1979", "climo_1980")]
    MODULE.arrange(pairs, folder, 14)
    assert [path.read_bytes() for path in sorted(folder.iterdir())] == [b"content"] * 2
    for path in folder.iterdir():
        path.unlink()
    with refused(DatasetError, NO_ROOM, free_bytes=6, file="climo_1980", needed_bytes=7):
        MODULE.arrange(pairs, folder, 13)
