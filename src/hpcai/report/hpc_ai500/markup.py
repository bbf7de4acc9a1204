"""Render a report document as HTML: a fragment for the main report, and a self-contained page."""

import html
import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from hpcai.core.text import say_beside, say_bytes, say_rate, say_time
from hpcai.report.hpc_ai500.model import Document, Item, Table, Value

STATUS_WORDS = {"present": "present", "missing": "missing", "not_applicable": "does not apply"}
ITEM_HEADS = ("Item", "Value", "Status", "How it is known", "Remark")
SHORT, LONG = 26, 80
"""Longest text kept on one line, and minimum length for a wide column [characters]."""
CODE = re.compile(r"`([^`]+)`")
FILE = re.compile(r"(?:[\w.-]+/)+[\w-]+\.\w+")
"""A path in a sentence; excludes units such as MB/s."""
FOLDER = Path(__file__).parent
STYLE, FRAGMENT_STYLE = ("\n" + (FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "fragment.css"))
"""Styles of the separate page and of the fragment; the page defines the variables --bad, --good, --head, --line and
--mute."""


def document_html(document: Document, *, folder: str = "", level: int = 3) -> str:
    """Return a document as one section with headings, lists and tables; classes only.

    Parameters
    ----------
    document
        Content of a ``report.json``.
    folder
        Path from the page to the document's folder, with a trailing slash; blank if they are the same.
    level
        Level of the headings of the four parts; tables and lists are one level deeper.
    """
    return _render(document, folder=folder, level=level)


def document_page(document: Document) -> str:
    """Return a document as a separate page: light, dark and printable, without scripts."""
    return _render(document, level=2, style=Markup(STYLE + FRAGMENT_STYLE), is_page=True)  # noqa: S704  our own files


def _render(document: Document, *, level: int, folder: str = "", style: str = "", is_page: bool = False) -> str:
    template = _environment().get_template("document.html.j2")
    return template.render(document=document, level=level, folder=folder, style=style, is_page=is_page)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals |= {"STATUS_WORDS": STATUS_WORDS, "ITEM_HEADS": ITEM_HEADS, "say": say}
    filters: dict[str, Callable[..., object]] = {
        "value": lambda item: "" if item.value is None else say(item.value, item.unit),
        "remark": _remark,
        "kinds": _kinds,
        "file_name": lambda path: str(path).rpartition("/")[2],
        "prose": lambda text: Markup(_prose(text)),  # noqa: S704  it escapes
        "path": lambda path: Markup(_path(html.escape(path))),  # noqa: S704
    }
    environment.filters |= filters
    return environment


def _remark(item: Item) -> str:
    note = f"{item.note[0].upper()}{item.note[1:]}." if item.note else ""
    todo = f"To do: {item.action}." if item.action else ""
    return " ".join(text for text in (note, todo) if text)


def _kinds(table: Table) -> list[str]:
    """Return the class of each column."""
    return [_kind([row[number] for row in table.rows]) for number in range(len(table.columns))]


def _kind(cells: Sequence[Value | None]) -> str:
    """Return the class of a column: numbers, or texts by their greatest length."""
    known = [cell for cell in cells if cell is not None]
    if known and all(isinstance(cell, int | float) for cell in known):
        return "number"
    longest = max((len(str(cell)) for cell in known), default=0)
    return "short" if longest <= SHORT else "text" if longest <= LONG else "long"


def say(value: Value, unit: str, target: float | None = None) -> str:
    """Return a value with its unit, with a suitable prefix; beside a target with digits enough to show if it is met."""
    if isinstance(value, str):
        return f"{value} {unit}".strip()
    if unit == "byte":
        return say_bytes(value)
    if unit == "s":
        return say_time(value)
    if unit.startswith(("FLOP/", "B/s")) or unit == "Hz":
        return say_rate(value, unit)
    beside = math.nan if target is None else target
    words = f"{value:,}" if isinstance(value, int) else say_beside(value, beside, "{:.4g}".format)
    return f"{words} {unit}".strip()


def _prose(text: str) -> str:
    """Return a sentence with code markup for text between backticks, and line breaks allowed after slashes in paths."""
    return CODE.sub(r"<code>\1</code>", FILE.sub(lambda path: _path(path[0]), html.escape(text)))


def _path(path: str) -> str:
    """Return an escaped path that may break after a slash and nowhere else."""
    *folders, name = path.split("/")
    parts = [*(f"{folder}/" for folder in folders), *([name] if name else [])]
    return "".join(f'<span class="part">{part}</span>' for part in parts) if len(parts) > 1 else path
