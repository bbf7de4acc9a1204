"""Packages that the list accepts: a description, the content and a manifest; what must not be in them is found."""

import getpass
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import yaml
from pydantic import Field, StringConstraints

from hpcai.config.base import Settings, Text
from hpcai.config.reading import Problems, read_yaml, validate
from hpcai.core.errors import ConfigError, ParseError
from hpcai.core.files import real_path, write_asked
from hpcai.core.messages import Message, at
from hpcai.core.sealed import seal_drawing, unseal_drawing
from hpcai.listing.content import Content
from hpcai.listing.sources import (
    MISSING,
    PACKAGE_FILE,
    PULL_REQUEST,
    Kind,
    Source,
    digest_files,
    kind_of,
    list_files,
)
from hpcai.records.folders import check_manifest, require_replaceable, write_manifest, written_whole

NO_CONTENT = Message("packages.no_content", "found {found}, expected one submission in the folder content")
OTHER_KIND = Message("packages.other_kind", "the content is {found!r}, the description says {expected!r}")
FUTURE = Message("packages.future", "submitted: found {found}, after today, {today}")
NO_SUBMISSION = Message(
    "packages.no_submission",
    "found {found}, expected a results folder, a report document, an MLPerf HPC round or a file of declared results",
)
NOT_ACCEPTED = Message("packages.not_accepted", "{source}: found no result that the list accepts")
NOT_APART = Message(
    "packages.not_apart", "found the package in, around or in place of the submission {source}; name a folder elsewhere"
)
OWN_WORDS = Message(
    "packages.own_words", "found a text that was changed since it was written, or is another one; move or delete it"
)
SECRETS = Message("packages.secrets", "found {count} secrets, nothing was written: {places}")

CONTENT = "content"
SAFE_NAME = r"^[a-z0-9][a-z0-9._-]{0,79}$"
FILE_LIMIT_BYTES = 50 << 20
"""Larger files are warned about: a common limit of repositories that hold lists."""
READ_LIMIT_BYTES = 32 << 20
KEPT = (
    "study.json", "tables/runs.", "tables/run_scores.", "tables/scores.", "tables/scales.", "tables/machine_overview.",
    "tables/prediction_accuracy.", "runs/", "weak/",
)  # fmt: skip
"""What of a results folder a package contains; the rest is derived from it or belongs to the report."""


class Submission(Settings):
    """Description of a package: ``submission.yaml``."""

    schema_version: Literal[1] = 1
    name: Annotated[str, StringConstraints(pattern=SAFE_NAME)] = Field(description="Name in the list.")
    organisation: Text = Field(min_length=1)
    kind: Kind
    submitted: date = Field(description="Day on which the package was made.")
    embargo: date | None = Field(default=None, description="The entries stay out of the list before this day.")
    license: Text = Field(default="CC-BY-4.0", description="Licence of the submitted files.")
    url: Annotated[str, StringConstraints(pattern=r"^(https?://[\x21-\x7e]{1,500})?$")] = ""
    note: Text = ""


Word = Literal["secret", "host name", "user name", "path"]


@dataclass(frozen=True)
class Leak:
    """Something in a file that its owner may not want to publish; of a secret only the beginning is kept."""

    what: Word
    file: str
    line: int
    found: str


def read_source(source: Source, today: date) -> Content:
    """Return the content of a submission, after all checks.

    Raises
    ------
    HpcaiError
        If a check failed: nothing of the submission is accepted.
    """
    if source.kind == "package":
        return _read_package(source, today)
    return _read_plain(source, today)


def _read_plain(source: Source, today: date, organisation: str = "") -> Content:
    # Only what is read for the first time needs the code that judges it, which takes seconds to import.
    files = {file.path: file for file in digest_files(source.path, list_files(source.path))}
    if source.kind == "round":
        from hpcai.listing.rounds import read_round_source

        return read_round_source(source.path, source.name, files, today)
    if source.kind == "declared":
        from hpcai.listing.declared import read_declared

        return read_declared(source.path, source.name, files, today, organisation)
    from hpcai.listing.own import read_own

    return read_own(source.path, source.name, files, today, source.kind, organisation)


