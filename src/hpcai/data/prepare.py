"""Makes a dataset ready: generates, downloads or scans it, verifies every file, and writes its manifest."""

import fcntl
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpcai.config.cosmoflow import CosmoFlowData
from hpcai.data.archives import UnpackLimits, unpack_archive
from hpcai.data.catalogue import read_catalogue
from hpcai.data.cosmoflow import generate_dataset
from hpcai.data.download import fetch_archive
from hpcai.data.manifest import (
    SPLITS,
    Manifest,
    ManifestHeader,
    Source,
    Split,
    make_manifest,
    read_manifest,
    sample_files,
    verify_dataset,
    write_manifest,
)
from hpcai.errors import DatasetError

logger = logging.getLogger(__name__)
MANIFEST = "manifest.json"
FOLDERS: dict[Split, tuple[str, ...]] = {"train": ("train",), "validation": ("validation", "val")}
"""The reference's description calls the second folder ``val``, its code ``validation``."""
_SOURCES: dict[str, Source] = {"generate": "generated", "download": "downloaded", "existing": "existing"}
_PARTIAL = ".partial"
_ARCHIVE_FOLDER = "archive"
_PROGRESS_S = 5.0


class _Progress:
    """Logs how many files are done, not more often than people read."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._told_s, self._lock = time.monotonic(), threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self._done += 1
            if self._done == self._total or time.monotonic() - self._told_s >= _PROGRESS_S:
                self._told_s = time.monotonic()
                logger.info("%s %d of %d files", self._what, self._done, self._total)


def prepare_dataset(settings: CosmoFlowData, folder: Path, datasets_tsv: Path) -> Manifest:
    """Make a dataset ready and write ``folder/manifest.json`` last.

    A generated or downloaded dataset appears in the folder by a rename when it is complete; an existing one stays
    where it is, and its manifest says where. Of more samples than needed the first by name are used.

    Parameters
    ----------
    settings
        What to prepare, and from where.
    folder
        Folder of the manifest.
    datasets_tsv
        Table of the archives that can be downloaded.

    Raises
    ------
    DatasetError
        If the source does not exist, holds too few samples, or is damaged: every damaged file is listed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone_in(folder):
        if settings.source == "existing":
            manifest = _take_existing(settings)
        elif settings.source == "generate":
            manifest = _generate(settings, folder)
        else:
            manifest = _download(settings, folder, datasets_tsv)
        write_manifest(manifest, folder / MANIFEST)
    counts = ", ".join(f"{len(entries)} {split}" for split, entries in manifest.splits.items())
    logger.info("%s is ready: %s samples, digest %s", settings.dataset, counts, manifest.digest[:16])
    return manifest


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep a second process from preparing the same dataset; the lock ends with the process, however it ends."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatasetError(
                f"{folder}: found another process that prepares it, expected none; wait until it is done"
            ) from None
        yield


def _header(settings: CosmoFlowData, **facts: object) -> ManifestHeader:
    shape = (settings.edge, settings.edge, settings.edge, settings.channels)
    return ManifestHeader.model_validate(
        {
            "dataset": settings.dataset,
            "source": _SOURCES[settings.source],
            "edition": settings.edition,
            "sample_shape": shape,
            **facts,
        }
    )


def _wanted(settings: CosmoFlowData) -> dict[Split, int]:
    return {"train": settings.train_samples, "validation": settings.validation_samples}


def _chosen(settings: CosmoFlowData, found: Mapping[Split, Sequence[str]], place: Path) -> dict[Split, list[str]]:
    """Return the first samples of each split by name, as many as wanted."""
    for split, count in _wanted(settings).items():
        if len(found[split]) < count:
            raise DatasetError(
                f"{place}: found {len(found[split])} {split} samples, expected {count}; "
                f"lower {split}_samples or get a larger dataset"
            )
    return {split: sorted(found[split])[:count] for split, count in _wanted(settings).items()}


def _unused(found: Mapping[Split, Sequence[str]], chosen: Mapping[Split, Sequence[str]]) -> dict[str, int]:
    """Count what is left aside, per folder."""
    rest = {str(Path(chosen[split][0]).parent): len(found[split]) - len(chosen[split]) for split in SPLITS}
    return {folder: count for folder, count in rest.items() if count}


def _examined(settings: CosmoFlowData, root: Path, found: Mapping[Split, Sequence[str]], **facts: object) -> Manifest:
    """Read and check the samples of a dataset without a manifest."""
    chosen = _chosen(settings, found, root)
    progress = _Progress("verified", sum(_wanted(settings).values()))
    return make_manifest(_header(settings, unused_files=_unused(found, chosen), **facts), root, chosen, progress)


def _split_folders(root: Path) -> dict[Split, str] | None:
    """Return the folders of the splits, if the official layout begins here."""
    present = {split: [name for name in names if (root / name).is_dir()] for split, names in FOLDERS.items()}
    for split, names in present.items():
        if len(names) > 1:
            raise DatasetError(f"{root}: found {' and '.join(names)} for {split}, expected one of them; move one away")
    return {split: names[0] for split, names in present.items()} if all(present.values()) else None


