"""Build the list's site from submissions: what changed since the last build is read, judged and written again."""

import gc
import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from hpcai.core.errors import ConfigError
from hpcai.core.files import write_atomically
from hpcai.core.messages import Message, at
from hpcai.listing.content import Content
from hpcai.listing.data_files import (
    differences_of,
    freeze,
    read_editions,
    require_edition,
    write_site_data,
)
from hpcai.listing.entries import DRAFT, Edition, Refusal, make_id
from hpcai.listing.overview_views import predicted_quantities
from hpcai.listing.rankings import Frame, join_edition
from hpcai.listing.reading import code_digest, read_sources
from hpcai.listing.site_files import remove_others
from hpcai.listing.sources import find_sources
from hpcai.report.own_pages import find_sources as find_sources_of_pages

NOT_A_SITE = Message("build.not_a_site", "holds files that no build of the list wrote; name a new or empty folder")

NO_FOLDER = Message("build.no_folder", "found a file, expected a folder for the site; name another one")

STATE = ".list-state.json"
"""File of a site that remembers what is written: digest of each page's content, and the day of each entry."""


@dataclass(frozen=True)
class Wanted:
    """What to build.

    Attributes
    ----------
    folders
        Submissions, or folders of them.
    site
        Folder of the site.
    editions, cache
        Folders of the frozen editions, and of what was read before; by default in the site, and beside it.
    title, url
        Title of the list, and its address if it has one.
    freeze
        Name of the edition to freeze; blank for none.
    today
        The day that embargoes and dates are compared with.
    """

    folders: tuple[Path, ...]
    site: Path
    editions: Path | None = None
    cache: Path | None = None
    title: str = "HPC-AI results"
    url: str = ""
    freeze: str = ""
    today: date = field(default_factory=date.today)


