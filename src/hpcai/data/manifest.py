"""Dataset manifest: every file with size, checksums and records; create, read, write and verify it."""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from hpcai.config.base import Count, Index, Name, Settings
from hpcai.config.benchmark import Split
from hpcai.core.errors import DatasetError
from hpcai.core.files import write_atomically
from hpcai.core.messages import Message, at
from hpcai.core.sealed import sealed_model, unseal
from hpcai.data.module import DataModule, FileFacts
from hpcai.data.tfrecord import read_file

NOT_AS_EXPECTED = Message("manifest.not_as_expected", "{files} of its files are not as expected:\n{problems}")
OTHER_COUNT = Message("manifest.other_count", "found {found} files beside those used, expected {expected}")
SURPLUS = Message("manifest.surplus", "not in the manifest; move it away")
CHANGED_FILE = Message(
    "manifest.changed_file",
    "{values}: not the file of the manifest; make or copy the dataset again",
)

Source = Literal["generated", "downloaded", "existing"]
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
    """One sample file: as stored, and its uncompressed content."""

    path: RelativePath
    bytes: Count
    crc32c: Checksum
    records: Count
    content_bytes: Count
    content_crc32c: Checksum
    record_offsets: tuple[Index, ...] = Field(
        default=(), description="Start of each TFRecord in the content; empty for other containers."
    )

    @property
    def facts(self) -> FileFacts:
        """The verifiable properties of the file."""
        return FileFacts(**self.model_dump(exclude={"path"}))


class ManifestHeader(Settings):
    """Description of a dataset, except for its files."""

    schema_version: Literal[2] = 2
    dataset: Name
    workload: Name
    source: Source
    edition: Name = Field(description="Which of several official variants of the container this is.")
    sample_shape: tuple[Count, ...] = Field(description="Shape of a sample's main array; empty for graphs.")
    statistics: dict[Name, tuple[float, ...]] = Field(
        default_factory=dict, description="Statistics of the training split that training needs."
    )
    samples_root: str | None = Field(default=None, description="Folder of an existing dataset; else the manifest's.")
    unused_files: dict[str, Index] = Field(
        default_factory=dict, description="Number of ignored sample files per folder."
    )
    origin: dict[str, object] = Field(default_factory=dict, description="Origin of the data.")


class Manifest(ManifestHeader):
    """A dataset with all its files."""

    splits: dict[Split, tuple[FileEntry, ...]]

    @property
    def digest(self) -> str:
        """SHA-256 of the data's properties, independent of its place, and of when and how it was made."""
        content = self.model_dump_json(exclude={"source", "samples_root", "unused_files", "origin"})
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def entries(self) -> tuple[FileEntry, ...]:
        """The files of all splits."""
        return tuple(entry for split in sorted(self.splits) for entry in self.splits[split])

    def samples(self, split: Split) -> int:
        """Return the number of samples of a split."""
        return sum(entry.records for entry in self.splits.get(split, ()))

    def root(self, manifest_path: Path) -> Path:
        """Return the folder to which the paths of the entries are relative."""
        return Path(self.samples_root) if self.samples_root else manifest_path.parent


def make_manifest(
    header: ManifestHeader,
    module: DataModule[Any],
    root: Path,
    files: Mapping[Split, Sequence[str]],
    progress: Callable[[], None] | None = None,
) -> Manifest:
    """Read every file of a dataset, check its samples, and record sizes, checksums and statistics.

    Parameters
    ----------
    header
        Description of the dataset; its statistics are computed here.
    module
        The benchmark's data module.
    root
        Folder to which the paths are relative.
    files
        Paths per split.
    progress
        Called after each file, from several threads.

    Raises
    ------
    DatasetError
        Lists every damaged file, with the place in it where it applies.
    """

    def examine(path: str) -> FileEntry | DatasetError:
        try:
            return FileEntry(path=path, **asdict(module.examine(root / path)))
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
    statistics = module.statistics(root, files)
    return Manifest.model_validate({**header.model_dump(), "splits": entries, "statistics": statistics})


