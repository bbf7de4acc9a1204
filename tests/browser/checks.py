"""What a report page must keep in a real browser; used by the browser test and by end-to-end tests on real reports."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from playwright.sync_api import Browser, Page, Request, sync_playwright

BROWSER = "chromium"
OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-quic")
VIEWS: dict[str, dict[str, Any]] = {
    "laptop": {"viewport": {"width": 1366, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}},
    "dark": {"viewport": {"width": 1366, "height": 900}, "color_scheme": "dark"},
    "print": {"viewport": {"width": 1032, "height": 730}, "color_scheme": "dark"},
    "without scripts": {"viewport": {"width": 1366, "height": 900}, "java_script_enabled": False},
}
"""How the page is looked at."""
FIGURES = """() => [...document.querySelectorAll('figure.figure')].map((figure) => {
  const shown = [...figure.querySelectorAll('img, .live svg')].filter((item) => item.checkVisibility());
  const sizes = shown.map((item) => item.getBoundingClientRect());
  const broken = shown.some((item) => item.tagName === 'IMG' && !(item.complete && item.naturalWidth));
  const missing = figure.querySelector('p.missing');
  return {
    id: figure.id, broken, missing: missing ? missing.textContent.trim() : '',
    drawn: sizes.some((size) => size.width > 50 && size.height > 30),
    interactive: Boolean(figure.querySelector('[data-specification]')),
    marks: figure.querySelectorAll('.live svg :is(.mark-symbol path, .mark-line path, .mark-text text)').length,
  };
})"""
TABLES = """() => [...document.querySelectorAll('section.table, #answer')].map((part) => ({
  id: part.id, rows: part.querySelectorAll('tbody tr').length,
  said: (part.querySelector('p.missing') || {textContent: ''}).textContent.trim(),
}))"""
LINKS = """() => {
  const links = [...document.querySelectorAll('a[href]')].map((link) => link.getAttribute('href'));
  const ids = new Set([...document.querySelectorAll('[id]')].map((item) => item.id));
  const all = [...document.querySelectorAll('[id]')].map((item) => item.id);
  return {
    lost: links.filter((link) => link.startsWith('#') && !ids.has(link.slice(1))),
    files: [...new Set(links.filter((link) => !link.startsWith('#')))],
    twice: all.filter((id, place) => all.indexOf(id) !== place),
  };
}"""
WIDE = """() => {
  const inside = (item) => item.closest('.scroll, .canvas, dialog, .skip, pre');
  const wide = [...document.querySelectorAll('body *')].filter((item) => !inside(item) && item.checkVisibility()
    && item.getBoundingClientRect().right > document.documentElement.clientWidth + 1);
  return [document.documentElement.scrollWidth, document.documentElement.clientWidth,
    wide.slice(0, 3).map((item) => `${item.tagName} ${item.className} ${item.textContent.slice(0, 40)}`)];
}"""


def missing_browser() -> str:
    """Return what is missing for these checks; empty if nothing is."""
    return "" if shutil.which(BROWSER) else f"no {BROWSER} on the PATH (Debian: apt install chromium)"


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start Chromium without a window, and end it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which(BROWSER), args=list(OPTIONS))
        try:
            yield browser
        finally:
            browser.close()


def check_page(path: Path, views: Iterable[str] = tuple(VIEWS), browser: Browser | None = None) -> list[str]:
    """Return everything that is wrong with a report page; nothing if it is as it should be.

    Parameters
    ----------
    path
        The page, in its results folder: its links to raw files are followed.
    views
        Keys of :data:`VIEWS`, all by default.
    browser
        Where to look at it; by default one is started.
    """
    with nullcontext(browser) if browser else open_browser() as used:
        return [f"{name}: {found}" for name in views for found in _check_view(used, path, name, VIEWS[name])]


def embed_all(page: Page) -> None:
    """Bring every interactive chart near the screen and wait until it is drawn."""
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    # Before everything is laid out, a place that was scrolled to may move away again.
    page.wait_for_function("() => document.documentElement.classList.contains('settled')", timeout=20_000)
    for place in page.query_selector_all("figure:has([data-specification])"):
        place.scroll_into_view_if_needed()
        page.wait_for_function("figure => figure.classList.contains('answers')", arg=place, timeout=20_000)


def _check_view(browser: Browser, path: Path, name: str, view: dict[str, Any]) -> list[str]:
    context = browser.new_context(**view)
    page = context.new_page()
    problems: list[str] = []
    requests: list[str] = []

    def note_request(request: Request) -> None:
        requests.append(request.url)

    page.on("request", note_request)
    page.on("requestfailed", lambda request: problems.append(f"request failed: {request.url[:200]}"))
    page.on("pageerror", lambda error: problems.append(f"error of the page: {error}"))
    page.on(
        "console",
        lambda message: problems.append(f"console: {message.text}") if message.type in {"error", "warning"} else None,
    )
    page.goto(path.resolve().as_uri())
    scripts = view.get("java_script_enabled", True)
    if scripts and name != "print":
        embed_all(page)
    if name == "print":
        page.emulate_media(media="print")
    problems += _check_content(page, path, scripts=scripts, embedded=scripts and name != "print")
    problems += [f"a request: {url[:200]}" for url in requests if not url.startswith(("file://", "data:"))]
    problems += [f"another file: {url}" for url in requests if url.startswith("file://")][1:]
    context.close()
    return problems


def _check_content(page: Page, path: Path, *, scripts: bool, embedded: bool) -> list[str]:
    problems = []
    for figure in page.evaluate(FIGURES):
        if figure["broken"] or not (figure["drawn"] or figure["missing"]):
            problems.append(f"{figure['id']} is empty")
        if figure["interactive"] and embedded and not figure["marks"]:
            problems.append(f"{figure['id']} has no marks")
    problems += [f"{table['id']} is empty" for table in page.evaluate(TABLES) if not (table["rows"] or table["said"])]
    links = page.evaluate(LINKS)
    problems += [f"{link} leads nowhere" for link in links["lost"]]
    problems += [f"the id {name} stands twice" for name in links["twice"]]
    problems += [f"no file {link}" for link in links["files"] if not _leads(path.parent, link)]
    width, room, wide = page.evaluate(WIDE)
    if width > room or wide:
        problems.append(f"wider than the screen: {width} of {room} px, {wide}")
    if scripts and page.evaluate("document.querySelectorAll('dialog[open]').length"):
        problems.append("a definition is open")
    return problems


def _leads(folder: Path, link: str) -> bool:
    """Tell whether a relative link leads to a file of the folder."""
    parts = urlsplit(link)
    return not parts.scheme and (folder / unquote(parts.path)).exists()
