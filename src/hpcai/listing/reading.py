"""Read all submissions: each once, in several processes, and cached by the digests of its files and of this code."""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from hpcai.core.errors import HpcaiError, ParseError
from hpcai.core.files import write_atomically
from hpcai.core.messages import Message
from hpcai.listing.content import Content
from hpcai.listing.packages import read_source
from hpcai.listing.sources import Source, digest_files, glance_at, list_files, refusal_of
from hpcai.parsers.workers import usable_cores

BROKEN = Message("reading.broken", "cannot be read: {kind}: {error}; submit what `hpcai list submit` wrote")
MEMO = "memo.json"
FORECASTS = ""
"""Name of the content that holds forecasts; no submission has it."""
OWN = re.compile(r"[0-9a-f]{12}-[0-9a-f]{40}\.json")
"""Names of the files of a cache; others in its folder are not ours to delete."""
DATED = (".future",)
"""Ends of the codes of refusals that depend on the day, which no cache keeps."""


@dataclass
class Cache:
    """Contents of submissions by digest, and digests by what a glance at the files tells.

    Attributes
    ----------
    folder
        Folder of the cache; it may be deleted at any time.
    memo
        By name of the submission: the glance and the digest.
    """

    folder: Path
    memo: dict[str, tuple[str, str]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, folder: Path) -> "Cache":
        """Open a cache; a damaged memo is forgotten."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            memo = {name: (str(one), str(two)) for name, (one, two) in json.loads((folder / MEMO).read_bytes()).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            memo = {}
        return cls(folder, memo)

    def key_of(self, source: Source) -> str:
        """Return the digest of a submission's files, name and kind, and of this program."""
        files = list_files(source.path)
        glance = glance_at(files)
        known = self.memo.get(source.name)
        if known and known[0] == glance and known[1].startswith(code_digest()[:12]):
            return known[1]
        listed = [(file.path, file.sha256) for file in digest_files(source.path, files)]
        words = json.dumps([source.name, source.kind, listed]).encode()
        key = f"{code_digest()[:12]}-{hashlib.sha256(words).hexdigest()[:40]}"
        self.memo[source.name] = (glance, key)
        return key

    def get(self, key: str) -> Content | None:
        """Return the content of a digest; None if it is not there, or damaged."""
        self.used.add(f"{key}.json")
        try:
            return Content.model_validate_json((self.folder / f"{key}.json").read_bytes())
        except (OSError, ValidationError):
            return None

    def put(self, key: str, content: Content) -> None:
        """Keep a content, unless it depends on the day."""
        codes = [reason.code for refusal in content.refused for reason in refusal.reasons]
        if not any(code.endswith(DATED) for code in codes):
            write_atomically(self.folder / f"{key}.json", content.model_dump_json().encode())

    def close(self, names: Iterable[str]) -> None:
        """Write the memo, and delete what no submission uses any more."""
        kept = {name: self.memo[name] for name in names if name in self.memo}
        write_atomically(self.folder / MEMO, json.dumps(kept).encode())
        for file in self.folder.glob("*.json"):
            if OWN.fullmatch(file.name) and file.name not in self.used:
                file.unlink()


@cache
def code_digest() -> str:
    """Return the digest of the whole library: a changed rule judges every submission again."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for file in sorted([*root.rglob("*.py"), *root.rglob("*.yaml")]):
        digest.update(f"{file.relative_to(root).as_posix()}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class Read:
    """All contents by name of the submission, with the names of those that were read and not taken from the cache."""

    contents: dict[str, Content]
    fresh: frozenset[str]


def read_sources(sources: Sequence[Source], cache_folder: Path, today: date) -> Read:
    """Return the contents of all submissions; what cannot be accepted is a refusal in its content.

    Parameters
    ----------
    sources
        The submissions.
    cache_folder
        Folder of the cache, created if it is missing.
    today
        Submissions of a later day are refused.
    """
    store = Cache.open(cache_folder)
    contents: dict[str, Content] = {}
    missing: dict[str, tuple[Source, str]] = {}
    for source in sources:
        try:
            key = store.key_of(source)
        except (HpcaiError, OSError) as error:
            contents[source.name] = Content(refused=(refusal_of(source.name, error, root=source.path),))
            continue
        content = store.get(key)
        if content is None:
            missing[source.name] = (source, key)
        else:
            contents[source.name] = content
    for name, content in _read_missing([source for source, _ in missing.values()], today):
        store.put(missing[name][1], content)
        contents[name] = content
    contents[FORECASTS] = forecast_contents(contents.values(), store, today)
    store.close(source.name for source in sources)
    return Read(contents, frozenset(missing))


def forecast_contents(contents: Iterable[Content], store: Cache, today: date) -> Content:
    """Return the forecasts of rounds from the rounds before; what an embargo keeps out has no part in them."""
    past = [one for content in contents if not is_embargoed(content, today) for one in content.past]
    if len({one.row["origin"] for one in past}) < 2:
        return Content()
    from hpcai.listing.forecasts import forecast_results  # fitting needs SciPy, which takes a second to import

    words = json.dumps([one.model_dump(mode="json") for one in past], sort_keys=True).encode()
    key = f"{code_digest()[:12]}-{hashlib.sha256(words).hexdigest()[:40]}"
    known = store.get(key)
    if known is None:
        known = Content(predictions=forecast_results(past))
        store.put(key, known)
    return known


def is_embargoed(content: Content, today: date) -> bool:
    """Return whether the day of a submission has not come."""
    return content.embargo is not None and content.embargo > today


def _read_missing(sources: Sequence[Source], today: date) -> Iterable[tuple[str, Content]]:
    count = min(usable_cores(), len(sources))
    if count < 2:
        yield from (_read_one(source, today) for source in sources)
        return
    # The largest first, so that no process ends long after the others.
    ordered = sorted(sources, key=_bytes_of, reverse=True)
    few = max(1, min(32, len(ordered) // (8 * count)))
    with ProcessPoolExecutor(count) as pool:
        yield from pool.map(_read_one, ordered, [today] * len(ordered), chunksize=few)


def _bytes_of(source: Source) -> int:
    return sum(facts.st_size for _, facts in list_files(source.path))


def _read_one(source: Source, today: date) -> tuple[str, Content]:
    """Return the content of one submission; runs in another process."""
    try:
        return source.name, read_source(source, today)
    except (HpcaiError, OSError) as error:
        refused = refusal_of(source.name, error, root=source.path)
    except Exception as error:  # one strange file must not take the list from all others
        refused = refusal_of(source.name, ParseError(BROKEN(kind=type(error).__name__, error=error)), root=source.path)
    return source.name, Content(refused=(refused,))
