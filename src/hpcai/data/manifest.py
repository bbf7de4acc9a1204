"""The manifest of a dataset: every file with its size, checksums and records; made, read, written and verified."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, TypeVar

from crc32c import crc32c
from pydantic import AfterValidator, Field, ValidationError

from hpcai.config.base import Count, Index, Name, Settings
from hpcai.data.cosmoflow_sample import decode_sample
from hpcai.data.tfrecord import read_file, split_records, unpack_content
from hpcai.errors import DatasetError
from hpcai.files import write_atomically

Edition = Literal["gzip", "plain"]
Source = Literal["generated", "downloaded", "existing"]
Split = Literal["train", "validation"]
SPLITS: tuple[Split, ...] = ("train", "validation")
SUFFIX = ".tfrecord"
MAX_THREADS = 16
Item = TypeVar("Item")
Result = TypeVar("Result")


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if path != "/".join(parts) or path.startswith("/") or ".." in parts or not path.isprintable():
        raise ValueError("a relative path without '..' is allowed")
    return path


RelativePath = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_inside)]
Checksum = Annotated[str, Field(pattern=r"^[0-9a-f]{8}$", description="CRC-32C, 8 hexadecimal digits.")]


class FileEntry(Settings):
    """One sample file: as it lies on disk, and its uncompressed content."""

    path: RelativePath
    bytes: Count
    crc32c: Checksum
    records: Count
    content_bytes: Count
    content_crc32c: Checksum


class ManifestHeader(Settings):
    """What a dataset is, apart from its files."""

    schema_version: Literal[1] = 1
    dataset: Name
    source: Source
    edition: Edition
    sample_shape: tuple[Count, ...] = Field(description="Shape of x: (edge, edge, edge, channels).")
    samples_root: str | None = Field(default=None, description="Folder of an existing dataset; else the manifest's.")
    unused_files: dict[str, Index] = Field(default_factory=dict, description="Sample files per folder left aside.")
    origin: dict[str, object] = Field(default_factory=dict, description="How the data came to be.")


class Manifest(ManifestHeader):
    """A dataset with all its files."""

    splits: dict[Split, tuple[FileEntry, ...]]

    @property
    def digest(self) -> str:
        """SHA-256 of what the data is; where it lies, and when and how it was made, do not change it."""
        content = self.model_dump_json(exclude={"source", "samples_root", "unused_files", "origin"})
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """The files of all splits."""
        return tuple(entry for split in sorted(self.splits) for entry in self.splits[split])

    def root(self, manifest_path: Path) -> Path:
        """Return the folder that the paths of the entries are relative to."""
        return Path(self.samples_root) if self.samples_root else manifest_path.parent


def checksum_of(data: bytes | memoryview) -> str:
    """Return the CRC-32C of some bytes as 8 hexadecimal digits."""
    return f"{crc32c(data):08x}"


def make_manifest(
    header: ManifestHeader, root: Path, files: Mapping[Split, Sequence[str]], progress: Callable[[], None] | None = None
) -> Manifest:
    """Read every file of a dataset, check its records and their shape, and note sizes and checksums.

    Parameters
    ----------
    header
        What the dataset is.
    root
        Folder that the paths are relative to.
    files
        Paths per split.
    progress
        Called after each file, from several threads.

    Raises
    ------
    DatasetError
        Listing every damaged file, with the record where it applies.
    """

    def examine(path: str) -> FileEntry | DatasetError:
        try:
            return examine_file(root / path, path, header)
        except DatasetError as error:
            return error
        finally:
            if progress:
                progress()

    splits = {split: in_parallel(examine, sorted(paths)) for split, paths in files.items()}
    _refuse(root, [str(found) for split in splits.values() for found in split if isinstance(found, DatasetError)])
    entries = {
        split: tuple(found for found in results if isinstance(found, FileEntry)) for split, results in splits.items()
    }
    return Manifest.model_validate({**header.model_dump(), "splits": entries})


def examine_file(file: Path, path: str, header: ManifestHeader) -> FileEntry:
    """Return the entry of one file after checking its records and their shape.

    Raises
    ------
    DatasetError
        Naming file and record of the first damage.
    """
    data = read_file(file)
    content = unpack_content(data, header.edition == "gzip")
    records = 0
    for payload in split_records(content, str(file)):
        try:
            decode_sample(payload, header.sample_shape)
        except DatasetError as error:
            raise DatasetError(f"{file}: record {records}: {error}") from None
        records += 1
    return FileEntry(
        path=path,
        bytes=len(data),
        crc32c=checksum_of(data),
        records=records,
        content_bytes=len(content.data),
        content_crc32c=checksum_of(content.data),
    )


def verify_dataset(manifest: Manifest, root: Path, progress: Callable[[], None] | None = None) -> None:
    """Compare every file of a dataset with its manifest; all damage is found before anything is reported.

    Parameters
    ----------
    manifest
        What is expected.
    root
        Folder that the entries are relative to, see `Manifest.root`.
    progress
        Called after each file, from several threads.

    Raises
    ------
    DatasetError
        One line per damage, naming file and, where it applies, record: flipped bit, cut tail, empty file, wrong
        size, wrong shape, missing file, surplus file.
    """

    def check(entry: FileEntry) -> str:
        try:
            return _damage(manifest, root, entry)
        finally:
            if progress:
                progress()

    _refuse(root, [*filter(None, in_parallel(check, manifest.entries)), *_surplus(manifest, root)])


def _damage(manifest: Manifest, root: Path, entry: FileEntry) -> str:
    """Say what is wrong with a file; the most telling of several findings, or nothing."""
    file = root / entry.path
    if not file.exists():
        return f"{file}: missing, expected {entry.bytes} bytes; make or copy the dataset again"
    try:
        found = examine_file(file, entry.path, manifest)
    except DatasetError as error:
        size = file.stat().st_size
        return str(error) + (f" (found {size} bytes, expected {entry.bytes})" if size != entry.bytes else "")
    differing = [key for key in FileEntry.model_fields if getattr(found, key) != getattr(entry, key)]
    if differing:
        values = ", ".join(f"found {getattr(found, key)} as {key}, expected {getattr(entry, key)}" for key in differing)
        return f"{file}: {values}: not the file of the manifest; make or copy the dataset again"
    return ""


def read_content(manifest: Manifest, root: Path, entry: FileEntry) -> bytes:
    """Return the uncompressed bytes of a file, verified against its manifest.

    Raises
    ------
    DatasetError
        Naming the file and, where it applies, the record of the damage.
    """
    data = read_file(root / entry.path)
    if len(data) == entry.bytes and checksum_of(data) == entry.crc32c:
        content = unpack_content(data, manifest.edition == "gzip")
        if not content.problem and checksum_of(content.data) == entry.content_crc32c:
            return content.data
    raise DatasetError(_damage(manifest, root, entry) or f"{root / entry.path}: changed while it was read; try again")


def _surplus(manifest: Manifest, root: Path) -> list[str]:
    """Name the sample files that the manifest neither lists nor counts as left aside."""
    expected = {entry.path for entry in manifest.entries}
    problems: list[str] = []
    for folder in sorted({str(PurePosixPath(path).parent) for path in expected}):
        surplus = [name for name in sample_files(root, folder) if name not in expected]
        unused = manifest.unused_files.get(folder, 0)
        if unused and len(surplus) != unused:
            problems.append(f"{root / folder}: found {len(surplus)} files beside those used, expected {unused}")
        if not unused:
            problems += [f"{root / name}: surplus, not in the manifest; move it away" for name in surplus]
    return problems


def sample_files(root: Path, folder: str) -> list[str]:
    """Return the sample files directly in a folder, sorted, relative to ``root``; none if there is no such folder."""
    try:
        with os.scandir(root / folder) as entries:
            names = sorted(entry.name for entry in entries if entry.name.endswith(SUFFIX) and entry.is_file())
    except FileNotFoundError:
        return []
    return [f"{folder}/{name}" for name in names]


def _refuse(root: Path, problems: Iterable[str]) -> None:
    listed = list(problems)
    if listed:
        lines = "\n".join(f"  {problem}" for problem in listed)
        raise DatasetError(f"{root}: {len(listed)} of its files are not as expected:\n{lines}")


def in_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function that spends its time outside the interpreter lock; results in the order of the items."""
    threads = min(MAX_THREADS, len(os.sched_getaffinity(0)), max(1, len(items)))
    with ThreadPoolExecutor(threads) as pool:
        try:
            return list(pool.map(function, items))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def read_manifest(path: Path) -> Manifest:
    """Read a manifest.

    Raises
    ------
    DatasetError
        If the file is missing or damaged, or of another schema.
    """
    return read_json(path, Manifest, "prepare the dataset again")


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write a manifest; the file appears whole or not at all."""
    write_atomically(path, (manifest.model_dump_json(indent=1) + "\n").encode())


Model = TypeVar("Model", bound=Settings)


def read_json(path: Path, model: type[Model], remedy: str) -> Model:
    """Read a JSON file of ours; whatever is wrong with it is a DatasetError that says where."""
    try:
        return model.model_validate_json(read_file(path))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        found = re.sub(r"\s+", " ", repr(first["input"]))[:100]
        raise DatasetError(
            f"{path}: {place}: found {found}, expected a valid {model.__name__} ({first['msg']}); {remedy}"
        ) from None
