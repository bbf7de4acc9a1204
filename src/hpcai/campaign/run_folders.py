"""Folders of the planned and existing measurements of a results folder."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcai.campaign.controller_note import PlannedPoint
from hpcai.measure.publish import REPETITION
from hpcai.records.files import DISCARDED

SCALE = re.compile(r"n\d+x\d+")
NAMED = {"runs": "timed runs", "profiles": "profiles", "weak": "weak groups"}
"""Subfolders of a results folder that hold measurements, and their display names."""
DEPTHS = {"runs": 4, "profiles": 5, "weak": 3}
"""Depth below these of the folder claimed by one supervisor."""


@dataclass(frozen=True)
class RunFolder:
    """The folder of one timed run, of one profiled run, or of one weak-scaling group."""

    results: Path
    name: str
    """Relative to the results folder."""
    instances: int | None = None
    """Number of instances of a planned weak-scaling group."""
    run_limit_s: float | None = None

    @property
    def path(self) -> Path:
        """The folder itself."""
        return self.results / self.name

    @property
    def stage(self) -> str:
        """What kind of measurement it is: a key of :data:`NAMED`."""
        return self.name.partition("/")[0]

    @property
    def point(self) -> str:
        """The part of the name shared by all repetitions."""
        return self.name if self.stage == "weak" else self.name.rpartition("/")[0]


def planned_folders(results: Path, points: Iterable[PlannedPoint]) -> dict[str, RunFolder]:
    """Return the folders of all planned measurements, by name."""
    folders = {}
    for point in points:
        instances = point.repetitions if point.kind == "weak" else None
        for name in point.folders():
            folders[name] = RunFolder(results, name, instances, point.run_limit_s)
    return folders


def present_folders(results: Path) -> list[str]:
    """Return the names of all existing measurements, without those set aside."""
    return [
        name
        for stage, depth in DEPTHS.items()
        for name in sorted(_below(results / stage, stage, depth))
        if (SCALE if stage == "weak" else REPETITION).fullmatch(name.rpartition("/")[2])
    ]


def discarded_folders(results: Path) -> list[str]:
    """Return the names of all measurements set aside by ``hpcai discard``."""
    return [
        name
        for stage, depth in DEPTHS.items()
        for parent_depth in range(1, depth)
        for parent in _below(results / stage, stage, parent_depth)
        for name in _children(results / parent / DISCARDED, f"{parent}/{DISCARDED}")
    ]


def _below(folder: Path, name: str, depth: int) -> Iterator[str]:
    for child in _children(folder, name):
        if depth == 1:
            yield child
        else:
            yield from _below(folder / child.rpartition("/")[2], child, depth - 1)


def _children(folder: Path, name: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [f"{name}/{entry.name}" for entry in entries if entry.is_dir() and entry.name != DISCARDED]
    except (FileNotFoundError, NotADirectoryError):
        return []
