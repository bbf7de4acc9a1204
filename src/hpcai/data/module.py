"""Interface of a benchmark's data; manifest, packing, staging and preparation build on it."""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from crc32c import crc32c

from hpcai.config.benchmark import DataSettings, Split
from hpcai.core.errors import DatasetError
from hpcai.core.files import regular_bytes
from hpcai.core.messages import Message, at
from hpcai.data.archives import UnpackLimits, unpack_archive
from hpcai.data.catalogue import Archive

SEVERAL_FOLDERS = Message("module.several_folders", "found {found} for {split}, expected one of them; move one away")
CHANGED_FILE = Message(
    "module.changed_file",
    "found {found_bytes} bytes with checksum {found_crc32c}, expected {expected_bytes} with {expected_crc32c}: "
    "not the file of the manifest; make or copy the dataset again",
)

FOLDERS: dict[Split, tuple[str, ...]] = {"train": ("train",), "validation": ("validation", "val")}
"""Folders of the official layouts; CosmoFlow's description calls the second ``val``, its code ``validation``."""
_BLOCK_BYTES = 8 << 20

Found = Mapping[Split, Sequence[str]]
"""Sample files per split, sorted, relative to a root."""
Data = TypeVar("Data", bound=DataSettings)
Result = TypeVar("Result")


@dataclass(frozen=True)
class FileFacts:
    """Findings for one sample file.

    ``content``: the content after removing compression of the whole file. ``record_offsets``: start of each TFRecord in
    it, empty for other containers.
    """

    bytes: int
    crc32c: str
    records: int
    content_bytes: int
    content_crc32c: str
    record_offsets: tuple[int, ...] = ()


Finding = FileFacts | DatasetError


@dataclass(frozen=True)
class Member:
    """One TFRecord file as staged: plain, with one or more samples; the name has no folder."""

    name: str
    content: bytes
    record_offsets: tuple[int, ...]


@dataclass(frozen=True)
class SampleSizes:
    """Sample size as far as settings determine it, before a sample exists; None where sizes vary.

    ``container_bytes``: size in the official container without compression. ``record_bytes``: size of its TFRecord
    record. ``compressed``: whether the container needs less than ``container_bytes``.
    """

    container_bytes: int | None = None
    record_bytes: int | None = None
    compressed: bool = False


class DataModule(ABC, Generic[Data]):
    """One benchmark's data: official container and layout, generator, and the records for TensorFlow.

    A sample reaches TensorFlow as one TFRecord record, a tf.train.Example. `members` converts other containers (HDF5,
    LMDB) once, when the dataset is packed: a change of container that adds no information and no copies, as the rules
    allow (MLPerf training rules 6.1).
    """

    sidecars: ClassVar[tuple[str, ...]] = ()
    """Files without samples, such as ``stats.h5``; a prepared dataset has them in its root."""
    one_sample_per_file: ClassVar[bool] = False
    """Whether only as many files as needed are examined."""
    member_samples: ClassVar[int | None] = None
    """Most samples of a member, if earlier versions had another number: a packing that they began starts again."""

    def __init__(self, settings: Data) -> None:
        self.settings = settings

    @property
    @abstractmethod
    def sample_shape(self) -> tuple[int, ...]:
        """Shape of a sample's main array in the container; () for graphs."""

    def split_files(self, split: Split) -> int | None:
        """Return the number of files of a split according to the settings; None if they do not determine it."""
        return self.settings.samples(split) if self.one_sample_per_file else None

    def sample_sizes(self) -> SampleSizes:
        """Return the sample size according to the settings, for estimates; by default sizes vary."""
        return SampleSizes()

    @property
    def edition(self) -> str:
        """The official variant of the container."""
        return "official"

    @abstractmethod
    def find(self, root: Path) -> Found | None:
        """Return the sample files of each split if the official layout begins at ``root``, else None."""

    @abstractmethod
    def examine(self, file: Path) -> FileFacts:
        """Read one sample file whole and check container, schema, shapes, types and values.

        Raises
        ------
        DatasetError
            Names file, place, what was found, what was expected and what to do.
        """

    def examine_together(self, root: Path, paths: Sequence[str]) -> list[Finding]:
        """Return what `examine` finds for each of some files below a root, or what is wrong with it."""
        return [finding_of(partial(self.examine, root / path)) for path in paths]

    def steps(self, file: Path) -> Sequence[Callable[[], Any]]:
        """Return what `examine` does as calls that several processes can share; by default it is one.

        The first returns the facts of the file. Each of the others checks some samples, and returns a list of what
        `statistics` wants to know about them. The first error in the order of the calls is that of `examine`.
        """
        return (partial(self.examine, file),)

    def member_count(self, facts: FileFacts) -> int:  # noqa: ARG002
        """Return how many members `members` yields for a file; files with several are packed in parts."""
        return 1

    def split_members(self, split: Split) -> int | None:
        """Return the number of members of a split according to the settings; None if they do not determine it."""
        return self.split_files(split)

    def require_unchanged(self, file: Path, facts: FileFacts) -> None:
        """Raise DatasetError if a file has changed since it was examined."""
        require_unchanged(file, facts)

    @abstractmethod
    def members(self, file: Path, facts: FileFacts, numbers: range | None = None) -> Iterator[Member]:
        """Yield the file's samples as TFRecord files of moderate size.

        Parameters
        ----------
        file, facts
            A sample file as it was examined.
        numbers
            Only these members, of a file that `require_unchanged` has checked; None: check the file, and yield all.

        Raises
        ------
        DatasetError
            If the file no longer matches ``facts``.
        """

    @abstractmethod
    def generate(self, folder: Path) -> dict[str, object]:
        """Write a small dataset in the official layout and container; return the generator's facts (version, seed).

        Equal settings give equal files for any number of processes.
        """

    def statistics(
        self,
        root: Path,  # noqa: ARG002
        found: Found,  # noqa: ARG002
        examined: Mapping[str, Sequence[Any]] | None = None,  # noqa: ARG002
        records: Mapping[Split, Sequence[int]] | None = None,  # noqa: ARG002
    ) -> dict[str, tuple[float, ...]]:
        """Return the statistics of the training split that training needs (means, extremes), by name.

        They become part of the manifest and thus of its digest.

        Parameters
        ----------
        root, found
            Folder, and the sample files that belong to the dataset.
        examined
            What the later `steps` of files returned, in order, by path, as far as it is known.
        records
            Number of samples of each file, if it is known.

        Raises
        ------
        DatasetError
            If a required statistic is missing or not finite.
        """
        return {}

    def sidecar(self, root: Path, name: str, found: Found) -> Path:  # noqa: ARG002
        """Return the place of one of the `sidecars`; by default it is the root.

        Parameters
        ----------
        root, found
            Folder and sample files.
        name
            Name of the file.
        """
        return root / name

    def arrange(self, archives: Sequence[tuple[Archive, Path]], folder: Path, content_bytes: int) -> None:
        """Arrange downloaded files in the official layout below the empty ``folder``; by default, unpack each archive.

        Parameters
        ----------
        archives
            Rows of datasets.tsv with the verified files, which stay in place.
        folder
            Target folder.
        content_bytes
            Maximum number of bytes to write: the free space.
        """
        for archive, path in archives:
            if archive.format == "tar" or archive.format == "tgz":  # noqa: PLR1714  so that types narrow
                unpack_archive(path, folder, archive.format, UnpackLimits(content_bytes=content_bytes))
            elif archive.format == "folder":
                shutil.copytree(path, folder, copy_function=os.link, dirs_exist_ok=True)
            else:
                (folder / path.name).hardlink_to(path)


