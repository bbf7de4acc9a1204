"""Find the submissions below folders, and list their files: regular ones only, and not too many."""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpcai.core.errors import ParseError
from hpcai.core.files import file_sha256
from hpcai.core.messages import Message, at
from hpcai.listing.entries import File, Reason, Refusal, make_id
from hpcai.mlperf_hpc.rounds.archives import is_archive
from hpcai.mlperf_hpc.rounds.texts import is_text, printable

MISSING = Message("sources.missing", "no such file or folder")
UNKNOWN = Message(
    "sources.unknown",
    "found no submission, expected a package of `hpcai list submit`, a results folder, a report document, an MLPerf "
    "HPC round or a YAML file of declared results",
)
LINK = Message("sources.link", "found a symbolic link to {target}; submit the file itself")
NO_FILE = Message("sources.no_file", "found neither a file nor a folder")
BAD_NAME = Message("sources.bad_name", "found a name with control characters or without UTF-8")
TOO_LARGE = Message("sources.too_large", "found more than {most} {what}, which no submission needs")
TWICE = Message("sources.twice", "found two submissions of the name {name!r}; rename one")

Kind = Literal["package", "document", "results", "round", "declared"]
PACKAGE_FILE = "submission.yaml"
DOCUMENT_FILE = "report.json"
RUNS_TABLE = Path("tables", "runs.parquet")
FILES, BYTES = 200_000, 8 << 30
"""Limits of one submission, far above any published round."""
DEEPEST = 4
"""Folders between a named folder and a submission in it."""
BESIDE = {
    "readme.md", "license", "licence", "citation.cff", "editions", "contributing.md", "makefile",
}  # fmt: skip
"""Names in a repository of submissions that are no submissions, in lower case."""
PULL_REQUEST = ".pull_request.md"
"""End of the name of the text that `hpcai list submit` writes beside a package."""
YAML = (".yaml", ".yml")


@dataclass(frozen=True)
class Source:
    """One submission: its name in the list, what it is, and where."""

    name: str
    kind: Kind
    path: Path


def refusal_of(submission: str, error: Exception, place: str = "", root: Path | None = None) -> Refusal:
    """Return an error as the refusal of a submission, with its code.

    Paths of the machine that builds the list, below `root`, become paths in the submission.
    """
    code = str(getattr(error, "code", "") or type(error).__name__)
    words = str(error) if root is None else str(error).replace(str(root), submission)
    text = printable(" ".join(words.split()))[:1500]
    return Refusal(
        id=make_id("refused", submission, place), submission=submission, place=place,
        reasons=(Reason(code=code, text=text, place=place),),
    )  # fmt: skip


def find_sources(folders: Sequence[Path]) -> tuple[list[Source], list[Refusal]]:
    """Return the submissions below folders, and what is none of them.

    Parameters
    ----------
    folders
        Submissions, or folders of submissions up to :data:`DEEPEST` levels above them. Hidden names and those of
        :data:`BESIDE` are no submissions; a named folder that holds these alone is a list without submissions yet.
        Links are followed only if they are named here.

    Raises
    ------
    ParseError
        If a named folder does not exist, or two submissions have one name.
    """
    found: list[Source] = []
    refused: list[Refusal] = []
    for folder in folders:
        if not folder.exists():
            raise ParseError(at(str(folder), MISSING()))
        if _is_new_list(folder):
            continue
        for path, kind in _search(folder, DEEPEST):
            name = _name(path, folder)
            if kind is None:
                words = LINK(target=str(path.readlink())[:200]) if path.is_symlink() else UNKNOWN()
                refused.append(refusal_of(printable(name), ParseError(words)))
            else:
                found.append(Source(printable(name), kind, path))
    names = [source.name for source in found]
    for name in sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else ():
        raise ParseError(TWICE(name=name))
    return found, refused


def _name(path: Path, folder: Path) -> str:
    return path.name if path == folder else path.relative_to(folder).as_posix()


def _is_new_list(folder: Path) -> bool:
    """Return whether a folder has something, but only what lies beside submissions, as after `hpcai list init`."""
    inside = [entry.name for entry in folder.iterdir()] if folder.is_dir() and kind_of(folder) is None else []
    return bool(inside) and all(map(_is_beside, inside))


def _search(path: Path, depth: int) -> Iterator[tuple[Path, Kind | None]]:
    kind = kind_of(path)
    if kind or depth == 0 or not path.is_dir():
        yield path, kind
        return
    inside = sorted(entry for entry in path.iterdir() if not _is_beside(entry.name))
    if not inside:
        yield path, None
    for entry in inside:
        if entry.is_symlink():
            yield entry, None
        else:
            yield from _search(entry, depth - 1)


def _is_beside(name: str) -> bool:
    return name.startswith(".") or name.lower() in BESIDE or name.endswith(PULL_REQUEST)


def kind_of(path: Path) -> Kind | None:
    """Return what a path is; None if it is no submission by itself."""
    if path.is_file():
        if path.suffix.lower() in YAML:
            return "declared"
        return "round" if is_archive(path) else None
    if not path.is_dir():
        return None
    if (path / PACKAGE_FILE).is_file() or (path / DOCUMENT_FILE).is_file():
        return "package" if (path / PACKAGE_FILE).is_file() else "document"
    if (path / RUNS_TABLE).is_file() or (path / "runs").is_dir():
        return "results"
    return "round" if _is_round(path) else None


def _is_round(path: Path) -> bool:
    """Return whether a folder is an organisation's or a repository of them: folders `results` beside `systems`."""
    places = [path, *(entry for entry in sorted(path.iterdir()) if entry.is_dir() and not entry.is_symlink())]
    return any((place / "results").is_dir() and (place / "systems").is_dir() for place in places)


def list_files(path: Path) -> list[tuple[str, os.stat_result]]:
    """Return all files of a submission by relative path, sorted; the name itself for a single file.

    Raises
    ------
    ParseError
        If it contains a link, a device or a name that is not text, or exceeds the limits.
    """
    if path.is_file():
        return [(path.name, path.stat())]
    files: list[tuple[str, os.stat_result]] = []
    size_bytes = 0
    for name, facts in _walk(path, ""):
        size_bytes += facts.st_size
        files.append((name, facts))
        if len(files) > FILES:
            raise ParseError(at(path.name, TOO_LARGE(most=FILES, what="files")))
        if size_bytes > BYTES:
            raise ParseError(at(path.name, TOO_LARGE(most=BYTES, what="bytes")))
    return sorted(files)


def _walk(folder: Path, above: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = f"{above}{entry.name}"
            if not is_text(entry.name):
                raise ParseError(at(printable(name), BAD_NAME()))
            facts = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(facts.st_mode):
                raise ParseError(at(name, LINK(target=printable(str(Path(entry.path).readlink()))[:200])))
            if stat.S_ISDIR(facts.st_mode):
                if entry.name != ".git":
                    yield from _walk(Path(entry.path), f"{name}/")
            elif stat.S_ISREG(facts.st_mode):
                yield name, facts
            else:
                raise ParseError(at(name, NO_FILE()))


def glance_at(files: Iterable[tuple[str, os.stat_result]]) -> str:
    """Return a digest of names, sizes and times: equal if nothing was written since."""
    facts = [(name, one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino) for name, one in files]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def digest_files(path: Path, files: Iterable[tuple[str, os.stat_result]]) -> tuple[File, ...]:
    """Return the files of a submission with their SHA-256."""
    is_file = path.is_file()
    return tuple(
        File(path=name, sha256=file_sha256(path if is_file else path / name), bytes=facts.st_size)
        for name, facts in files
    )