def _read_package(source: Source, today: date) -> Content:
    list_files(source.path)  # refuses links and devices before any of them is opened
    check_manifest(source.path)
    submission = read_submission(source.path / PACKAGE_FILE)
    if submission.submitted > today + timedelta(days=1):  # it is tomorrow already east of here
        raise ParseError(at(PACKAGE_FILE, FUTURE(found=submission.submitted, today=today)))
    inside = sorted((source.path / CONTENT).iterdir()) if (source.path / CONTENT).is_dir() else []
    kinds = [kind_of(path) for path in inside]
    if len(inside) != 1:
        raise ParseError(at(source.name, NO_CONTENT(found=f"{len(inside)} files or folders")))
    if kinds[0] is None or kinds[0] != submission.kind:
        raise ParseError(at(source.name, OTHER_KIND(found=kinds[0] or "nothing known", expected=submission.kind)))
    content = _read_plain(Source(submission.name, kinds[0], inside[0]), today, submission.organisation)
    return content.model_copy(update={"submitted": submission.submitted, "embargo": submission.embargo})


def read_submission(path: Path) -> Submission:
    """Read the description of a package.

    Raises
    ------
    ConfigError
        If it is not valid: names each key.
    """
    problems = Problems()
    data = read_yaml(path, problems)
    found = None if problems.lines else validate(Submission, data, str(path), problems)
    problems.raise_if_any()
    if found is None:
        raise AssertionError("a file without errors")
    return found


def make_submission(
    source: Path, *, name: str, organisation: str, embargo: date | None, license_name: str
) -> Submission:
    """Return the description of a submission, made today.

    Raises
    ------
    ConfigError
        If the source is missing or no submission, or a field is not valid.
    """
    if not source.exists():
        raise ConfigError(at(str(source), MISSING()))
    kind = kind_of(source)
    if kind is None or kind == "package":
        raise ConfigError(at(str(source), NO_SUBMISSION(found=kind or "nothing known")))
    problems = Problems()
    given = {
        "name": name, "organisation": organisation, "kind": kind, "submitted": date.today(), "embargo": embargo,
        "license": license_name,
    }  # fmt: skip
    found = validate(Submission, given, PACKAGE_FILE, problems)
    problems.raise_if_any()
    if found is None:
        raise AssertionError("a description without errors")
    return found


@dataclass(frozen=True)
class Package:
    """A package that was written: what it holds, its size, and what its owner should look at."""

    folder: Path
    content: Content
    files: int
    bytes: int
    large: tuple[str, ...]
    leaks: tuple[Leak, ...]


def request_beside(package: Path) -> Path:
    """Return where the text of the pull request for a package is."""
    return package.with_name(f"{package.name}{PULL_REQUEST}")


def require_places(source: Path, output: Path) -> None:
    """Check, before anything is read, that neither the submission nor a foreign file would be replaced.

    Raises
    ------
    ConfigError
        If the package would lie in or around the submission, or replace anything but an earlier package; or if the
        text of the pull request beside it is not as it was written.
    """
    places = [real_path(source), real_path(output)]
    if any(one == other or one in other.parents for one, other in (places, places[::-1])):
        raise ConfigError(at(str(output), NOT_APART(source=source)))
    require_replaceable(output, PACKAGE_FILE)
    request = request_beside(output)
    if request.exists() or request.is_symlink():
        try:
            is_own = request.is_file() and unseal_drawing(request.read_bytes()).is_sealed
        except ValueError:
            is_own = False
        if not is_own:
            raise ConfigError(at(str(request), OWN_WORDS()))


