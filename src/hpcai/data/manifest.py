"""Dataset manifest: every file with size, checksums and records; create, read, write and verify it."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

from hpcai.config.base import Count, Index, Name, Settings
from hpcai.config.benchmark import Split
from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.module import DataModule, FileFacts
from hpcai.data.table import Table
from hpcai.data.tabled import content_digest, read_tabled, write_tabled

NOT_AS_EXPECTED = Message("manifest.not_as_expected", "{files} of its files are not as expected:\n{problems}")
OTHER_COUNT = Message("manifest.other_count", "found {found} files beside those used, expected {expected}")
SURPLUS = Message("manifest.surplus", "not in the manifest; move it away")
CHANGED_FILE = Message(
    "manifest.changed_file",
    "{values}: not the file of the manifest; make or copy the dataset again",
)

Source = Literal["generated", "downloaded", "existing"]
MAX_THREADS = 16
_NO_CONTENT = frozenset({"source", "samples_root", "unused_files", "origin"})
"""Fields that say where the data is, and when and how it was made."""
_AT_ONCE = 4096
"""Files examined together: what waits for a thread takes memory."""
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

    splits: dict[Split, Table[FileEntry]]

    @property
    def digest(self) -> str:
        """SHA-256 of the data's properties, independent of its place, and of when and how it was made."""
        return content_digest(self, _NO_CONTENT)

    @property
    def entries(self) -> Table[FileEntry]:
        """The files of all splits."""
        return Table.joined(FileEntry, [self.splits[split] for split in sorted(self.splits)])

    def files(self, split: Split) -> Table[FileEntry]:
        """Return the files of a split."""
        return self.splits.get(split) or Table.of(FileEntry, ())

    def samples(self, split: Split) -> int:
        """Return the number of samples of a split."""
        return self.files(split).total("records")

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

    problems: list[str] = []

    def sound(paths: Sequence[str]) -> Iterator[FileEntry]:
        for start in range(0, len(paths), _AT_ONCE):
            for found in in_parallel(examine, paths[start : start + _AT_ONCE]):
                if isinstance(found, FileEntry):
                    yield found
                else:
                    problems.append(str(found))

    entries = {split: Table.collected(FileEntry, sound(sorted(paths))) for split, paths in files.items()}
    _refuse(root, problems)
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

    entries = manifest.entries
    blocks = (entries[start : start + _AT_ONCE] for start in range(0, len(entries), _AT_ONCE))
    problems = [problem for block in blocks for problem in in_parallel(check, block) if problem]
    _refuse(root, [*problems, *_surplus(manifest, module, root)])


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
    expected = set(manifest.entries.texts("path"))
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
    return read_tabled(path, Manifest, _NO_CONTENT, "prepare the dataset again")


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write a manifest with a digest of its own bytes; the file appears atomically."""
    write_tabled(manifest, path, _NO_CONTENT)
