"""Prepare a dataset: generate, download or scan it, verify every file, and write its manifest."""

import json
import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpcai.config.benchmark import SPLITS, DataSettings, Split
from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.catalogue import Archive, read_catalogue
from hpcai.data.examine import in_parallel
from hpcai.data.manifest import (
    FileEntry,
    Manifest,
    ManifestHeader,
    Source,
    make_manifest,
    read_manifest,
    records_of,
    verify_dataset,
    write_manifest,
)
from hpcai.data.module import DataModule, Found
from hpcai.data.partial import Partial, partial_folder
from hpcai.data.table import Table
from hpcai.data.texts import Texts

logger = logging.getLogger(__name__)
OTHER_LAYOUT = Message(
    "prepare.other_layout",
    "found {found}, expected the official layout (folders train and validation, or the official file names); {remedy}",
)
OTHER_SAMPLES = Message(
    "prepare.other_samples",
    "found {found} {split} samples {held}, expected {expected}; correct {split}_samples (whole files are used) "
    "or get a larger dataset",
)
MANIFEST = "manifest.json"
_SOURCES: dict[str, Source] = {"generate": "generated", "download": "downloaded", "existing": "existing"}
_ARCHIVE_FOLDER = "archive"
_PROGRESS_S = 5.0


class _Progress:
    """Logs how many files are done, at a readable rate."""

    def __init__(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, total, 0
        self._told_s = time.monotonic()

    def __call__(self, files: int) -> None:
        self._done += files
        if self._done == self._total or time.monotonic() - self._told_s >= _PROGRESS_S:
            self._told_s = time.monotonic()
            logger.info("%s %d of %d files", self._what, self._done, self._total)


def prepare_dataset(workload: str, module: DataModule[Any], folder: Path, datasets_tsv: Path) -> Manifest:
    """Prepare a dataset and write ``folder/manifest.json`` last.

    A generated or downloaded dataset appears in the folder by one rename when it is complete. An existing one stays in
    place, and its manifest records where. If there are more samples than needed, the first whole files by name are
    used.

    Parameters
    ----------
    workload
        Name of the workload, for the manifest.
    module
        The benchmark's data module, with the settings that define the dataset and its source.
    folder
        Folder of the manifest.
    datasets_tsv
        Table of downloadable archives.

    Raises
    ------
    DatasetError
        If the source does not exist, holds too few samples, or is damaged: lists every damaged file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    preparation = _Preparation(workload, module, folder)
    if module.settings.source == "existing":
        manifest = preparation.take_existing()
    elif module.settings.source == "generate":
        manifest = preparation.generate()
    else:
        manifest = preparation.download(datasets_tsv)
    write_manifest(manifest, folder / MANIFEST)
    manifest = read_manifest(folder / MANIFEST)  # that one knows its digest
    counts = ", ".join(f"{manifest.samples(split)} {split}" for split in SPLITS)
    logger.info("%s: ready with %s samples, digest %s", manifest.dataset, counts, manifest.digest[:16])
    return manifest


class _Preparation:
    """The three ways to obtain a verified dataset."""

    def __init__(self, workload: str, module: DataModule[Any], folder: Path) -> None:
        self._workload, self._module, self._folder = workload, module, folder
        self._settings: DataSettings = module.settings

    def _header(self, **facts: object) -> ManifestHeader:
        return ManifestHeader.model_validate(
            {
                "dataset": self._settings.dataset,
                "workload": self._workload,
                "source": _SOURCES[self._settings.source],
                "edition": self._module.edition,
                "sample_shape": self._module.sample_shape,
                **facts,
            }
        )

    def take_existing(self) -> Manifest:
        """Verify a dataset in place."""
        path = self._settings.path or ""
        root = Path(os.path.expandvars(path))
        if "$" in str(root) or not root.is_dir():
            raise DatasetError(f"{path}: found no such folder, expected a dataset; correct data.path")
        root = root.resolve()
        if (root / MANIFEST).exists():
            return self._take_described(root / MANIFEST)
        found = self._found(root, f"{root}", "correct data.path")
        origin = {"path": path, "had_manifest": False}
        return self._examined(root, found, samples_root=str(root), origin=origin)

    def _take_described(self, path: Path) -> Manifest:
        """Verify an existing dataset against its own manifest."""
        described = read_manifest(path)
        root = described.root(path).resolve()
        origin = {"path": self._settings.path, "had_manifest": True}
        # Generated data remain "generated" at any place.
        source: Source = "generated" if described.source == "generated" else "existing"
        header = self._header(samples_root=str(root), origin=origin, source=source)
        for key in ("workload", "edition", "sample_shape"):
            if getattr(described, key) != getattr(header, key):
                raise DatasetError(
                    f"{path}: {key}: found {getattr(described, key)}, expected {getattr(header, key)} as in the "
                    "benchmark file; correct one of them"
                )
        splits = {split: self._first(split, described.files(split), path) for split in SPLITS}
        unused = _unused(described.splits, splits)
        for folder, count in described.unused_files.items():
            unused[folder] = unused.get(folder, 0) + count
        facts = {"unused_files": unused, "splits": splits}
        manifest = Manifest.model_validate({**header.model_dump(), **facts})
        samples = verify_dataset(manifest, self._module, root, _Progress("verified", len(manifest.entries)))
        chosen = {split: entries.texts("path") for split, entries in splits.items()}
        statistics = self._module.statistics(root, chosen, samples, records_of(splits))
        return manifest.model_copy(update={"statistics": statistics})

    def generate(self) -> Manifest:
        """Generate a dataset and verify the written files."""
        with partial_folder(self._folder) as partial:
            top = partial.path
            logger.info("generating %s in %s", self._settings.dataset, top)
            origin = self._module.generate(top)
            manifest = self._examined(top, self._found(top, f"{top}", "report this bug"), origin=origin)
            return self._publish(manifest, top)

    def download(self, datasets_tsv: Path) -> Manifest:
        """Download the archives, arrange them in the official layout, and verify the result."""
        from hpcai.data.download import fetch_archive
        from hpcai.data.globus import forget_transfer

        rows = _rows(self._settings, datasets_tsv)
        fetched = [(row, fetch_archive(row, self._folder / _ARCHIVE_FOLDER)) for row in rows]
        try:
            with partial_folder(self._folder, _origin(self._settings, fetched)) as partial:
                return self._take_fetched(fetched, partial)
        except DatasetError:
            for _, path in fetched:
                forget_transfer(path)
            raise

    def _take_fetched(self, fetched: Sequence[tuple[Archive, Path]], partial: Partial) -> Manifest:
        """Arrange what was fetched, unless an earlier start has done so, verify it, and publish it."""
        from hpcai.data.download import remember_first_use

        names = " and ".join(row.file for row, _ in fetched)
        if partial.is_filled:
            logger.info("%s: an earlier start has unpacked %s", partial.path, names)
        else:
            logger.info("unpacking %s", names)
            self._module.arrange(fetched, partial.path, shutil.disk_usage(partial.path).free)
            partial.note_filled()
        # Archives often hold everything in one folder.
        below = [path for path in sorted(partial.path.iterdir()) if path.is_dir()]
        tops = [partial.path, *below] if len(below) == 1 else [partial.path]
        top = next((top for top in tops if self._module.find(top)), partial.path)
        found = self._found(top, names, "correct datasets.tsv")
        manifest = self._examined(top, found, origin={"archives": [row.model_dump() for row, _ in fetched]})
        in_parallel(lambda one: remember_first_use(*one), fetched)
        partial.note_emptied()
        return self._publish(manifest, top)

    def _found(self, root: Path, place: str, remedy: str) -> Found:
        """Return the sample files of the official layout."""
        found = self._module.find(root)
        if found is None:
            names = ", ".join(path.name for path in sorted(root.iterdir())[:10]) or "nothing"
            raise DatasetError(at(place, OTHER_LAYOUT(found=names, remedy=remedy)))
        return {split: Texts.of(sorted(names)) for split, names in found.items()}

    def _examined(self, root: Path, found: Found, **facts: object) -> Manifest:
        """Read and check the samples of a dataset without a manifest; keep the first whole files by name."""
        chosen = {split: found[split] for split in SPLITS}
        if self._module.one_sample_per_file:
            chosen = {split: names[: self._settings.samples(split)] for split, names in chosen.items()}
        progress = _Progress("verified", sum(map(len, chosen.values())))
        header = self._header(**facts)
        manifest = make_manifest(
            header, self._module, root, chosen, progress, lambda split, entries: self._first(split, entries, root)
        )
        return manifest.model_copy(update={"unused_files": _unused(found, manifest.splits)})

    def _first(self, split: Split, entries: Table[FileEntry], place: Path) -> Table[FileEntry]:
        """Return the first files by name that together hold enough samples."""
        wanted, ordered = self._settings.samples(split), entries.take(entries.order("path"))
        ends = np.cumsum(ordered.numbers("records"), dtype=np.int64)
        kept = ordered[: int(np.searchsorted(ends, wanted)) + 1]
        count = kept.total("records")
        if count != wanted:
            held = f"in its first {len(kept)} files" if count > wanted else "in all its files"
            raise DatasetError(at(str(place), OTHER_SAMPLES(found=count, split=split, held=held, expected=wanted)))
        return kept

    def _publish(self, manifest: Manifest, top: Path) -> Manifest:
        """Move the files to train/ and validation/; the manifest is absent meanwhile, so nobody reads a mixture."""
        (self._folder / MANIFEST).unlink(missing_ok=True)
        splits: dict[Split, Table[FileEntry]] = {}
        for split in SPLITS:
            target = self._folder / split
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            files = manifest.splits[split]
            for entry in files:
                (top / entry.path).rename(target / Path(entry.path).name)
            moved = (entry.model_copy(update={"path": f"{split}/{Path(entry.path).name}"}) for entry in files)
            splits[split] = Table.collected(FileEntry, moved)
        found = {split: files.texts("path") for split, files in manifest.splits.items()}
        for name in self._module.sidecars:
            self._module.sidecar(top, name, found).replace(self._folder / name)
        return manifest.model_copy(update={"splits": splits, "unused_files": {}})


def _rows(settings: DataSettings, datasets_tsv: Path) -> list[Archive]:
    """Return the rows of the wanted archives."""
    catalogue = read_catalogue(datasets_tsv)
    for name in settings.archives:
        if name not in catalogue:
            raise DatasetError(
                f"{datasets_tsv}: found no row {name!r}, expected it as in data.archives; "
                f"there are {', '.join(sorted(catalogue))}"
            )
    return [catalogue[name] for name in settings.archives]


def _unused(found: Mapping[Split, Sequence[object]], kept: Mapping[Split, Sequence[FileEntry]]) -> dict[str, int]:
    """Count the unused files per folder."""
    unused: dict[str, int] = {}
    for split in SPLITS:
        folder = str(Path(kept[split][0].path).parent)
        unused[folder] = unused.get(folder, 0) + len(found.get(split, ())) - len(kept[split])
    return {folder: count for folder, count in unused.items() if count}


def _origin(settings: DataSettings, fetched: Sequence[tuple[Archive, Path]]) -> bytes:
    """Return what determines an arranged dataset; blank if a folder is among it, whose files may change."""
    if any(row.format == "folder" for row, _ in fetched):
        return b""
    archives = [
        [row.file, row.format, row.checksum, path.stat().st_size, path.stat().st_mtime_ns] for row, path in fetched
    ]
    return json.dumps({"settings": settings.model_dump(mode="json"), "archives": archives}).encode()
