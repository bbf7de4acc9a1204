"""ExtremeWeather's data: one HDF5 file per year, in one folder or in the folders train and validation."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import numpy as np

from hpcai.config.benchmark import SPLITS, Split
from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.catalogue import Archive
from hpcai.data.module import (
    DataModule,
    FileFacts,
    Found,
    Member,
    SampleSizes,
    file_checksum,
    require_unchanged,
    split_folders,
)
from hpcai.data.tfrecord import FRAME_BYTES, encode_records
from hpcai.workloads.extreme_weather.data.container import (
    BOX_FIELDS,
    CHANNELS,
    MAX_BOXES,
    YearShape,
    frame_ranges,
    read_year,
)
from hpcai.workloads.extreme_weather.data.generator import generate_dataset
from hpcai.workloads.extreme_weather.data.sample import encode_frame, frame_identity
from hpcai.workloads.extreme_weather.data.statistics import FrameMoments, channel_statistics, frame_moments
from hpcai.workloads.extreme_weather.settings import ExtremeWeatherData

NO_ROOM = Message(
    "module.no_room",
    "found {free_bytes} bytes free for a copy of {file}, expected {needed_bytes}; free some space, or use a file "
    "system with hard links",
)
YEARS_MISSING = Message(
    "module.years_missing",
    "found {found} of {years} years, expected also {missing}; get the missing files, or correct train_years and "
    "validation_years",
)


_STEP_FRAMES = 8
"""Frames examined together, two to three seconds of work: nine years give all processors of a node enough to do."""


class ExtremeWeatherDataModule(DataModule[ExtremeWeatherData]):
    """Fields of a climate model with the boxes of tropical and extratropical cyclones and atmospheric rivers."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of a frame: (16, height, width)."""
        return (len(CHANNELS), self.settings.height, self.settings.width)

    def split_files(self, split: Split) -> int:
        """Return the number of years of a split."""
        return len(self._names(split))

    def sample_sizes(self) -> SampleSizes:
        """Return the size of a frame; the HDF5 structure of a year is below a thousandth of its arrays."""
        image, boxes = np.zeros(self.sample_shape, np.float32), np.zeros((MAX_BOXES, BOX_FIELDS), np.int32)
        record = encode_frame(image, boxes, frame_identity(1979, 0))
        return SampleSizes(image.nbytes, FRAME_BYTES + len(record), compressed=True)

    def find(self, root: Path) -> Found | None:
        """Return the files of the years, either in the folders of the splits or all in ``root``.

        Raises
        ------
        DatasetError
            If only some of the years are present.
        """
        folders = split_folders(root) or dict.fromkeys(SPLITS, ".")
        wanted = {split: [str(Path(folders[split]) / name) for name in self._names(split)] for split in SPLITS}
        names = [name for split in SPLITS for name in wanted[split]]
        missing = [name for name in names if not (root / name).is_file()]
        if len(missing) == len(names):
            return None
        if missing:
            raise DatasetError(
                at(
                    str(root),
                    YEARS_MISSING(found=len(names) - len(missing), years=len(names), missing=", ".join(missing)),
                )
            )
        return wanted

    def examine(self, file: Path) -> FileFacts:
        """Check container, schema, values and boxes of a year, a few frames at a time."""
        found = [step() for step in self.steps(file)]
        facts: FileFacts = found[0]
        return facts

    def steps(self, file: Path) -> Sequence[Callable[[], Any]]:
        """Return the checksum of a year, then the checks of some frames each, which return their moments."""
        ranges = frame_ranges(file, self._shape(file), _STEP_FRAMES)
        return (partial(self._facts, file), *(partial(self._moments, file, numbers) for numbers in ranges))

    def _facts(self, file: Path) -> FileFacts:
        size, crc = file_checksum(file)
        return FileFacts(size, crc, self._shape(file).frames, size, crc)

    def _moments(self, file: Path, numbers: range) -> list[FrameMoments]:
        # Without a variable that would keep a frame in memory while the next one is read.
        return list(starmap(lambda image, _: frame_moments(image), read_year(file, self._shape(file), numbers)))

    def member_count(self, facts: FileFacts) -> int:
        """Return the number of frames."""
        return facts.records

    def split_members(self, split: Split) -> int:
        """Return the number of frames of a split."""
        return self.settings.samples(split)

    def members(self, file: Path, facts: FileFacts, numbers: range | None = None) -> Iterator[Member]:
        """Yield each frame as a TFRecord file of its own."""
        if numbers is None:
            require_unchanged(file, facts)
        numbers, year = numbers or range(facts.records), _year(file)
        for number, (image, boxes) in zip(numbers, read_year(file, self._shape(file), numbers), strict=True):
            content = encode_records([encode_frame(image, boxes, frame_identity(year, number))])
            yield Member(f"{file.stem}_{number:04d}.tfrecord", content, (0,))

    def statistics(
        self,
        root: Path,
        found: Found,
        examined: Mapping[str, Sequence[Any]] | None = None,
        records: Mapping[Split, Sequence[int]] | None = None,  # noqa: ARG002
    ) -> dict[str, tuple[float, ...]]:
        """Return mean and standard deviation of each channel over the training years."""
        known = examined or {}
        return channel_statistics(
            moments
            for name in found["train"]
            for moments in known.get(name) or self._moments(root / name, range(self._shape(root / name).frames))
        )

    def generate(self, folder: Path) -> dict[str, object]:
        """Write generated years."""
        return generate_dataset(self.settings, folder)

    def arrange(self, archives: Sequence[tuple[Archive, Path]], folder: Path, content_bytes: int) -> None:
        """Put the downloaded files under their official names: as hard links, or as copies if links fail.

        Raises
        ------
        DatasetError
            If a copy is needed and does not fit.
        """
        for archive, path in archives:
            try:
                (folder / archive.file).hardlink_to(path)
            except OSError:
                size = path.stat().st_size
                if size > content_bytes:
                    raise DatasetError(
                        at(str(folder), NO_ROOM(free_bytes=content_bytes, file=path.name, needed_bytes=size))
                    ) from None
                shutil.copyfile(path, folder / archive.file)
                content_bytes -= size

    def _names(self, split: Split) -> list[str]:
        years = self.settings.train_years if split == "train" else self.settings.validation_years
        return [f"climo_{year}.h5" for year in sorted(years)]

    def _shape(self, file: Path) -> YearShape:
        return YearShape(self.settings.frames(_year(file)), self.settings.height, self.settings.width)


def _year(file: Path) -> int:
    """Return the year of a file that `find` returned."""
    return int(file.stem.removeprefix("climo_"))
