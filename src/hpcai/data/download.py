"""Download the archives of datasets.tsv: resumable, retried, verified by size and checksum, published atomically."""

import hashlib
import json
import logging
import shutil
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import requests
import tenacity

from hpcai.config.base import Settings
from hpcai.core.errors import DatasetError
from hpcai.core.files import write_atomically
from hpcai.core.messages import Message, at
from hpcai.data.catalogue import Archive
from hpcai.data.globus import collection_of, fetch_folder
from hpcai.data.tabled import read_json

logger = logging.getLogger(__name__)
_BLOCK_BYTES = 1 << 16
"""Block size [byte]: the most that a broken connection loses."""
_PROGRESS_S = 10.0
_TRY_AGAIN = {408, 425, 429, 500, 502, 503, 504}
"""Statuses of servers that may answer later (RFC 9110 and RFC 6585)."""
_PAGES = {"text/html", "application/xhtml+xml"}
_GZIP_MAGIC = b"\x1f\x8b"
"""gzip magic number, RFC 1952 section 2.3.1."""
_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
"""HDF5 signature, HDF5 File Format Specification 3.0 section II.A."""
_HEAD_BYTES = tarfile.BLOCKSIZE
A_FOLDER = Message("download.a_folder", "found a folder of files, expected one archive: {note}")
BAD_REDIRECT = Message(
    "download.bad_redirect",
    "{address}: found a redirect to {target}, expected one to {allowed}; correct the address in datasets.tsv",
)
UNREACHABLE = Message(
    "download.unreachable",
    "found no way to fetch it after {tries} attempts without progress ({reason}), expected {file}; {kept_bytes} bytes "
    "are kept, so start again later",
)
OTHER_SIZE_THERE = Message(
    "download.other_size_there",
    "found {found_bytes} bytes on the server, expected {expected_bytes}; correct the bytes in datasets.tsv if the "
    "publisher replaced the file",
)
NO_ROOM = Message(
    "download.no_room", "found {free_bytes} bytes free, expected {needed_bytes} for the rest of {file}; make room there"
)
OTHER_STATUS = Message(
    "download.other_status",
    "found HTTP status {status} {reason}, expected 200; correct the address in datasets.tsv, or fetch {file} by hand "
    "and put it into {folder}{before}",
)
OTHER_SIZE = Message("download.other_size", "found {found_bytes} bytes, expected {expected_bytes}{moved}")
OTHER_CHECKSUM = Message("download.other_checksum", "found {algorithm} {found}, expected {expected}{moved}")
OTHER_KIND = Message("download.other_kind", "found a file that begins with {head!r}, expected {expected}{moved}")
REPLACED = Message(
    "download.replaced",
    "found sha256 {found}, expected {expected} as at its first use{moved}; if the publisher replaced the file, remove "
    "{record}",
)


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server; an attempt that brings new bytes does not count as failed."""

    failures: int = 8
    longest_wait_s: float = 60.0
    timeout_s: float = 60.0


class _FirstUse(Settings):
    """Properties of an archive without a published checksum at its first download."""

    url: str
    bytes: int
    sha256: str


class _Part(Settings):
    """The archive to which an incomplete download belongs; ``guard``: its ETag or date, "" if the server sends none."""

    url: str
    guard: str
    total_bytes: int | None


class _InterruptedError(Exception):
    """A transfer that ended too early and may be resumed."""


def fetch_archive(archive: Archive, folder: Path, patience: Patience | None = None) -> Path:
    """Download an archive, or verify the existing one, and return its path.

    An interrupted transfer is resumed if the server still has the same file (HTTP Range with If-Range, RFC 9110
    section 13.1.5, and the same size), and restarted otherwise. The file appears under its name only after it is
    verified; without a published checksum, against the SHA-256 of `remember_first_use` if there is one.

    Parameters
    ----------
    archive
        Row of datasets.tsv.
    folder
        Target folder; created if necessary.
    patience
        Attempts and waiting times.

    Raises
    ------
    DatasetError
        If the server does not deliver, delivers a page or encoded content, or redirects from https to http, or if the
        file has another size, checksum or kind. A complete but wrong file stays in the folder, with ``.quarantine-``
        in its name.
    """
    if archive.format == "folder":
        if collection_of(archive):
            return fetch_folder(archive, folder)
        raise DatasetError(at(archive.url, A_FOLDER(note=archive.note)))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / archive.file
    if path.exists():
        logger.info("%s exists already; verifying it", path)
        _verify(archive, path, path)
        return path
    part = _Download(archive, folder, patience or Patience()).run()
    _verify(archive, part, path)
    part.replace(path)
    _sidecar(part).unlink(missing_ok=True)
    return path


def remember_first_use(archive: Archive, path: Path) -> None:
    """Record the SHA-256 of an archive without a published checksum next to it, as expected from now on.

    Called after unpacking the archive and verifying all samples: anything else from a server is never trusted.
    """
    record = _first_use_record(path)
    if archive.checksum is not None or archive.format == "folder" or record.exists():
        return
    found = _digest(path, "sha256")
    logger.warning("%s: no checksum is published; its SHA-256 %s is recorded and expected from now on", path, found)
    first_use = _FirstUse(url=archive.url, bytes=path.stat().st_size, sha256=found)
    write_atomically(record, (json.dumps(first_use.model_dump(), indent=1) + "\n").encode())


def _first_use_record(path: Path) -> Path:
    return path.with_name(path.name + ".first-use.json")


def _sidecar(part: Path) -> Path:
    return part.with_name(part.name + ".json")


class _Session(requests.Session):
    """Refuses redirects that drop encryption: anybody could send the content that follows."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return the target of a redirect."""
        target = super().get_redirect_target(resp)
        if target is None:
            return None
        allowed = ("https",) if resp.url.startswith("https:") else ("http", "https")
        try:
            scheme = urlsplit(urljoin(resp.url, target)).scheme
        except ValueError:
            scheme = "nothing"
        if scheme not in allowed:
            raise DatasetError(BAD_REDIRECT(address=resp.url, target=target, allowed=" or ".join(allowed)))
        return target


