"""How large a dataset is or will be: what its manifests say, else what the settings of its samples give."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from hpcai.config.benchmark import SPLITS, DataSettings, Split
from hpcai.config.cosmoflow import CosmoFlowData
from hpcai.config.deepcam import DeepCamData
from hpcai.config.extreme_weather import ExtremeWeatherData
from hpcai.config.image_classification import ImageClassificationData
from hpcai.config.opencatalyst import OpenCatalystData
from hpcai.config.workloads import Benchmark
from hpcai.data.catalogue import Archive
from hpcai.data.manifest import Manifest, read_manifest
from hpcai.data.pack import PackManifest, read_pack
from hpcai.data.tfrecord import FRAME_BYTES

Method = Literal["measured", "modelled", "upper bound", "declared", "not known"]
MEMBER_BYTES = 1024
"""A member of a tar archive: a header of 512 bytes, and at most 511 that fill its last block."""


@dataclass(frozen=True)
class Amount:
    """A number, how it was found, and where; the value is None only where the method is "not known"."""

    value: float | None
    method: Method
    source: str


@dataclass(frozen=True)
class DatasetEstimate:
    """One dataset on the shared file system, and what training makes of it on a node.

    Attributes
    ----------
    name
        Folder below data/.
    ready, packed
        Whether samples and shards are there.
    sample_bytes, sample_files
        The samples in their container.
    archive_bytes
        Downloaded archives, which stay beside them.
    shard_bytes, shard_files
        The packed dataset.
    content_bytes
        What a node holds that stages all of it.
    pack_s
        Time that packing took.
    """

    name: str
    ready: bool
    packed: bool
    sample_bytes: Amount
    sample_files: Amount
    archive_bytes: Amount
    shard_bytes: Amount
    shard_files: Amount
    content_bytes: Amount
    pack_s: float | None


def unknown(why: str) -> Amount:
    """Return what stands for a number that nobody knows."""
    return Amount(None, "not known", why)


def estimate_dataset(benchmark: Benchmark, folder: Path, archives: Mapping[str, Archive]) -> DatasetEstimate:
    """Return the size of a dataset.

    Parameters
    ----------
    benchmark
        A benchmark that trains on it.
    folder
        Of the dataset: ``data/NAME``.
    archives
        Rows of datasets.tsv.

    Raises
    ------
    DatasetError
        If a manifest that is there is damaged.
    """
    manifest, pack = _read(benchmark.data, folder)
    data = benchmark.data
    content = _content(benchmark, pack)
    files = _files(data, manifest)
    nothing = Amount(0, "declared", "not packed: staging.place none")
    shard_files, shard_bytes = _shards(benchmark, pack, content) if benchmark.is_packed else (nothing, nothing)
    return DatasetEstimate(
        name=data.dataset,
        ready=manifest is not None,
        packed=pack is not None,
        sample_bytes=_sample_bytes(data, manifest),
        sample_files=files,
        archive_bytes=_archive_bytes(data, archives),
        shard_bytes=shard_bytes,
        shard_files=shard_files,
        content_bytes=content,
        pack_s=pack.pack_s if pack else None,
    )


def _read(data: DataSettings, folder: Path) -> tuple[Manifest | None, PackManifest | None]:
    """Read the manifests, if they are of the samples that the settings ask for."""
    path, packed = folder / "manifest.json", folder / "packed" / "packed.json"
    if not path.exists():
        return None, None
    manifest = read_manifest(path)
    if any(manifest.samples(split) != data.samples(split) for split in SPLITS):
        return None, None
    pack = read_pack(packed) if packed.exists() else None
    return manifest, pack if pack and pack.manifest_digest == manifest.digest else None


def _sample_bytes(data: DataSettings, manifest: Manifest | None) -> Amount:
    if data.source == "existing":
        return Amount(0, "declared", f"they stay in {data.path}")
    if manifest is not None:
        return Amount(sum(entry.bytes for entry in manifest.entries), "measured", "manifest.json")
    each = _container_bytes(data)
    if each is None:
        return unknown("samples have sizes of their own")
    compressed = isinstance(data, ExtremeWeatherData) or (isinstance(data, CosmoFlowData) and data.edition == "gzip")
    method: Method = "upper bound" if compressed else "modelled"
    source = "without its compression" if compressed else "samples x bytes of one"
    return Amount(each * sum(data.samples(split) for split in SPLITS), method, source)


def _content(benchmark: Benchmark, pack: PackManifest | None) -> Amount:
    """Return the TFRecord files that are staged."""
    if pack is not None:
        return Amount(pack.content_bytes, "measured", "packed.json")
    each = _record_bytes(benchmark.data)
    if each is None:
        return unknown("samples have sizes of their own")
    samples = sum(benchmark.data.samples(split) for split in SPLITS)
    return Amount(each * samples, "modelled", "samples x bytes of one record")


def _shards(benchmark: Benchmark, pack: PackManifest | None, content: Amount) -> tuple[Amount, Amount]:
    """Return number and bytes of the shards; packed.json is one file more."""
    if pack is not None:
        count = Amount(len(pack.shards) + 1, "measured", "packed.json")
        return count, Amount(pack.packed_bytes, "measured", "packed.json")
    files = {split: _split_files(benchmark.data, split) for split in SPLITS}
    each = [min(benchmark.pack.shards, count or benchmark.pack.shards) for count in files.values()]
    count = Amount(sum(each) + 1, "modelled" if all(files.values()) else "upper bound", "pack.shards for each split")
    if content.value is None:
        return count, unknown(content.source)
    samples = sum(benchmark.data.samples(split) for split in SPLITS)
    method: Method = "modelled" if benchmark.pack.codec == "none" else "upper bound"
    return count, Amount(content.value + samples * MEMBER_BYTES, method, "content, and a tar header for each sample")


def _files(data: DataSettings, manifest: Manifest | None) -> Amount:
    """Return the number of files of a dataset: samples, manifest, archives, and DeepCAM's statistics."""
    if data.source == "existing":
        return Amount(1, "declared", "manifest.json alone")
    beside = 1 + len(data.archives) + isinstance(data, DeepCamData)
    if manifest is not None:
        return Amount(len(manifest.entries) + beside, "measured", "manifest.json")
    counts = [_split_files(data, split) for split in SPLITS]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return unknown("the settings do not tell the number of files")
    return Amount(sum(known) + beside, "modelled", "files of the official container")