def write_package(source: Path, output: Path, submission: Submission) -> Package:
    """Check a submission and write it as a package that the list accepts.

    Parameters
    ----------
    source
        A results folder, report document, MLPerf HPC round or file of declared results.
    output
        Folder to write; an earlier package is replaced as a whole, anything else stays (:func:`require_places`).
    submission
        Its description.

    Raises
    ------
    HpcaiError
        If a check fails, no result is accepted, or a secret is found; nothing is written then.
    """
    require_places(source, output)
    content = _read_plain(
        Source(submission.name, submission.kind, source), submission.submitted, submission.organisation
    )
    if not content.entries:
        raise ParseError(NOT_ACCEPTED(source=source))
    chosen = _chosen(source, submission.kind)
    leaks = tuple(find_leaks(chosen, _names_of(chosen)))
    secrets = [leak for leak in leaks if leak.what == "secret"]
    if secrets:
        places = ", ".join(f"{leak.file}:{leak.line}: {leak.found}" for leak in secrets[:5])
        raise ParseError(SECRETS(count=len(secrets), places=places))
    with written_whole(output, marker=PACKAGE_FILE) as building:
        target = building / CONTENT / source.name
        for name, place in chosen.items():
            copy = target / name if source.is_dir() else target
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(place, copy)
        fields = submission.model_dump(mode="json")
        (building / PACKAGE_FILE).write_text(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True), "utf-8")
        write_manifest(building)
    sizes = {name: place.stat().st_size for name, place in chosen.items()}
    large = tuple(name for name, size_bytes in sizes.items() if size_bytes > FILE_LIMIT_BYTES)
    return Package(output, content, len(sizes), sum(sizes.values()), large, leaks)


def _chosen(source: Path, kind: Kind) -> dict[str, Path]:
    """Return the files of a submission that a package contains: of own runs no attempts and nothing set aside."""
    from hpcai.records.files import ATTEMPTS, DISCARDED  # only who submits needs the model of a record

    if source.is_file():
        return {source.name: source}
    names = [name for name, _ in list_files(source)]
    if kind == "results":
        others = {ATTEMPTS, DISCARDED}
        names = [name for name in names if name.startswith(KEPT) and not others & set(PurePosixPath(name).parts)]
    return {name: source / name for name in names}


def _names_of(chosen: Mapping[str, Path]) -> dict[str, Word]:
    """Return names that the runs and this machine give away: hosts and the user."""
    from hpcai.records.files import RECORD, read_record  # only who submits needs the model of a record

    found: dict[str, Word] = {socket.gethostname(): "host name"}
    with suppress(KeyError, OSError):  # without a user database, as in a container
        found[getpass.getuser()] = "user name"
    for name, path in chosen.items():
        if Path(name).name == RECORD:
            found |= {rank.placement.hostname: "host name" for rank in read_record(path).ranks}
    return {name: what for name, what in found.items() if len(name) > 3 and name not in ("root", "localhost")}


PATTERNS: Mapping[Word, re.Pattern[str]] = {
    "secret": re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{30,}"
        r"|\bglpat-[\w-]{20,}|\bxox[abprs]-[\w-]{10,}|\bhf_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{32,}"
        r"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}|://[^\s/:@\"']+:[^\s/@\"']{3,}@"
        r"|(?i:\b(?:password|passwd|secret|api_?key|access_?token|auth_?token)\b[\"']?\s*[:=]\s*[\"']?[^\s\"',}{]{6,})"
    ),
    "user name": re.compile(r"/(?:home|Users|users|u)/[A-Za-z0-9._-]+"),
    "path": re.compile(r"(?<![\w.:/$}-])/(?:[A-Za-z0-9_.+-]+/)+[A-Za-z0-9_.+-]+"),
}  # fmt: skip
"""What gives something away by its form."""


