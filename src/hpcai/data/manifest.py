"""Dataset manifest: every file with size, checksums and records; create, read, write and verify it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from hpcai.config.base import Count, Index, Name, Settings
from hpcai.config.benchmark import Split
from hpcai.core.errors import DatasetError
from hpcai.core.messages import Message, at
from hpcai.data.examine import Examination
from hpcai.data.module import DataModule, FileFacts, Finding
from hpcai.data.table import ODD_PART, Table, accepts
from hpcai.data.tabled import content_digest, read_tabled, write_tabled

NOT_AS_EXPECTED = Message("manifest.not_as_expected", "{files} of its files are not as expected:\n{problems}")
OTHER_COUNT = Message("manifest.other_count", "found {found} files beside those used, expected {expected}")
SURPLUS = Message("manifest.surplus", "not in the manifest; move it away")
CHANGED_FILE = Message(
    "manifest.changed_file",
    "{values}: not the file of the manifest; make or copy the dataset again",
)

ODD_FACTS = Message(
    "manifest.odd_facts",
    "{file!r}: found {found!r} as {field}, expected another value ({reason}); rename the file",
)

Source = Literal["generated", "downloaded", "existing"]
_NO_CONTENT = frozenset({"source", "samples_root", "unused_files", "origin"})
"""Fields that say where the data is, and when and how it was made."""


def _inside(path: str) -> str:
    if ODD_PART.search(path) or not path.isprintable():
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


Keep = Callable[[Split, Table[FileEntry]], Table[FileEntry]]


def make_manifest(
    header: ManifestHeader,
    module: DataModule[Any],
    root: Path,
    files: Mapping[Split, Sequence[str]],
    progress: Callable[[int], None] | None = None,
    keep: Keep = lambda _, entries: entries,
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
        Sorted paths per split.
    progress
        Called with the number of files examined since the last call.
    keep
        Returns the first of a split's files that belong to the dataset; by default all do. Statistics are theirs.

    Raises
    ------
    DatasetError
        Lists every damaged file, with the place in it where it applies.
    """
    tables, problems, samples = list[Table[FileEntry]](), list[str](), dict[str, list[Any]]()
    for paths in files.values():
        examination = Examination(module, root, paths, partial(_entries, root, paths), progress)
        for table, damage in examination:
            tables.append(table)
            problems += damage
        samples |= examination.samples
    _refuse(root, problems)
    entries, first, splits = Table.stacked(FileEntry, tables), 0, dict[Split, Table[FileEntry]]()
    for split, paths in files.items():
        splits[split], first = keep(split, entries[first : first + len(paths)]), first + len(paths)
    kept = {split: files[split][: len(own)] for split, own in splits.items()}
    statistics = module.statistics(root, kept, samples, records_of(splits))
    return Manifest.model_validate({**header.model_dump(), "splits": splits, "statistics": statistics})


def records_of(splits: Mapping[Split, Table[FileEntry]]) -> dict[Split, list[int]]:
    """Return the number of samples of each file."""
    return {split: entries.numbers("records").tolist() for split, entries in splits.items()}


def _entries(
    root: Path, paths: Sequence[str], first: int, found: Sequence[Finding]
) -> tuple[Table[FileEntry], list[str]]:
    """Return sound files as a table, and what is wrong with the others."""
    pairs = list(zip(paths[first : first + len(found)], found, strict=True))
    problems = [str(one) for _, one in pairs if isinstance(one, DatasetError)]
    sound = [(path, one) for path, one in pairs if isinstance(one, FileFacts)]
    values = {"path": [path for path, _ in sound]}
    values |= {field.name: [getattr(one, field.name) for _, one in sound] for field in fields(FileFacts)}
    if accepts(FileEntry, values):
        return Table.of_values(FileEntry, values), problems
    return Table.of(FileEntry, []), problems + [words for path, one in sound for words in _odd_facts(root, path, one)]


def _odd_facts(root: Path, path: str, found: FileFacts) -> list[str]:
    try:
        FileEntry(path=path, **vars(found))
    except ValidationError as error:
        odd = error.errors()[0]
        words = ODD_FACTS(file=path, field=odd["loc"][0], found=odd["input"], reason=odd["msg"])
        return [at(str(root), words)]
    return []


def verify_dataset(
    manifest: Manifest, module: DataModule[Any], root: Path, progress: Callable[[int], None] | None = None
) -> dict[str, list[Any]]:
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
        Called with the number of files examined since the last call.

    Returns
    -------
    dict
        For `DataModule.statistics`: what the steps of examining told about samples, by path.

    Raises
    ------
    DatasetError
        One line per damage, with the file and, where it applies, the record: flipped bit, truncated tail, empty file,
        wrong size, wrong shape, missing file, surplus file.
    """
    entries = manifest.entries

    def conclude(first: int, found: Sequence[Finding]) -> list[str]:
        pairs = zip(entries[first : first + len(found)], found, strict=True)
        return [problem for entry, finding in pairs if (problem := _damage(root / entry.path, entry, finding))]

    examination = Examination(module, root, entries.texts("path"), conclude, progress)
    problems = [problem for some in examination for problem in some]
    _refuse(root, [*problems, *_surplus(manifest, module, root)])
    return examination.samples


def _damage(file: Path, entry: FileEntry, found: Finding) -> str:
    """Return what is wrong with a file, the most informative of several findings, or nothing."""
    if isinstance(found, DatasetError):
        if not file.exists():
            return f"{file}: missing, expected {entry.bytes} bytes; make or copy the dataset again"
        size = file.stat().st_size
        return str(found) + (f" (found {size} bytes, expected {entry.bytes})" if size != entry.bytes else "")
    expected = vars(entry.facts)
    differing = [key for key, value in vars(found).items() if value != expected[key]]
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