class _Download:
    """Transfers one archive into its .part file."""

    def __init__(self, archive: Archive, folder: Path, patience: Patience) -> None:
        self._archive, self._patience = archive, patience
        self._part = folder / (archive.file + ".part")
        self._failures, self._told_s = 0, time.monotonic()
        self._most_bytes = 0

    def run(self) -> Path:
        retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type((_InterruptedError, requests.RequestException)),
            stop=lambda _: self._failures >= self._patience.failures,
            wait=tenacity.wait_random_exponential(multiplier=0.5, max=self._patience.longest_wait_s),
            before_sleep=lambda state: logger.warning("%s: %s; trying again", self._archive.url, _reason(state)),
            reraise=True,
        )
        try:
            retry(self._try)
        except (_InterruptedError, requests.RequestException) as error:
            words = UNREACHABLE(tries=self._failures, reason=error, file=self._archive.file, kept_bytes=self._size())
            raise DatasetError(at(self._archive.url, words)) from error
        return self._part

    def _size(self) -> int:
        return self._part.stat().st_size if self._part.exists() else 0

    def _try(self) -> None:
        # Largest size so far: a .part file that grows and shrinks in turns makes no progress.
        self._most_bytes = max(self._most_bytes, self._size())
        try:
            self._transfer()
        except (_InterruptedError, requests.RequestException):
            self._failures = 0 if self._size() > self._most_bytes else self._failures + 1
            raise

    def _resumable(self) -> _Part | None:
        """Return the origin of the .part file, if it can be resumed safely."""
        sidecar = _sidecar(self._part)
        if not self._size() or not sidecar.exists():
            return None
        known = read_json(sidecar, _Part, f"remove {sidecar}")
        same = known.url == self._archive.url and known.guard and known.total_bytes is not None
        return known if same else None

    def _transfer(self) -> None:
        known = self._resumable()
        start = self._size() if known else 0
        if known and start == known.total_bytes:
            return
        headers = {"Accept-Encoding": "identity"}
        if known:
            headers |= {"Range": f"bytes={start}-", "If-Range": known.guard}
        timeout_s = self._patience.timeout_s
        with (
            _Session() as session,
            session.get(self._archive.url, headers=headers, stream=True, timeout=timeout_s) as response,
        ):
            self._check_status(response)
            self._check_content(response)
            if response.status_code == requests.codes.partial_content:
                self._check_part(response, known, start)
                total_bytes = known.total_bytes if known else None
            else:
                start = 0
                length = response.headers.get("Content-Length", "")
                total_bytes = int(length) if length.isdecimal() else None
            self._check_size(total_bytes)
            self._require_room(total_bytes or self._archive.bytes or 0)
            state = _Part(url=self._archive.url, guard=_guard(response.headers), total_bytes=total_bytes)
            self._receive(response, start, known if known and start else state)

    def _check_part(self, response: requests.Response, known: _Part | None, start: int) -> None:
        """Refuse to join parts of two different files."""
        offset, total_bytes = _content_range(response.headers)
        expected = (start, known.total_bytes) if known else None
        if known is None or (offset, total_bytes) != expected or _guard(response.headers) not in {"", known.guard}:
            self._part.unlink(missing_ok=True)
            raise _InterruptedError("the server sent part of a different file than requested; starting again")

    def _check_status(self, response: requests.Response) -> None:
        status = response.status_code
        if status in _TRY_AGAIN:
            raise _InterruptedError(f"the server answered {status} {response.reason}")
        if status == requests.codes.requested_range_not_satisfiable:
            self._part.unlink(missing_ok=True)
            raise _InterruptedError("the server has fewer bytes than were already received; starting again")
        if status not in {requests.codes.ok, requests.codes.partial_content}:
            wrong = sorted(file.name for file in self._part.parent.glob(f"{self._archive.file}.quarantine-*"))
            words = OTHER_STATUS(
                status=status, reason=response.reason, file=self._archive.file, folder=self._part.parent,
                before=f"; the last one there was wrong and is now {wrong[-1]}" if wrong else "",
            )  # fmt: skip
            raise DatasetError(at(self._archive.url, words))

    def _check_content(self, response: requests.Response) -> None:
        """Refuse anything but the file itself: its size and checksum would be those of other bytes."""
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in {"", "identity"}:
            raise DatasetError(
                f"{self._archive.url}: found Content-Encoding {encoding}, expected the file itself; fetch it by hand "
                f"and put it into {self._part.parent}, or correct the address in datasets.tsv"
            )
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind in _PAGES:
            raise DatasetError(
                f"{self._archive.url}: found a page ({kind}), such as one for logging in, expected "
                f"{self._archive.file}; if it needs an account, fetch it by hand and put it into {self._part.parent}"
            )

    def _check_size(self, total_bytes: int | None) -> None:
        if None not in {total_bytes, self._archive.bytes} and total_bytes != self._archive.bytes:
            words = OTHER_SIZE_THERE(found_bytes=total_bytes, expected_bytes=self._archive.bytes)
            raise DatasetError(at(self._archive.url, words))

    def _require_room(self, total_bytes: int) -> None:
        """Refuse a file that does not fit before its first byte; what is there of it is continued or overwritten."""
        needed_bytes, folder = total_bytes - self._size(), self._part.parent
        if needed_bytes > (free_bytes := shutil.disk_usage(folder).free):
            words = NO_ROOM(free_bytes=free_bytes, needed_bytes=needed_bytes, file=self._archive.file)
            raise DatasetError(at(str(folder), words))

    def _receive(self, response: requests.Response, start: int, state: _Part) -> None:
        write_atomically(_sidecar(self._part), state.model_dump_json().encode())
        with self._part.open("r+b" if start else "wb") as file:
            file.seek(start)
            for block in response.iter_content(_BLOCK_BYTES):
                file.write(block)
                self._tell(file.tell(), state.total_bytes)
            end = file.tell()
        if state.total_bytes is not None and end != state.total_bytes:
            raise _InterruptedError(f"the connection ended after {end} of {state.total_bytes} bytes")

    def _tell(self, done_bytes: int, total_bytes: int | None) -> None:
        if time.monotonic() - self._told_s >= _PROGRESS_S:
            self._told_s = time.monotonic()
            logger.info("%s: %d of %s bytes", self._archive.file, done_bytes, total_bytes or "an unknown number of")


