"""CosmoFlow's data: one TFRecord file per cube, in the folders train and validation (or val)."""

from pathlib import Path
from typing import ClassVar

from hpcai.config.cosmoflow import CosmoFlowData
from hpcai.data.cosmoflow.generator import generate_dataset
from hpcai.data.cosmoflow.sample import decode_sample
from hpcai.data.module import Found, files_in_folders
from hpcai.data.tfrecord_module import TfrecordDataModule

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

    def find(self, root: Path) -> Found | None:
        """Return the files of the two folders."""
        return files_in_folders(root, lambda name: name.endswith(SUFFIX))

    def check_record(self, payload: memoryview) -> None:
        """Check features, types and shapes of one sample."""
        decode_sample(payload, self.sample_shape)

    def generate(self, folder: Path) -> dict[str, object]:
        """Write generated universes."""
        return generate_dataset(self.settings, folder)