def _take_existing(settings: CosmoFlowData) -> Manifest:
    root = Path(os.path.expandvars(settings.path or ""))
    if "$" in str(root) or not root.is_dir():
        raise DatasetError(f"{settings.path}: found no such folder, expected a dataset; correct data.path")
    root = root.resolve()
    if (root / MANIFEST).exists():
        return _take_described(settings, root / MANIFEST)
    folders = _split_folders(root)
    if folders is None:
        raise DatasetError(
            f"{root}: found no folders train and validation, expected the official layout; correct data.path"
        )
    found = {split: sample_files(root, folder) for split, folder in folders.items()}
    origin = {"path": settings.path, "had_manifest": False}
    return _examined(settings, root, found, samples_root=str(root), origin=origin)


def _take_described(settings: CosmoFlowData, path: Path) -> Manifest:
    """Verify an existing dataset against the manifest that it carries."""
    described = read_manifest(path)
    root = described.root(path).resolve()
    header = _header(settings, samples_root=str(root), origin={"path": settings.path, "had_manifest": True})
    for key in ("edition", "sample_shape"):
        if getattr(described, key) != getattr(header, key):
            raise DatasetError(
                f"{path}: {key}: found {getattr(described, key)}, expected {getattr(header, key)} as in the benchmark "
                "file; correct one of them"
            )
    entries = {split: {entry.path: entry for entry in described.splits.get(split, ())} for split in SPLITS}
    found = {split: list(paths) for split, paths in entries.items()}
    chosen = _chosen(settings, found, path)
    unused = _unused(found, chosen)
    for folder, count in described.unused_files.items():
        unused[folder] = unused.get(folder, 0) + count
    splits = {split: [entries[split][name] for name in names] for split, names in chosen.items()}
    manifest = Manifest.model_validate({**header.model_dump(), "unused_files": unused, "splits": splits})
    verify_dataset(manifest, root, _Progress("verified", len(manifest.entries)))
    return manifest


def _generate(settings: CosmoFlowData, folder: Path) -> Manifest:
    with _partial_folder(folder) as partial:
        logger.info("generating %s in %s", settings.dataset, partial)
        origin = generate_dataset(settings, partial)
        found = {split: sample_files(partial, split) for split in SPLITS}
        for split, count in _wanted(settings).items():
            if len(found[split]) != count:
                raise DatasetError(f"{partial}: generated {len(found[split])} {split} samples, expected {count}")
        manifest = _examined(settings, partial, found, origin=origin)
        _publish(folder, {split: partial / split for split in SPLITS})
    return manifest


def _download(settings: CosmoFlowData, folder: Path, datasets_tsv: Path) -> Manifest:
    archives = read_catalogue(datasets_tsv)
    if settings.archive not in archives:
        raise DatasetError(
            f"{datasets_tsv}: found no row {settings.archive!r}, expected it as in data.archive; "
            f"there are {', '.join(sorted(archives))}"
        )
    archive = archives[settings.archive]
    path = fetch_archive(archive, folder / _ARCHIVE_FOLDER)
    assert archive.format != "folder"
    with _partial_folder(folder) as partial:
        limits = UnpackLimits(content_bytes=shutil.disk_usage(partial).free)
        logger.info("unpacking %s", path)
        unpack_archive(path, partial, archive.format, limits)
        top, folders = _layout(partial, path)
        places = {split: top / name for split, name in folders.items()}
        found = {split: sample_files(top, name) for split, name in folders.items()}
        manifest = _examined(settings, top, found, origin=archive.model_dump())
        _publish(folder, places)
    return _renamed(manifest, folders)


def _layout(partial: Path, archive: Path) -> tuple[Path, dict[Split, str]]:
    """Find the folders of the splits in an unpacked archive, at its top or below one folder."""
    below = [path for path in sorted(partial.iterdir()) if path.is_dir()]
    for top in [partial, *below] if len(below) == 1 else [partial]:
        folders = _split_folders(top)
        if folders is not None:
            return top, folders
    names = ", ".join(path.name for path in sorted(partial.iterdir())[:10]) or "nothing"
    raise DatasetError(
        f"{archive}: found {names} in it, expected the folders train and validation (or val); correct datasets.tsv"
    )


def _renamed(manifest: Manifest, folders: Mapping[Split, str]) -> Manifest:
    """Give the paths the names of the splits, which the folders have after publication."""
    names = {folder: split for split, folder in folders.items()}
    splits = {
        split: tuple(entry.model_copy(update={"path": f"{split}/{Path(entry.path).name}"}) for entry in entries)
        for split, entries in manifest.splits.items()
    }
    unused = {names[folder]: count for folder, count in manifest.unused_files.items()}
    return manifest.model_copy(update={"splits": splits, "unused_files": unused})


@contextmanager
def _partial_folder(folder: Path) -> Iterator[Path]:
    """Work in a folder beside the final place, which is gone afterwards; one that a killed process left goes first."""
    partial = folder / _PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _publish(folder: Path, places: Mapping[Split, Path]) -> None:
    """Move complete splits to their place; without a manifest in between, nobody reads a mixture of old and new."""
    (folder / MANIFEST).unlink(missing_ok=True)
    for split, place in places.items():
        target = folder / split
        if target.exists():
            shutil.rmtree(target)
        place.rename(target)