@dataclass(frozen=True)
class Built:
    """What was built: the edition, submissions that were read, pages that changed, and what an embargo keeps out."""

    edition: Edition
    submissions: int
    read: tuple[str, ...]
    pages: int
    embargoed: tuple[str, ...]

    @property
    def lost(self) -> tuple[Refusal, ...]:
        """Refused submissions and results, without entries that are listed but not valid."""
        return tuple(one for one in self.edition.refused if not self._is_listed(one))

    def _is_listed(self, refusal: Refusal) -> bool:
        entry = self.edition.by_id.get(refusal.place)
        return entry is not None and entry.submission == refusal.submission


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Let Python look for cycles of garbage a hundred times less often.

    A list of ten thousand entries is a million objects that all stay: to look through them again and again took a
    fifth of the time of a build.
    """
    before = gc.get_threshold()
    gc.set_threshold(100 * before[0], *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@_collecting_rarely()
def build_site(wanted: Wanted) -> Built:
    """Build the site, and return what was built.

    Raises
    ------
    HpcaiError
        If a folder is missing, the site's folder holds something else, an edition to freeze exists, or a frozen one
        was changed. Submissions that fail a check are listed in the edition instead.
    """
    site, editions_at = wanted.site, wanted.editions or wanted.site / "editions"
    state = _State.open(site)
    frozen = read_editions(editions_at)
    if wanted.freeze and require_edition(wanted.freeze, wanted.today) in frozen:
        freeze(frozen[wanted.freeze], editions_at)  # raises: it exists
    sources, refused = find_sources(wanted.folders)
    cache = wanted.cache or site.parent / f".{site.name}-cache"
    found = read_sources(sources, cache, wanted.today)
    open_contents, embargoed = _without_embargoed(found.contents, wanted.today)
    frame = Frame(
        name=wanted.freeze or DRAFT,
        title=wanted.title,
        url=wanted.url,
        made=wanted.today,
        earlier=tuple(dict.fromkeys([*frozen, *filter(None, [wanted.freeze])])),
    )
    edition = join_edition(open_contents, refused, frame, _added(state, frozen))
    if wanted.freeze:
        freeze(edition, editions_at)
        frozen[edition.name] = edition
    pages = _write_site(edition, site, state, frozen)
    _copy_editions(editions_at, site / "editions")
    return Built(edition, len(sources), tuple(sorted(found.fresh)), pages, embargoed)


def _write_site(edition: Edition, site: Path, state: "_State", frozen: Mapping[str, Edition]) -> int:
    """Write what changed, and return the number of pages of results, machines and organisations among it."""
    digests = _digests(edition)
    differences = differences_of(frozen, edition)
    whole = _digest([*digests.values(), *(one.model_dump_json() for one in (*edition.refused, *differences.values()))])
    frame = _frame(edition)
    if (state.frame, state.whole) == (frame, whole) and (site / "index.html").is_file():
        return 0
    from hpcai.listing.pages import write_pages

    site.mkdir(parents=True, exist_ok=True)
    changed = state.changed(digests, frame)
    entries = edition.entries if changed is None else [edition.by_id[key] for key in _results_of(changed)]
    write_site_data(edition, site, entries)
    folder = site / "data" / "differences"
    folder.mkdir(exist_ok=True)
    for name, difference in differences.items():
        write_atomically(folder / f"{name}.json", (difference.model_dump_json(indent=1) + "\n").encode())
    remove_others(site, ["data/differences"], (f"data/differences/{name}.json" for name in differences))
    write_pages(edition, site, changed, differences)
    added = {entry.id: entry.added.isoformat() for entry in edition.entries if entry.added}
    state.close(digests, added, frame, whole)
    return len(digests if changed is None else changed)


def _without_embargoed(contents: Mapping[str, Content], today: date) -> tuple[dict[str, Content], tuple[str, ...]]:
    """Return the contents whose day has come, and the names of the others, of which the site has no trace."""
    kept_out = {name for name, content in contents.items() if content.embargo is not None and content.embargo > today}
    return {name: one for name, one in contents.items() if name not in kept_out}, tuple(sorted(kept_out))


def _added(state: "_State", frozen: Mapping[str, Edition]) -> dict[str, date]:
    """Return the day on which each known entry entered: that of the first frozen edition that has it, or as before."""
    days = {key: date.fromisoformat(day) for key, day in state.added.items()}
    for edition in reversed(list(frozen.values())):
        days |= {entry.id: entry.added or edition.made for entry in edition.entries}
    return days


def _frame(edition: Edition) -> str:
    """Return what every page shows: names and days, the menu, and the templates."""
    templates = sorted((find_sources_of_pages() / "list").glob("*.j2"))
    return _digest(
        (
            edition.name,
            edition.title,
            edition.url,
            edition.made.isoformat(),
            *edition.earlier,
            str(bool(predicted_quantities(edition))),
            code_digest(),
            *(template.read_text("utf-8") for template in templates),
        )
    )


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()


def _digests(edition: Edition) -> dict[str, str]:
    """Return the digest of what each page of a result, machine or organisation shows, by name of the page."""
    places: dict[str, list[str]] = {entry.id: [] for entry in edition.entries}
    for ranking in edition.rankings:
        for place in ranking.places:
            places[place.entry].append(f"{ranking.id} {place.place is None}")
    predicted: dict[str, list[str]] = {}
    for prediction in edition.predictions:
        predicted.setdefault(prediction.entry, []).append(prediction.model_dump_json())
    pages: dict[str, str] = {}
    shared: dict[str, list[str]] = {}
    for entry in edition.entries:
        words = [entry.model_dump_json(), *places[entry.id], *predicted.get(entry.id, ())]
        digest = _digest(words)
        pages[f"result/{entry.id}"] = digest
        for page in (f"machine/{entry.machine}", f"organisation/{make_id(entry.organisation)}"):
            shared.setdefault(page, []).append(digest)
    for machine in edition.machines:
        shared.setdefault(f"machine/{machine.id}", []).append(machine.model_dump_json())
    return pages | {page: _digest(words) for page, words in shared.items()}


def _results_of(pages: Iterable[str]) -> list[str]:
    return sorted(page.removeprefix("result/") for page in pages if page.startswith("result/"))


def _copy_editions(source: Path, target: Path) -> None:
    """Put the frozen editions into the site; those that are there are equal, because they never change."""
    if source.resolve() == target.resolve() or not source.is_dir():
        return
    for folder in sorted(source.iterdir()):
        if folder.is_dir() and not (target / folder.name).exists():
            shutil.copytree(folder, target / folder.name)


@dataclass
class _State:
    """What the last build wrote into a site."""

    site: Path
    frame: str = ""
    whole: str = ""
    pages: dict[str, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)

    @classmethod
    def open(cls, site: Path) -> "_State":
        """Read the state of a site; none of a new one.

        Raises
        ------
        ConfigError
            If it is a file, or the folder holds other files, which a build would mix with its own.
        """
        if site.exists() and not site.is_dir():
            raise ConfigError(at(str(site), NO_FOLDER()))
        file = site / STATE
        if not file.is_file():
            others = [path for path in site.iterdir() if path.name != "editions"] if site.is_dir() else []
            if others:
                raise ConfigError(at(str(site), NOT_A_SITE()))
            return cls(site)
        try:
            known = json.loads(file.read_bytes())
            return cls(site, str(known["frame"]), str(known["whole"]), dict(known["pages"]), dict(known["added"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(site)

    def changed(self, digests: Mapping[str, str], frame: str) -> frozenset[str] | None:
        """Return the pages to write; None for all."""
        if self.frame != frame:
            return None
        return frozenset(page for page, digest in digests.items() if self.pages.get(page) != digest)

    def close(self, pages: Mapping[str, str], added: Mapping[str, str], frame: str, whole: str) -> None:
        """Write the state, last of all: after an interrupted build, everything that changed is written again."""
        state = {"frame": frame, "whole": whole, "pages": dict(pages), "added": dict(added)}
        write_atomically(self.site / STATE, json.dumps(state).encode())


def describe(built: Built) -> Sequence[str]:
    """Return the lines that tell a build's outcome."""
    edition = built.edition
    lines = [
        f"{len(edition.entries)} entries of {built.submissions} submissions ({len(built.read)} read, the others as "
        f"before), {len(edition.machines)} machines, {len(edition.rankings)} rankings; {built.pages} pages written"
    ]
    lines += [f"embargoed, left out: {name}" for name in built.embargoed]
    for refusal in built.lost:
        reason = refusal.reasons[0]
        place = f", {refusal.place}" if refusal.place else ""
        lines.append(f"refused: {refusal.submission}{place}: {reason.code}: {reason.text}")
    return lines