def _reason(state: tenacity.RetryCallState) -> str:
    return str(state.outcome.exception()) if state.outcome else ""


def _guard(headers: Mapping[str, str]) -> str:
    """Return the value for If-Range: a strong ETag, otherwise the date."""
    tag = headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified", "")


def _content_range(headers: Mapping[str, str]) -> tuple[int, int | None]:
    """Return first byte and total size of ``bytes first-last/total``."""
    unit, _, value = headers.get("Content-Range", "").partition(" ")
    span, _, total = value.partition("/")
    first = span.partition("-")[0]
    if unit != "bytes" or not first.isdecimal():
        raise _InterruptedError(f"the server sent Content-Range {value!r}")
    return int(first), int(total) if total.isdecimal() else None


def _verify(archive: Archive, file: Path, final: Path) -> None:
    """Compare size, checksum and kind; quarantine a wrong file."""
    size_bytes = file.stat().st_size
    if archive.bytes is not None and size_bytes != archive.bytes:
        raise _quarantined(file, final, OTHER_SIZE, found_bytes=size_bytes, expected_bytes=archive.bytes)
    if archive.checksum is not None and archive.checksum_algorithm is not None:
        found = _digest(file, archive.checksum_algorithm)
        if found != archive.checksum:
            facts = {"algorithm": archive.checksum_algorithm, "found": found, "expected": archive.checksum}
            raise _quarantined(file, final, OTHER_CHECKSUM, **facts)
        return
    with file.open("rb") as opened:
        head = opened.read(_HEAD_BYTES)
    if not _fits(archive, head):
        raise _quarantined(file, final, OTHER_KIND, head=head[:16], expected=_kind(archive))
    record = _first_use_record(final)
    if not record.exists():
        return
    first_use = read_json(record, _FirstUse, f"remove {record} to trust the new file")
    found = _digest(file, "sha256")
    if found != first_use.sha256:
        raise _quarantined(file, final, REPLACED, found=found, expected=first_use.sha256, record=record)


