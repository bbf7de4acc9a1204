"""Small datasets in the official layout, and ways to damage them."""

from pathlib import Path

import numpy as np

from hpcai.data.manifest import Manifest, ManifestHeader, make_manifest
from hpcai.data.module import Found
from hpcai.data.tfrecord import write_records
from hpcai.workloads.cosmoflow.data.module import CosmoFlowDataModule
from hpcai.workloads.cosmoflow.data.sample import encode_sample
from hpcai.workloads.cosmoflow.settings import CosmoFlowData

EDGE = 8
SHAPE = (EDGE, EDGE, EDGE, 4)


def sample_bytes(number: int, shape: tuple[int, ...] = SHAPE) -> bytes:
    generator = np.random.default_rng(number)
    return encode_sample(generator.poisson(0.7, shape).astype(np.int16), np.full(4, number / 100, np.float32))


def write_split(folder: Path, count: int, *, gzip: bool = True, first: int = 0) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        path = folder / f"univ_ics_test_a0001_{number:03d}.tfrecord"
        write_records(path, [sample_bytes(first + number)], compress=gzip)


def header(edition: str = "gzip", shape: tuple[int, ...] = SHAPE) -> ManifestHeader:
    return ManifestHeader.model_validate(
        {
            "dataset": "small",
            "workload": "cosmoflow",
            "source": "existing",
            "edition": edition,
            "sample_shape": shape,
        }
    )


class SmallCubes(CosmoFlowDataModule):
    """CosmoFlow's data module for cubes smaller than any official edge."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        return SHAPE


def small_cubes(edition: str = "gzip", train: int = 6, validation: int = 2) -> SmallCubes:
    counts = {"train_samples": train, "validation_samples": validation}
    settings = {"dataset": "small", "source": "generate", "edition": edition, "edge": 16, **counts}
    return SmallCubes(CosmoFlowData.model_validate(settings))


def found_in(root: Path) -> Found:
    found = small_cubes().find(root)
    assert found is not None
    return found


def write_dataset(root: Path, train: int = 6, validation: int = 2, *, edition: str = "gzip") -> Manifest:
    write_split(root / "train", train, gzip=edition == "gzip")
    write_split(root / "validation", validation, gzip=edition == "gzip", first=50)
    return make_manifest(header(edition), small_cubes(edition), root, found_in(root))


def flip_bit(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def cut(path: Path, size_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:-size_bytes])