def find_leaks(files: Mapping[str, Path], names: Mapping[str, Word]) -> Iterator[Leak]:
    """Yield secrets, host names, user names and absolute paths in text files, each once per file.

    Parameters
    ----------
    files
        By name in the package; binary and very large files are not searched.
    names
        Further words to find, with what they are.
    """
    known = [(re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])"), what) for name, what in names.items()]
    patterns: list[tuple[re.Pattern[str], Word]] = [(pattern, what) for what, pattern in PATTERNS.items()]
    for file, place in files.items():
        content = place.read_bytes() if place.stat().st_size <= READ_LIMIT_BYTES else b""
        if not content or b"\0" in content[:65_536]:
            continue
        yield from _leaks_in(file, content.decode("utf-8", "replace"), [*patterns, *known])


def _leaks_in(file: str, text: str, patterns: Iterable[tuple[re.Pattern[str], Word]]) -> Iterator[Leak]:
    for pattern, what in patterns:
        seen: set[str] = set()
        for match in pattern.finditer(text):
            words = match[0] if what != "secret" else f"{match[0][:8]}…"
            if words not in seen:
                seen.add(words)
                yield Leak(what, file, text.count("\n", 0, match.start()) + 1, words[:200])


def write_request(package: Package, submission: Submission) -> Path:
    """Write the text of a pull request that hands in a package, to be completed by its author; return its file.

    It ends with its digest: what the author has changed is not replaced by the next package.

    Raises
    ------
    ConfigError
        If it cannot be written.
    """
    template = resources.files(__package__).joinpath("templates", "pull_request.md").read_text("utf-8")
    lines = [f"- {entry.title}: {entry.verdict.status}" for entry in package.content.entries]
    text = template.format(
        name=submission.name, organisation=submission.organisation, kind=submission.kind, license=submission.license,
        files=package.files, megabytes=package.bytes / 1e6, entries="\n".join(lines),
        embargo=submission.embargo or "none",
    )  # fmt: skip
    place = request_beside(package.folder)
    write_asked(place, seal_drawing(text.encode()).decode())
    return place


def say_package(package: Package) -> list[str]:
    """Return the lines that tell what a package holds, its size, and what its owner should look at."""
    verdicts = [entry.verdict.status for entry in package.content.entries]
    counts = ", ".join(f"{verdicts.count(status)} {status}" for status in dict.fromkeys(verdicts))
    lines = [f"{len(verdicts)} results ({counts}), {package.files} files, {package.bytes / 1e6:.1f} MB"]
    lines += [f"larger than {FILE_LIMIT_BYTES >> 20} MiB: {name}" for name in package.large]
    lines += _say_leaks(package.leaks)
    return lines


def _say_leaks(leaks: Iterable[Leak]) -> Iterator[str]:
    """Yield a line for each word, and one for all paths of a folder: each run has a scratch folder of its own."""
    groups: dict[tuple[str, str], list[Leak]] = {}
    for leak in leaks:
        place = str(PurePosixPath(leak.found).parent) if leak.what == "path" else leak.found
        groups.setdefault((leak.what, place), []).append(leak)
    for (what, place), own in sorted(groups.items()):
        found = sorted({leak.found for leak in own})
        more = f" and {len(found) - 1} more below {place}" if len(found) > 1 else ""
        files = len({leak.file for leak in own})
        others = f" and {files - 1} more files" if files > 1 else ""
        first = next(leak for leak in own if leak.found == found[0])
        yield f"{what}: {found[0]}{more} in {first.file}:{first.line}{others}"


TEMPLATES = {
    "list.yml": ".github/workflows/list.yml",
    "pull_request.md": ".github/pull_request_template.md",
    "readme.md": "README.md",
    "submissions.md": "submissions/README.md",
}
"""Files of a repository that holds a list. Git keeps no empty folder: the one for submissions has a text."""


def write_repository(folder: Path) -> list[Path]:
    """Write the files of a repository that holds a list; return those written.

    Raises
    ------
    ConfigError
        If one of them exists.
    """
    places = {name: folder / place for name, place in TEMPLATES.items()}
    for place in places.values():
        if place.exists():
            raise ConfigError(f"{place}: exists already; delete it, or name a new folder")
    for name, place in places.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(resources.files(__package__).joinpath("templates", name).read_bytes())
    return list(places.values())
