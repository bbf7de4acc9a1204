"""Size of a dataset, from its manifests or, before they exist, from the settings of its samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hpcai.config.benchmark import SPLITS, DataSettings
from hpcai.config.workloads import Benchmark
from hpcai.data.catalogue import Archive
from hpcai.data.manifest import Manifest, read_manifest
from hpcai.data.module import DataModule
from hpcai.data.pack import read_pack
from hpcai.data.packed import PackManifest
from hpcai.data.registry import data_module

Method = Literal["measured", "modelled", "upper bound", "declared", "not known"]
MEMBER_BYTES = 1024
"""A member of a tar archive: a header of 512 bytes, and at most 511 bytes of padding."""


@dataclass(frozen=True)
class Amount:
    """A number with its method and source; the value is None only for the method "not known"."""

    value: float | None
    method: Method
    source: str


@dataclass(frozen=True)
class DatasetEstimate:
    """One dataset on the shared file system, and its packed and staged forms.

    Attributes
    ----------
    name
        Folder below data/.
    ready, packed
        Whether samples and shards exist.
    sample_bytes, sample_files
        The samples in their container.
    archive_bytes
        Downloaded archives, which are kept with the samples.
    shard_bytes, shard_files
        The packed dataset.
    content_bytes
        Bytes on a node that stages the whole dataset.
    pack_s
        Time of packing.
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
    """Return the placeholder for an unknown number."""
    return Amount(None, "not known", why)


def estimate_dataset(benchmark: Benchmark, folder: Path, archives: Mapping[str, Archive]) -> DatasetEstimate:
    """Return the size of a dataset.

    Parameters
    ----------
    benchmark
        A benchmark that trains on it.
    folder
        Folder of the dataset, ``data/NAME``.
    archives
        Rows of datasets.tsv.

    Raises
    ------
    DatasetError
        If an existing manifest is damaged.
    """
    data = benchmark.data
    manifest, pack = _read(data, folder)
    module = data_module(benchmark.workload, data)
    content = _content(module, pack)
    nothing = Amount(0, "declared", "not packed: staging.place none")
    shard_files, shard_bytes = _shards(benchmark, module, pack, content) if benchmark.is_packed else (nothing, nothing)
    return DatasetEstimate(
        name=data.dataset,
        ready=manifest is not None,
        packed=pack is not None,
        sample_bytes=_sample_bytes(module, manifest),
        sample_files=_files(module, manifest),
        archive_bytes=_archive_bytes(data, archives),
        shard_bytes=shard_bytes,
        shard_files=shard_files,
        content_bytes=content,
        pack_s=pack.pack_s if pack else None,
    )


def _read(data: DataSettings, folder: Path) -> tuple[Manifest | None, PackManifest | None]:
    """Read the manifests, if they match the samples of the settings."""
    path, packed = folder / "manifest.json", folder / "packed" / "packed.json"
    if not path.exists():
        return None, None
    manifest = read_manifest(path)
    if any(manifest.samples(split) != data.samples(split) for split in SPLITS):
        return None, None
    pack = read_pack(packed) if packed.exists() else None
    return manifest, pack if pack and pack.manifest_digest == manifest.digest else None


def _sample_bytes(module: DataModule[Any], manifest: Manifest | None) -> Amount:
    data = module.settings
    if data.source == "existing":
        return Amount(0, "declared", f"they stay in {data.path}")
    if manifest is not None:
        return Amount(manifest.entries.total("bytes"), "measured", "manifest.json")
    sizes = module.sample_sizes()
    if sizes.container_bytes is None:
        return unknown("samples differ in size")
    method: Method = "upper bound" if sizes.compressed else "modelled"
    source = "without its compression" if sizes.compressed else "samples x bytes of one"
    return Amount(sizes.container_bytes * sum(data.samples(split) for split in SPLITS), method, source)


def _content(module: DataModule[Any], pack: PackManifest | None) -> Amount:
    """Return the TFRecord files to be staged."""
    if pack is not None:
        return Amount(pack.content_bytes, "measured", "packed.json")
    each = module.sample_sizes().record_bytes
    if each is None:
        return unknown("samples differ in size")
    samples = sum(module.settings.samples(split) for split in SPLITS)
    return Amount(each * samples, "modelled", "samples x bytes of one record")


def _shards(
    benchmark: Benchmark, module: DataModule[Any], pack: PackManifest | None, content: Amount
) -> tuple[Amount, Amount]:
    """Return number and bytes of the shards; packed.json is one file more."""
    if pack is not None:
        count = Amount(len(pack.shards) + 1, "measured", "packed.json")
        return count, Amount(pack.packed_bytes, "measured", "packed.json")
    files = {split: module.split_members(split) for split in SPLITS}
    each = [min(benchmark.pack.shards, count or benchmark.pack.shards) for count in files.values()]
    count = Amount(sum(each) + 1, "modelled" if all(files.values()) else "upper bound", "pack.shards for each split")
    if content.value is None:
        return count, unknown(content.source)
    samples = sum(benchmark.data.samples(split) for split in SPLITS)
    method: Method = "modelled" if benchmark.pack.codec == "none" else "upper bound"
    return count, Amount(content.value + samples * MEMBER_BYTES, method, "content, and a tar header for each sample")


def _files(module: DataModule[Any], manifest: Manifest | None) -> Amount:
    """Return the number of files of a dataset: samples, manifest, archives, and other files with the samples."""
    data = module.settings
    if data.source == "existing":
        return Amount(1, "declared", "manifest.json alone")
    beside = 1 + len(data.archives) + len(module.sidecars)
    if manifest is not None:
        return Amount(len(manifest.entries) + beside, "measured", "manifest.json")
    counts = [module.split_files(split) for split in SPLITS]
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return unknown("the settings do not determine the number of files")
    return Amount(sum(known) + beside, "modelled", "files of the official container")


def _archive_bytes(data: DataSettings, archives: Mapping[str, Archive]) -> Amount:
    if data.source != "download":
        return Amount(0, "declared", "nothing is downloaded")
    rows = [archives[name] for name in data.archives if name in archives]
    sizes = [row.bytes for row in rows if row.bytes is not None]
    if len(sizes) < len(data.archives):
        return unknown(f"datasets.tsv has no size for {len(data.archives) - len(sizes)} archives of {data.dataset}")
    return Amount(sum(sizes), "declared", "datasets.tsv")
