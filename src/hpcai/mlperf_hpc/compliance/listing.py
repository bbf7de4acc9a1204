"""Names of all files of a source, and the content of the small ones that a package check needs besides the logs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hpcai.mlperf_hpc.rounds.model import Repair
from hpcai.mlperf_hpc.rounds.source import read_files
from hpcai.mlperf_hpc.rounds.tree import RESULT, is_system_file

PARAMETERS = "package_checker_params"
DEEPEST = 3
"""An archive has the repository's folder, the organisation's, and then ``results``."""


@dataclass(frozen=True)
class Listing:
    """Files of a folder or an archive.

    Attributes
    ----------
    root
        The folder; None for an archive or a single log.
    files
        Paths below the source, with ``/``.
    folders
        Folders of a source that is a folder itself, also empty ones; those of an archive follow from its files.
    contents
        Of system files, ``package_checker_params``, and logs whose names have no number.
    """

    root: Path | None
    files: frozenset[str]
    contents: Mapping[str, bytes]
    folders: frozenset[str] = frozenset()

    def names_in(self, folder: str) -> list[str]:
        """Return the names of the files right in a folder, sorted."""
        return sorted(PurePosixPath(path).name for path in self.files if _parent(path) == folder)

    def folders_in(self, folder: str) -> list[str]:
        """Return the names of the folders right in a folder, sorted."""
        before = () if folder == "." else PurePosixPath(folder).parts
        parts = [PurePosixPath(path).parent.parts for path in self.files]
        parts += [PurePosixPath(path).parts for path in self.folders]
        size = len(before)
        return sorted({path[size] for path in parts if len(path) > size and path[:size] == before})

    def organisations(self) -> list[str]:
        """Return the folders in which ``results`` and ``systems`` lie, "." for the source itself."""
        tops = set()
        for path in self.files:
            parts = PurePosixPath(path).parts
            if "results" in parts[:DEEPEST] and len(parts) > parts.index("results") + 2:
                tops.add(PurePosixPath(*parts[: parts.index("results")]).as_posix())
        return sorted(tops)


def list_source(source: Path) -> Listing:
    """List a folder or an archive; a single log has no listing.

    Raises
    ------
    ParseError
        If an archive cannot be read to its end.
    """
    paths: list[str] = []

    def wanted(path: str) -> bool:
        paths.append(path)
        return _is_read(path)

    repairs: list[Repair] = []
    contents = dict(read_files(source, wanted, repairs))
    if not source.is_dir():
        return Listing(None, frozenset(paths), contents)
    folders = frozenset(path for path in paths if (source / path).is_dir())
    return Listing(source, frozenset(paths) - folders, contents, folders)


def _is_read(path: str) -> bool:
    name = PurePosixPath(path).name
    return name == PARAMETERS or is_system_file(path) or is_unnumbered(name)


def is_unnumbered(name: str) -> bool:
    """Tell a log whose name has no number, such as ``result_a.txt``: the package counts it, the import does not."""
    found = RESULT.fullmatch(name)
    return found is not None and not (found["number"].isascii() and found["number"].isdigit())


def _parent(path: str) -> str:
    return PurePosixPath(path).parent.as_posix()
