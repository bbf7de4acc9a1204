"""ImageNet's data: TFRecord files of many JPEG images."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from hpcai.config.benchmark import Split
from hpcai.data.catalogue import Archive
from hpcai.data.module import FileFacts, Found, Member, require_unchanged
from hpcai.data.tfrecord_module import TfrecordDataModule
from hpcai.workloads.image_classification.data.conversion import convert_archives
from hpcai.workloads.image_classification.data.generator import generate_dataset
from hpcai.workloads.image_classification.data.record import decode_record
from hpcai.workloads.image_classification.data.shards import find_shards
from hpcai.workloads.image_classification.settings import ImageClassificationData

MEMBER_IMAGES = 64
"""Images per packed file: nodes that share a file stage all of it, and an official one has 1,251."""


class ImageClassificationDataModule(TfrecordDataModule[ImageClassificationData]):
    """Labelled JPEG images of any size."""

    member_samples: ClassVar[int | None] = MEMBER_IMAGES

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Empty, because images vary in size."""
        return ()

    def split_files(self, split: Split) -> int | None:
        """Return the number of shards of a split; None for files made elsewhere."""
        if self.settings.source == "existing":
            return None
        return self.settings.train_shards if split == "train" else self.settings.validation_shards

    def find(self, root: Path) -> Found | None:
        """Return the files of both splits, from one folder or from the folders of the splits."""
        return find_shards(root)

    def check_record(self, payload: memoryview) -> None:
        """Check the features, the label, the header of the JPEG image and the boxes."""
        decode_record(payload, self.settings.classes)

    def member_count(self, facts: FileFacts) -> int:
        """Return the number of packed files."""
        return -(-facts.records // MEMBER_IMAGES)

    def split_members(self, split: Split) -> int | None:
        """Return the number of packed files of a split; None for files made elsewhere."""
        files = self.split_files(split)
        if files is None:
            return None
        images = np.diff(np.linspace(0, self.settings.samples(split), files + 1).astype(int))
        return int((-(-images // MEMBER_IMAGES)).sum())

    def members(self, file: Path, facts: FileFacts, numbers: range | None = None) -> Iterator[Member]:
        """Yield the file cut into equal ones of at most `MEMBER_IMAGES`, or itself if it has no more.

        The number comes first in their names, so that members sorted by name alternate between the files, as these do.
        """
        count = self.member_count(facts)
        if count == 1:
            yield from super().members(file, facts)
            return
        if numbers is None:
            require_unchanged(file, facts)
        places = (*facts.record_offsets, facts.content_bytes)
        with file.open("rb") as stream:
            for number in numbers or range(count):
                first, stop = (facts.records * one // count for one in (number, number + 1))
                stream.seek(places[first])
                content = stream.read(places[stop] - places[first])
                offsets = tuple(place - places[first] for place in places[first:stop])
                yield Member(f"{number:04d}-{file.name}", content, offsets)

    def generate(self, folder: Path) -> dict[str, object]:
        """Write generated images."""
        return generate_dataset(self.settings, folder)

    def arrange(self, archives: Sequence[tuple[Archive, Path]], folder: Path, content_bytes: int) -> None:
        """Convert the archives of ILSVRC 2012 as the Inception scripts do."""
        convert_archives(archives, folder, self.settings, content_bytes)
