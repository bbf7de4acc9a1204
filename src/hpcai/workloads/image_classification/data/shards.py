"""The official file names: train-00000-of-01024, validation-00000-of-00128; in one folder or in one for each split."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from hpcai.config.benchmark import SPLITS, Split
from hpcai.core.errors import DatasetError
from hpcai.data.module import Found, files_in, split_folders

_NAMES: dict[Split, re.Pattern[str]] = {split: re.compile(rf"{split}-(\d{{5}})-of-(\d{{5}})") for split in SPLITS}


def shard_name(split: Split, shard: int, shards: int) -> str:
    """Return the name of one of ``shards`` files of a split, counted from 0."""
    return f"{split}-{shard:05d}-of-{shards:05d}"


def find_shards(root: Path) -> Found | None:
    """Return the files of both splits, sorted, relative to ``root``; None if there are none.

    Raises
    ------
    DatasetError
        If a file of a split is missing, or files of several conversions are mixed.
    """
    folders = dict.fromkeys(SPLITS, ".")
    found = _files(root, folders)
    if not any(found.values()) and (separate := split_folders(root)) is not None:
        found = _files(root, separate)
    if not any(found.values()):
        return None
    for split, files in found.items():
        _require_all(root, split, files)
    return found


def _files(root: Path, folders: dict[Split, str]) -> dict[Split, list[str]]:
    return {
        split: files_in(root, folder, lambda name, split=split: bool(_NAMES[split].fullmatch(name)))  # type: ignore[misc]
        for split, folder in folders.items()
    }


def _require_all(root: Path, split: Split, files: Sequence[str]) -> None:
    """Check that the files are number 0 to n - 1 of n."""
    if not files:
        raise DatasetError(
            f"{root}: found no files {split}-NNNNN-of-NNNNN, expected those of both splits; copy the dataset again"
        )
    numbers = [_NAMES[split].fullmatch(PurePosixPath(path).name) for path in files]
    pairs = [(int(match[1]), int(match[2])) for match in numbers if match]
    counts = sorted({count for _, count in pairs})
    if len(counts) > 1:
        raise DatasetError(
            f"{root}: found {split} files of {counts[0]} and of {counts[1]}, expected one set; move the other away"
        )
    missing = sorted(set(range(counts[0])) - {number for number, _ in pairs})
    if missing:
        raise DatasetError(
            f"{root}: found {len(files)} {split} files, expected {counts[0]}: "
            f"{shard_name(split, missing[0], counts[0])} is missing; copy the dataset again"
        )
