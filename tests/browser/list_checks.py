"""What every page of a list must keep: links that lead somewhere, nothing that its security policy forbids, budgets."""

import os
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from playwright.sync_api import Browser, Page

from hpcai.listing.entries import Ranking

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"
ADDRESSES = {"href", "src"}
LAPTOP: dict[str, Any] = {"viewport": {"width": 1366, "height": 900}}
ASSETS = ("theme.js", "theme_button.js", "site.js", "list.js", "list.css", "table-core.js", "icon.svg")
MOST_BYTES = 300_000
"""Of a list page with all that it waits for; what comes after it is counted apart."""
MOST_S = 1.0
ROWS = "#list tbody tr"


class Markup(HTMLParser):
    """Addresses, identifiers and forbidden things of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.problems: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        about = {name: value or "" for name, value in attrs}
        self.addresses += [about[name] for name in ADDRESSES & set(about)]
        self.ids += [about["id"]] if "id" in about else []
        forbidden = [name for name in about if name.startswith("on") or name == "style"]
        self.problems += [f"<{tag} {name}>" for name in forbidden]
        if tag in {"style", "iframe", "object", "base"}:
            self.problems.append(f"<{tag}>")
        if tag == "script" and "src" not in about and about.get("type") != "application/ld+json":
            self.problems.append("a script without a file")
        if tag == "th" and "scope" not in about:
            self.problems.append("a heading without scope")
        if tag == "meta" and about.get("http-equiv") == "Content-Security-Policy":
            self.policy = about["content"]


def read_page(path: Path) -> Markup:
    """Return what a page holds."""
    page = Markup()
    page.feed(path.read_text("utf-8"))
    return page


def check_site(site: Path, foreign: Iterable[str] = ()) -> list[str]:
    """Return everything that is wrong with the pages of a site; nothing if all is right.

    Parameters
    ----------
    site
        Its folder.
    foreign
        Beginnings of paths below it that somebody else writes.
    """
    pages = {path: read_page(path) for path in site.rglob("*.html")}
    problems = [] if pages else ["no page"]
    for path, page in pages.items():
        name = path.relative_to(site)
        problems += [f"{name}: {found}" for found in page.problems]
        problems += [f"{name}: the policy is {page.policy!r}"] if page.policy != POLICY else []
        problems += [f"{name}: the id {one} stands twice" for one in set(page.ids) if page.ids.count(one) > 1]
        for address in set(page.addresses):
            problems += [f"{name}: {address} {wrong}" for wrong in _follow(site, path, address, pages, tuple(foreign))]
    return problems


def _follow(site: Path, path: Path, address: str, pages: dict[Path, Markup], foreign: tuple[str, ...]) -> list[str]:
    """Return what is wrong with one address of a page."""
    parts = urlsplit(address)
    target = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
    if parts.scheme or parts.netloc or not target.is_relative_to(site):
        return ["leads out of the site"]
    if str(target.relative_to(site)).startswith(foreign or ("\0",)):
        return []
    if target not in pages and not target.is_file():
        return ["leads nowhere"]
    return ["has no such place"] if parts.fragment and parts.fragment not in pages[target].ids else []


class Visit:
    """A page of the site, and everything that went wrong on it."""

    def __init__(self, browser: Browser, site: Path, view: dict[str, Any]) -> None:
        self.site, self.problems = site, list[str]()
        self.bytes = 0
        self.context = browser.new_context(**view)
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda message: self.problems.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self._count(request.url))

    def _count(self, url: str) -> None:
        parts = urlsplit(url)
        path = Path(parts.path)
        if parts.scheme != "file" or not path.is_relative_to(self.site):
            self.problems.append(f"request: {url[:200]}")
        elif path.is_file():
            self.bytes += path.stat().st_size

    def open(self, place: str) -> Page:
        self.page.goto(f"{self.site.as_uri()}/{place}")
        return self.page

    def open_list(self, ranking: Ranking, query: str = "") -> Page:
        page = self.open(f"list/{ranking.id}.html{query}")
        page.wait_for_selector("html.interactive")
        return page


def ids_of(page: Page) -> list[str]:
    """Return the results that a list shows, in its order."""
    return page.eval_on_selector_all(f"{ROWS} input[name=compare]", "boxes => boxes.map((box) => box.value)")


def query_of(page: Page) -> dict[str, list[str]]:
    """Return what the address of a page keeps."""
    return parse_qs(urlsplit(page.url).query)
