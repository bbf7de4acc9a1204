"""ImageNet's data: TFRecord files of many JPEG images."""

from collections.abc import Sequence
from pathlib import Path

from hpcai.config.benchmark import Split
from hpcai.data.catalogue import Archive
from hpcai.data.module import Found
from hpcai.data.tfrecord_module import TfrecordDataModule
from hpcai.workloads.image_classification.data.conversion import convert_archives
from hpcai.workloads.image_classification.data.generator import generate_dataset
from hpcai.workloads.image_classification.data.record import decode_record
from hpcai.workloads.image_classification.data.shards import find_shards
from hpcai.workloads.image_classification.settings import ImageClassificationData


class ImageClassificationDataModule(TfrecordDataModule[ImageClassificationData]):
    """Labelled JPEG images of any size."""

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

    def generate(self, folder: Path) -> dict[str, object]:
        """Write generated images."""
        return generate_dataset(self.settings, folder)

    def arrange(self, archives: Sequence[tuple[Archive, Path]], folder: Path, content_bytes: int) -> None:
        """Convert the archives of ILSVRC 2012 as the Inception scripts do."""
        convert_archives(archives, folder, self.settings, content_bytes)
