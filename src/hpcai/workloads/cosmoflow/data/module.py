"""CosmoFlow's data: one TFRecord file per cube, in the folders train and validation (or val)."""

from pathlib import Path
from typing import ClassVar

import numpy as np

from hpcai.data.module import Found, SampleSizes, files_in_folders
from hpcai.data.tfrecord import FRAME_BYTES
from hpcai.data.tfrecord_module import TfrecordDataModule
from hpcai.workloads.cosmoflow.data.generator import generate_dataset
from hpcai.workloads.cosmoflow.data.sample import decode_sample, encode_sample
from hpcai.workloads.cosmoflow.settings import CosmoFlowData

SUFFIX = ".tfrecord"


class CosmoFlowDataModule(TfrecordDataModule[CosmoFlowData]):
    """Cubes of particle counts with four targets."""

    one_sample_per_file: ClassVar[bool] = True

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of ``x``: (edge, edge, edge, channels)."""
        edge = self.settings.edge
        return (edge, edge, edge, self.settings.channels)

    @property
    def edition(self) -> str:
        """``gzip`` since v1.0, ``plain`` in v0.7."""
        return self.settings.edition

    @property
    def compressed(self) -> bool:
        """Whether the files are gzip-compressed."""
        return self.settings.edition == "gzip"

    def sample_sizes(self) -> SampleSizes:
        """Return the size of a cube, which is the same for all."""
        record = encode_sample(np.zeros(self.sample_shape, np.int16), np.zeros(4, np.float32))
        size = FRAME_BYTES + len(record)
        return SampleSizes(size, size, compressed=self.compressed)

    def find(self, root: Path) -> Found | None:
        """Return the files of the two folders."""
        return files_in_folders(root, lambda name: name.endswith(SUFFIX))

    def check_record(self, payload: memoryview) -> None:
        """Check features, types and shapes of one sample."""
        decode_sample(payload, self.sample_shape)

    def generate(self, folder: Path) -> dict[str, object]:
        """Write generated universes."""
        return generate_dataset(self.settings, folder)
