"""What every page of a list must keep: links that lead somewhere, and nothing that its security policy forbids."""

import os
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"
ADDRESSES = {"href", "src"}


class _Page(HTMLParser):
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


def read_page(path: Path) -> _Page:
    """Return what a page holds."""
    page = _Page()
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


def _follow(site: Path, path: Path, address: str, pages: dict[Path, _Page], foreign: tuple[str, ...]) -> list[str]:
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