def finding_of(examine: Callable[[], Result]) -> Result | DatasetError:
    """Return what a call returns, or its error."""
    try:
        return examine()
    except DatasetError as error:
        return error


def checksum_of(data: bytes | memoryview) -> str:
    """Return the CRC-32C of some bytes as 8 hexadecimal digits."""
    return f"{crc32c(data):08x}"


def file_checksum(path: Path) -> tuple[int, str]:
    """Return the size of a file and its CRC-32C as 8 hexadecimal digits, for files of any size.

    Raises
    ------
    DatasetError
        If the file cannot be read.
    """
    size, crc = 0, 0
    try:
        regular_bytes(path)
        with path.open("rb") as stream:
            while block := stream.read(_BLOCK_BYTES):
                crc = crc32c(block, crc)
                size += len(block)
    except OSError as error:
        raise DatasetError(
            f"{path}: cannot be read ({error.strerror}), expected a readable file; make the dataset again"
        ) from error
    return size, f"{crc:08x}"


def require_unchanged(file: Path, facts: FileFacts) -> None:
    """Check that a file is unchanged since it was examined.

    Raises
    ------
    DatasetError
        If its size or checksum differs.
    """
    size, crc = file_checksum(file)
    if (size, crc) != (facts.bytes, facts.crc32c):
        raise DatasetError(
            at(
                str(file),
                CHANGED_FILE(
                    found_bytes=size, found_crc32c=crc, expected_bytes=facts.bytes, expected_crc32c=facts.crc32c
                ),
            )
        )


def split_folders(root: Path) -> dict[Split, str] | None:
    """Return the split folders (train, validation or val), if a folder layout begins here.

    Raises
    ------
    DatasetError
        If there are two folders for one split.
    """
    present = {split: [name for name in names if (root / name).is_dir()] for split, names in FOLDERS.items()}
    for split, names in present.items():
        if len(names) > 1:
            raise DatasetError(at(str(root), SEVERAL_FOLDERS(found=" and ".join(names), split=split)))
    return {split: names[0] for split, names in present.items()} if all(present.values()) else None


def files_in_folders(root: Path, wanted: Callable[[str], bool]) -> dict[Split, list[str]] | None:
    """Return the wanted files in `split_folders`, sorted, relative to ``root``."""
    folders = split_folders(root)
    if folders is None:
        return None
    return {split: files_in(root, folder, wanted) for split, folder in folders.items()}


def files_in(root: Path, folder: str, wanted: Callable[[str], bool]) -> list[str]:
    """Return the wanted files in a folder (``.``: in ``root``), sorted, relative to ``root``; none if it is missing."""
    place = root / folder
    if not place.is_dir():
        return []
    # Texts, one list of them: a path object of each leaves its name in a table of Python's that never shrinks.
    before = "" if folder == "." else f"{folder}/"
    return sorted(before + name for name in os.listdir(place) if wanted(name))  # noqa: PTH208
