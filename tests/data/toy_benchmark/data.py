"""The toy's data: one TFRecord file per sample."""

from pathlib import Path
from typing import ClassVar

import numpy as np

from hpcai.config.benchmark import SPLITS
from hpcai.core.errors import DatasetError
from hpcai.data.example import decode_example, encode_example
from hpcai.data.module import Found, files_in_folders
from hpcai.data.tfrecord import write_records
from hpcai.data.tfrecord_module import TfrecordDataModule
from hpcai.workloads.toy.settings import ToyData


class ToyDataModule(TfrecordDataModule[ToyData]):
    """Rows of numbers with their sum."""

    one_sample_per_file: ClassVar[bool] = True

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of ``x``."""
        return (self.settings.numbers,)

    def find(self, root: Path) -> Found | None:
        """Return the files of the two folders."""
        return files_in_folders(root, lambda name: name.endswith(".tfrecord"))

    def check_record(self, payload: memoryview) -> None:
        """Check the number of inputs."""
        if len(decode_example(payload)["x"]) != self.settings.numbers:
            raise DatasetError(f"found another number of inputs, expected {self.settings.numbers}")

    def generate(self, folder: Path) -> dict[str, object]:
        """Write random rows."""
        random = np.random.default_rng(self.settings.seed)
        for split in SPLITS:
            (folder / split).mkdir()
            for number in range(self.settings.samples(split)):
                x = random.uniform(-1, 1, self.settings.numbers)
                payload = encode_example({"x": x, "y": x.sum(keepdims=True)})
                write_records(folder / split / f"{number:06d}.tfrecord", [payload], compress=False)
        return {"version": 1, "seed": self.settings.seed}