def _kind(archive: Archive) -> str:
    """Return an archive's kind by its format, or by its name if it is a sample file."""
    return Path(archive.file).suffix if archive.format == "file" else archive.format


def _fits(archive: Archive, head: bytes) -> bool:
    """Return whether the first bytes match the file's kind; without a signature, whether it is no HTML page."""
    match _kind(archive):
        case "tgz":
            return head.startswith(_GZIP_MAGIC)
        case ".h5":
            return head.startswith(_HDF5_MAGIC)
        case "tar":
            try:
                # The header's own checksum: archives before POSIX have no magic number.
                tarfile.TarInfo.frombuf(head, tarfile.ENCODING, "surrogateescape")
            except tarfile.HeaderError:
                return False
            return True
    return not head.lstrip().lower().startswith((b"<!doctype", b"<html"))


def _digest(file: Path, algorithm: str) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, algorithm).hexdigest()


def _quarantined(file: Path, final: Path, message: Message, **facts: object) -> DatasetError:
    """Move a wrong file aside, so that nobody uses it but it can still be examined."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    place, count = final.with_name(f"{final.name}.quarantine-{stamp}"), 1
    while place.exists():
        place, count = final.with_name(f"{final.name}.quarantine-{stamp}-{count}"), count + 1
    file.rename(place)
    _sidecar(final.with_name(final.name + ".part")).unlink(missing_ok=True)
    return DatasetError(at(str(final), message(**facts, moved=f"; it was moved to {place.name}; fetch it again")))
