"""A source of published logs, opened once: facts from paths and small files, and its logs one by one."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from hpcai.core.errors import ParseError
from hpcai.core.files import real_path
from hpcai.mlperf_hpc.rounds.archives import is_archive
from hpcai.mlperf_hpc.rounds.limits import Budget
from hpcai.mlperf_hpc.rounds.model import Repair, System
from hpcai.mlperf_hpc.rounds.pairing import number_in
from hpcai.mlperf_hpc.rounds.selection import Entry, Files, admit, fits
from hpcai.mlperf_hpc.rounds.source import read_files, read_start, require_text
from hpcai.mlperf_hpc.rounds.systems import read_system
from hpcai.mlperf_hpc.rounds.tree import (
    PARAMETERS,
    SCALING_FILE,
    Place,
    is_power_log,
    is_readme,
    is_system_file,
    is_unnumbered,
    is_wanted,
    place_of,
)
from hpcai.parsers.identify import describe
from hpcai.parsers.mllog import TOKEN

DEEPEST = 3
"""An archive contains the repository's folder, the organisation's, and then ``results``."""
LARGEST_FACTOR = 100.0
"""Largest factor accepted from scaling.json; the largest published penalty is 1.023."""


@dataclass
class SourceIndex:
    """One source: a result repository, a part of one, a log, or an archive. It is only read.

    The attributes are complete once :meth:`logs` is exhausted, which opens the source a single time.

    Attributes
    ----------
    source
        The folder, log or archive.
    entries
        Names, sizes and broken links of a folder; None if not requested.
    repairs
        Files left out, and values read differently than written.
    contents
        Content of the files that a package check reads besides logs: system files, ``package_checker_params``, and
        logs without a number in their names.
    sha256
        Digest of each log and system file of a folder.
    systems, factors, readme
        The system files; factors of ``scaling.json`` by their folders; the beginning of the first README.

    Raises
    ------
    ParseError
        If the source does not exist, or its name is not valid text.
    """

    source: Path
    entries: list[Entry] | None = None
    repairs: list[Repair] = field(default_factory=list)
    contents: dict[str, bytes] = field(default_factory=dict)
    sha256: dict[str, str] = field(default_factory=dict)
    systems: list[System] = field(default_factory=list)
    factors: dict[str, float] = field(default_factory=dict)
    readme: str = ""
    _paths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        require_text(self.source)
        expected = "expected a result repository, a log or an archive"
        try:
            self.is_log = self.source.is_file() and not is_archive(self.source)
        except OSError as error:
            raise ParseError(f"{self.source}: {error.strerror}, {expected}") from error
        if not self.source.exists():
            raise ParseError(f"{self.source}: no such file or folder, {expected}")
        if not (self.source.is_dir() or self.source.is_file()):
            raise ParseError(
                f"{self.source}: found neither a file nor a folder, expected a result repository or an archive"
            )

    @cached_property
    def root(self) -> Path | None:
        """The folder; None for an archive or a single log."""
        return self.source if self.source.is_dir() else None

    def logs(self) -> Iterator[tuple[Place, bytes]]:
        """Yield each log with its place, and collect facts from all other files on the way.

        Raises
        ------
        ParseError
            If the source cannot be read to its end, or is larger than the limits.
        """
        if self.is_log:
            yield from self._single_log()
            return
        around = real_path(self.source).parts if self.root else ()
        for path, content in read_files(self.source, self._wants, self.repairs, entries=self.entries):
            yield from self._take(path, content, around)
        # Neither a file that only the package check reads, nor one that it ignores, is part of a round.
        self.repairs[:] = [one for one in self.repairs if not _is_read_by_the_package_alone(one.source)]

    def _wants(self, path: str) -> bool:
        self._paths.append(path)
        return is_wanted(path) or _is_for_the_package(path)

    def _take(self, path: str, content: bytes, around: tuple[str, ...]) -> Iterator[tuple[Place, bytes]]:
        if _is_for_the_package(path):
            self.contents[path] = content
        if not is_wanted(path):
            return
        if is_system_file(path):
            self._digest(path, content)
            system = read_system(path, content, self.repairs)
            self.systems += [system] if system else []
        elif is_readme(path):
            self.readme = self.readme or content[:4096].decode("utf-8", "replace")
        elif PurePosixPath(path).name == SCALING_FILE:
            self._take_factor(path, content)
        elif place := place_of(path, around, self.repairs):
            self._digest(path, content)
            yield place, content

    def _digest(self, path: str, content: bytes) -> None:
        if self.root is not None:
            self.sha256[path] = hashlib.sha256(content).hexdigest()

    def _take_factor(self, path: str, content: bytes) -> None:
        try:
            fields = json.loads(content)
            factor = number_in(fields["scaling_factor"])
        except (ValueError, KeyError, TypeError, RecursionError):
            factor = None
        if factor is None or not 1 <= factor <= LARGEST_FACTOR:
            found = f"no scaling_factor from 1 to {LARGEST_FACTOR:g} in {content[:60]!r}"
            self.repairs.append(Repair(path, "scaling_factor", "scaling_unreadable", found, "no factor is applied"))
        else:
            self.factors[PurePosixPath(path).parent.as_posix()] = factor

    def _single_log(self) -> Iterator[tuple[Place, bytes]]:
        """Yield the log, whatever its name."""
        source = self.source
        place = place_of(source.name, real_path(source).parts[:-1], [])
        if place is None:
            self.repairs.append(Repair(source.name, "name", "result_without_number", source.name, "taken as number 1"))
            place = Place(source.name, 1, ".", "", "", "", "", ".", False)
        try:
            content = read_start(source)
        except OSError as error:
            raise ParseError(f"{source}: {error.strerror}, expected an MLPerf log that can be read") from error
        if TOKEN.encode() not in content:
            raise ParseError(
                f"{source}: found {describe(content[:65536])}, expected an MLPerf log, a result repository, or a .tar, "
                ".tar.gz, .tar.xz, .tar.bz2 or .zip of one"
            )
        if fits(source.name, len(content), self.repairs):
            parts: Files = admit(source.name, content, Budget(source), self.repairs)
            yield from ((place, part) for _, part in parts)

    # Facts from the paths, available once all paths are known.

    @cached_property
    def files(self) -> frozenset[str]:
        """Paths of all files, with ``/``."""
        return frozenset(self._paths) - self.folders

    @cached_property
    def folders(self) -> frozenset[str]:
        """Folders of a source folder, including empty ones; those of an archive follow from its files."""
        root = self.root
        return frozenset() if root is None else frozenset(path for path in self._paths if (root / path).is_dir())

    @cached_property
    def power_logs(self) -> tuple[str, ...]:
        """Paths of the power logs."""
        return tuple(path for path in self._paths if is_power_log(path))

    @cached_property
    def unnumbered(self) -> tuple[str, ...]:
        """Paths of the logs without a number in their names: the package counts them, a round does not."""
        return tuple(path for path in self.contents if is_unnumbered(path))

    def names_in(self, folder: str) -> list[str]:
        """Return the names of the files directly in a folder, sorted."""
        return self._names.get(folder, [])

    def folders_in(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder, sorted."""
        return sorted(self._below.get(() if folder == "." else PurePosixPath(folder).parts, ()))

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {}
        for path in map(PurePosixPath, self.files):
            names.setdefault(path.parent.as_posix(), []).append(path.name)
        return {folder: sorted(own) for folder, own in names.items()}

    @cached_property
    def _below(self) -> dict[tuple[str, ...], set[str]]:
        below: dict[tuple[str, ...], set[str]] = {}
        whole = {PurePosixPath(path).parent.parts for path in self.files}
        for parts in whole | {PurePosixPath(path).parts for path in self.folders}:
            for depth, name in enumerate(parts):
                below.setdefault(parts[:depth], set()).add(name)
        return below

    def organisations(self) -> list[str]:
        """Return the folders that contain ``results`` and ``systems``, "." for the source itself."""
        tops = set()
        for path in self.files:
            parts = PurePosixPath(path).parts
            if "results" in parts[:DEEPEST] and len(parts) > parts.index("results") + 2:
                tops.add(PurePosixPath(*parts[: parts.index("results")]).as_posix())
        return sorted(tops)


def _is_for_the_package(path: str) -> bool:
    return PurePosixPath(path).name == PARAMETERS or is_system_file(path) or is_unnumbered(path)


def _is_read_by_the_package_alone(path: str) -> bool:
    return _is_for_the_package(path) and not is_wanted(path)
