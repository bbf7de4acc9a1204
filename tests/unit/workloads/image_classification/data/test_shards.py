"""The official file names, in one folder and in two."""

from pathlib import Path

import pytest

from hpcai.core.errors import DatasetError
from hpcai.workloads.image_classification.data.shards import find_shards, shard_name

TRAIN = [f"train-0000{number}-of-00003" for number in range(3)]
VALIDATION = ["validation-00000-of-00001"]


def lay(root: Path, names: list[str]) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    return root


def test_names_are_the_official_ones() -> None:
    assert shard_name("train", 0, 1024) == "train-00000-of-01024"
    assert shard_name("validation", 127, 128) == "validation-00127-of-00128"


def test_files_in_one_folder(tmp_path: Path) -> None:
    lay(tmp_path, [*TRAIN, *VALIDATION, "labels.txt", "train-1-of-2"])
    assert find_shards(tmp_path) == {"train": TRAIN, "validation": VALIDATION}


@pytest.mark.parametrize("folder", ["validation", "val"])
def test_files_in_folders_of_the_splits(tmp_path: Path, folder: str) -> None:
    train, validation = [f"train/{name}" for name in TRAIN], [f"{folder}/{name}" for name in VALIDATION]
    lay(tmp_path, [*train, *validation])
    assert find_shards(tmp_path) == {"train": train, "validation": validation}


def test_another_layout(tmp_path: Path) -> None:
    assert find_shards(lay(tmp_path, ["train/a.tfrecord", "validation/b.tfrecord"])) is None
    assert find_shards(lay(tmp_path / "other", ["image.jpeg"])) is None


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (TRAIN, r"no files validation-NNNNN-of-NNNNN"),
        (VALIDATION, r"no files train-NNNNN-of-NNNNN"),
        ([*TRAIN[:1], *TRAIN[2:], *VALIDATION], r"found 2 train files, expected 3: train-00001-of-00003 is missing"),
        ([*TRAIN, "train-00000-of-00001", *VALIDATION], r"found train files of 1 and of 3"),
        ([*TRAIN, "validation-00001-of-00001"], r"validation-00000-of-00001 is missing"),
    ],
)
def test_incomplete_and_mixed_sets(tmp_path: Path, names: list[str], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        find_shards(lay(tmp_path, names))