def _split_files(data: DataSettings, split: Split) -> int | None:
    if isinstance(data, CosmoFlowData | DeepCamData):
        return data.samples(split)
    if isinstance(data, ExtremeWeatherData):
        return len(data.train_years if split == "train" else data.validation_years)
    if isinstance(data, ImageClassificationData) and data.source != "existing":
        return data.train_shards if split == "train" else data.validation_shards
    if isinstance(data, OpenCatalystData) and data.source != "existing":
        return -(-data.samples(split) // data.samples_per_file)
    return None


def _archive_bytes(data: DataSettings, archives: Mapping[str, Archive]) -> Amount:
    if data.source != "download":
        return Amount(0, "declared", "nothing is downloaded")
    rows = [archives[name] for name in data.archives if name in archives]
    sizes = [row.bytes for row in rows if row.bytes is not None]
    if len(sizes) < len(data.archives):
        return unknown(f"datasets.tsv has no size of {len(data.archives) - len(sizes)} archives of {data.dataset}")
    return Amount(sum(sizes), "declared", "datasets.tsv")


def _container_bytes(data: DataSettings) -> int | None:
    """Return the bytes of one sample in its official container, uncompressed; None where each has its own size."""
    if isinstance(data, DeepCamData):
        from hpcai.data.deepcam.frame import encode_frame

        labels = np.zeros((data.height, data.width), np.uint8)
        frame = np.zeros((data.height, data.width, data.channels), np.float32)
        return len(encode_frame(frame, labels, labels))
    if isinstance(data, ExtremeWeatherData):
        # A year's file holds the arrays of its frames; its own structure is below a thousandth.
        return _arrays_of_frame(data)
    return _record_bytes(data)


def _record_bytes(data: DataSettings) -> int | None:
    """Return the bytes of one sample as a TFRecord; None where each has its own size."""
    for kind, count in _RECORDS.items():
        if isinstance(data, kind):
            return FRAME_BYTES + count(data)
    return None


def _cosmoflow_record(data: CosmoFlowData) -> int:
    from hpcai.data.cosmoflow.sample import encode_sample

    counts = np.zeros((data.edge, data.edge, data.edge, data.channels), np.int16)
    return len(encode_sample(counts, np.zeros(4, np.float32)))


def _deepcam_record(data: DeepCamData) -> int:
    from hpcai.data.example import encode_example

    pixels = data.height * data.width
    return len(encode_example({"data": bytes(4 * data.channels * pixels), "labels": bytes(pixels)}))


def _extreme_weather_record(data: ExtremeWeatherData) -> int:
    from hpcai.data.extreme_weather.container import MAX_BOXES
    from hpcai.data.extreme_weather.sample import encode_frame

    image = np.zeros((data.channels, data.height, data.width), np.float32)
    return len(encode_frame(image, np.zeros((MAX_BOXES, 5), np.int32), 1979 * 100_000))


def _arrays_of_frame(data: ExtremeWeatherData) -> int:
    return 4 * data.channels * data.height * data.width


_RECORDS: dict[type[DataSettings], Callable[..., int]] = {
    CosmoFlowData: _cosmoflow_record,
    DeepCamData: _deepcam_record,
    ExtremeWeatherData: _extreme_weather_record,
}