def verify_dataset(
    manifest: Manifest, module: DataModule[Any], root: Path, progress: Callable[[], None] | None = None
) -> None:
    """Compare every file of a dataset with its manifest; collect all damage before reporting it.

    Parameters
    ----------
    manifest
        The expected state.
    module
        The benchmark's data module.
    root
        Folder to which the entries are relative, see `Manifest.root`.
    progress
        Called after each file, from several threads.

    Raises
    ------
    DatasetError
        One line per damage, with the file and, where it applies, the record: flipped bit, truncated tail, empty file,
        wrong size, wrong shape, missing file, surplus file.
    """

    def check(entry: FileEntry) -> str:
        try:
            return _damage(module, root, entry)
        finally:
            if progress:
                progress()

    _refuse(root, [*filter(None, in_parallel(check, manifest.entries)), *_surplus(manifest, module, root)])


def _damage(module: DataModule[Any], root: Path, entry: FileEntry) -> str:
    """Return what is wrong with a file, the most informative of several findings, or nothing."""
    file = root / entry.path
    if not file.exists():
        return f"{file}: missing, expected {entry.bytes} bytes; make or copy the dataset again"
    try:
        found = module.examine(file)
    except DatasetError as error:
        size = file.stat().st_size
        return str(error) + (f" (found {size} bytes, expected {entry.bytes})" if size != entry.bytes else "")
    expected = asdict(entry.facts)
    differing = [key for key, value in asdict(found).items() if value != expected[key]]
    if differing:
        values = ", ".join(f"found {getattr(found, key)} as {key}, expected {expected[key]}" for key in differing)
        return at(str(file), CHANGED_FILE(values=values))
    return ""


def _surplus(manifest: Manifest, module: DataModule[Any], root: Path) -> list[str]:
    """List the sample files that the manifest neither lists nor counts as unused."""
    expected = {entry.path for entry in manifest.entries}
    found = {name for names in (module.find(root) or {}).values() for name in names}
    problems: list[str] = []
    for folder in sorted({str(PurePosixPath(path).parent) for path in expected}):
        surplus = sorted(name for name in found - expected if str(PurePosixPath(name).parent) == folder)
        unused = manifest.unused_files.get(folder, 0)
        if unused and len(surplus) != unused:
            problems.append(at(str(root / folder), OTHER_COUNT(found=len(surplus), expected=unused)))
        if not unused:
            problems += [at(str(root / name), SURPLUS()) for name in surplus]
    return problems


def _refuse(root: Path, problems: Iterable[str]) -> None:
    listed = list(problems)
    if listed:
        lines = "\n".join(f"  {problem}" for problem in listed)
        raise DatasetError(at(str(root), NOT_AS_EXPECTED(files=len(listed), problems=lines)))


def in_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Apply a function that mostly releases the interpreter lock; return results in the order of the items."""
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
        If the file is missing or damaged, or has another schema.
    """
    return read_json(path, Manifest, "prepare the dataset again")


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write a manifest with a digest of its own bytes; the file appears atomically."""
    write_atomically(path, sealed_model(manifest))


Model = TypeVar("Model", bound=Settings)


def read_json(path: Path, model: type[Model], remedy: str) -> Model:
    """Read one of our JSON files; check it against the digest at its end, if there is one.

    Raises
    ------
    DatasetError
        If the file is missing or damaged, or has another schema; names the place and the remedy.
    """
    try:
        text = unseal(read_file(path)).text
    except ValueError as error:
        raise DatasetError(f"{path}: {error}; {remedy}") from error
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole file"
        found = re.sub(r"\s+", " ", repr(first["input"]))[:100]
        raise DatasetError(
            f"{path}: {place}: found {found}, expected a valid {model.__name__} ({first['msg']}); {remedy}"
        ) from None
