"""DeepCAM's data: one HDF5 file per frame in the folders train and validation, and ``stats.h5``."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from crc32c import crc32c

from hpcai.config.benchmark import Split
from hpcai.core.errors import DatasetError
from hpcai.core.files import read_regular
from hpcai.core.messages import at
from hpcai.data.example import encode_example
from hpcai.data.module import CHANGED_FILE, DataModule, FileFacts, Found, Member, SampleSizes, files_in_folders
from hpcai.data.tfrecord import FRAME_BYTES, encode_records
from hpcai.workloads.deepcam.data.frame import decode_frame, encode_frame
from hpcai.workloads.deepcam.data.generator import generate_dataset
from hpcai.workloads.deepcam.data.statistics import STATISTICS_FILE, read_statistics
from hpcai.workloads.deepcam.settings import DeepCamData


class DeepCamDataModule(DataModule[DeepCamData]):
    """Frames of 16 channels with a class for each pixel.

    A frame reaches TensorFlow as a tf.train.Example with two byte strings: ``data``, little-endian float32 (height,
    width, 16), and ``labels``, uint8 (height, width).
    """

    sidecars: ClassVar[tuple[str, ...]] = (STATISTICS_FILE,)
    one_sample_per_file: ClassVar[bool] = True

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of ``climate/data``: (height, width, 16)."""
        return (self.settings.height, self.settings.width, self.settings.channels)

    def sample_sizes(self) -> SampleSizes:
        """Return the size of a frame, which is the same for all."""
        image, labels = np.zeros(self.sample_shape, np.float32), np.zeros(self.sample_shape[:2], np.uint8)
        record = encode_example({"data": image.tobytes(), "labels": labels.tobytes()})
        return SampleSizes(len(encode_frame(image, labels, labels)), FRAME_BYTES + len(record))

    def find(self, root: Path) -> Found | None:
        """Return the files ``data-*.h5`` of the two folders."""
        return files_in_folders(root, lambda name: name.startswith("data-") and name.endswith(".h5"))

    def examine(self, file: Path) -> FileFacts:
        """Read one file and check layout, shapes, types, classes and that all values are finite."""
        content = _read(file)
        decode_frame(content, file, self.sample_shape)
        size, checksum = len(content), f"{crc32c(content):08x}"
        return FileFacts(size, checksum, 1, size, checksum)

    def members(self, file: Path, facts: FileFacts, numbers: range | None = None) -> Iterator[Member]:  # noqa: ARG002
        """Yield the frame as a TFRecord file of one record."""
        content = _read(file)
        found = len(content), f"{crc32c(content):08x}"
        if found != (facts.bytes, facts.crc32c):
            raise DatasetError(
                at(
                    str(file),
                    CHANGED_FILE(
                        found_bytes=found[0],
                        found_crc32c=found[1],
                        expected_bytes=facts.bytes,
                        expected_crc32c=facts.crc32c,
                    ),
                )
            )
        data, labels = decode_frame(content, file, self.sample_shape)
        payload = encode_example({"data": data.tobytes(), "labels": labels.tobytes()})
        yield Member(f"{file.stem}.tfrecord", encode_records([payload]), (0,))

    def statistics(
        self,
        root: Path,
        found: Found,
        examined: Mapping[str, Sequence[Any]] | None = None,  # noqa: ARG002
        records: Mapping[Split, Sequence[int]] | None = None,  # noqa: ARG002
    ) -> dict[str, tuple[float, ...]]:
        """Return ``minval`` and ``maxval`` of each channel from ``stats.h5``; its other numbers are only checked."""
        statistics = read_statistics(self.sidecar(root, STATISTICS_FILE, found))
        return {name: tuple(np.asarray(getattr(statistics, name)).tolist()) for name in ("minval", "maxval")}

    def sidecar(self, root: Path, name: str, found: Found) -> Path:
        """Return the place of ``stats.h5``: next to the folders or, as in v0.7, in the training folder."""
        places = [root / name, *{(root / path).parent / name for path in found["train"]}]
        return next((place for place in places if place.is_file()), places[0])

    def generate(self, folder: Path) -> dict[str, object]:
        """Write generated frames and their statistics."""
        return generate_dataset(self.settings, folder)


def _read(file: Path) -> bytes:
    try:
        return read_regular(file)
    except OSError as error:
        raise DatasetError(
            f"{file}: cannot be read ({error.strerror}), expected a readable file; make the dataset again"
        ) from error
