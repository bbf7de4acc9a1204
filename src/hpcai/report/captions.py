"""Render captions of figures and tables once, for our report and for Snakemake's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from docutils.core import publish_parts
from docutils.utils import SystemMessage
from jinja2 import Environment, Undefined
from markupsafe import Markup, escape

from hpcai.catalogue.figures import FIGURES
from hpcai.core.files import write_atomically
from hpcai.core.limits import MOST_LINES
from hpcai.core.text import (
    say_between,
    say_count,
    say_error,
    say_fixed,
    say_measured_rate,
    say_measured_time,
    say_ratio,
)
from hpcai.report.material import Material

SETTINGS: dict[str, Any] = {
    "halt_level": 2,
    "report_level": 5,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "warning_stream": False,
}
"""Captions quote reasons and titles from users and programs, which must not read files or inject HTML."""
PARTS = ("characterisation", "scoring", "prediction")
"""Parts of the summary available to captions by name: the records of their tables."""
LANDING = "workflow"
"""The text of the first page of Snakemake's report; must also work before the analysis."""
NOTHING = "Nothing has been analysed yet.\n"
LISTED_FILES = 3
ITEM, INSIDE = "* ", "  "
"""How an item of a list begins, and how its other lines do."""


@dataclass(frozen=True)
class Caption:
    """A caption in two parts: the essential part, and the rest."""

    first: Markup
    rest: Markup


def render_caption(material: Material, topic: str) -> Caption | None:
    """Return the caption of a figure or table as HTML; None if ``reports/captions`` has none."""
    path = material.sources / "captions" / f"{topic}.rst"
    if not path.exists():
        return None
    try:
        body = str(publish_parts(render_text(material, path), writer="html5", settings_overrides=SETTINGS)["body"])
    except SystemMessage as error:
        return Caption(Markup("<p>The caption could not be rendered: {}</p>").format(escape(str(error))), Markup(""))
    first, end, rest = body.strip().partition("</p>")
    # Both parts are docutils' own output, in which every text is escaped.
    return Caption(Markup(first + end), Markup(rest.strip()))  # noqa: S704


def write_captions(material: Material, captions: Iterable[Path]) -> None:
    """Write captions and the landing page of Snakemake's report, as templates without expressions.

    Parameters
    ----------
    material
        The results folder, and the location of the templates.
    captions
        The files to write, each with the name of its template.
    """
    for path in captions:
        folder = material.sources if path.stem == LANDING else material.sources / "captions"
        # No text can end the raw block: every markup character in it is escaped with a backslash.
        content = f"{{% raw %}}\n{render_text(material, folder / path.name)}{{% endraw %}}\n"
        write_atomically(path, content.encode("utf-8"))


def render_text(material: Material, template: Path) -> str:
    """Return a caption as reStructuredText, with the first ``MOST_LINES`` items of each list.

    Templates can use ``summary``, each of :data:`PARTS`, ``rounds``, ``notice`` (the verdict of the rules) and the
    formatting functions below.
    """
    runs = material.table("mlperf_runs")
    rounds = sorted(runs["origin"].unique()) if len(runs) else []
    summary = material.summary
    stage = FIGURES[template.stem].stage if template.stem in FIGURES else ""
    needs_study = template.stem != LANDING and stage != "gpu" and not (rounds and stage == "rounds")
    if not summary and needs_study:
        return NOTHING
    parts = {name: (summary or {}).get(name) or {} for name in PARTS}
    context = {"summary": summary, "rounds": rounds, "notice": text((summary or {}).get("notice", "")), **parts}
    made = _environment().from_string(template.read_text(encoding="utf-8"))
    return shorten_lists(made.render(**context, reasons=_reasons_of(parts["characterisation"].get("captures") or [])))


def shorten_lists(body: str) -> str:
    """Return reStructuredText with the first ``MOST_LINES`` items of each list, and the number of the others."""
    kept: list[str] = []
    items = 0
    for line in body.splitlines(keepends=True):
        if line.startswith(ITEM):
            items += 1
        elif line.strip() and not line.startswith(INSIDE):
            kept += _say_others(items)
            items = 0
        if items <= MOST_LINES:
            kept.append(line)
    return "".join([*kept, *_say_others(items)])


def _say_others(items: int) -> list[str]:
    """Return the last item of a list that was too long."""
    left = items - MOST_LINES
    return [f"{ITEM}and {left:,} more in the tables\n\n"] if left > 0 else []


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # The texts become reStructuredText, not HTML: docutils escapes them.
    environment = Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701
    environment.globals.update(text=text, raw_files=raw_files, number=say_fixed, interval=say_between, count=say_count)
    environment.globals.update(rate=say_measured_rate, time=say_measured_time, percent=say_ratio, signed=say_error)
    return environment


def text(value: object) -> str:
    """Return a text from a user or a program with all markup escaped."""
    words = "not named" if value is None or isinstance(value, Undefined) else " ".join(str(value).split())
    return "".join(sign if sign.isalnum() or sign == " " else f"\\{sign}" for sign in words if sign.isprintable())


def raw_files(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] = ("source",)) -> str:
    """Return the first raw files named in columns of a table, and the number of further ones."""
    cells = (row.get(column) or "" for row in rows for column in columns)
    found = list(dict.fromkeys(file for cell in cells for file in cell.split(", ") if file))
    more = f" and {len(found) - LISTED_FILES} more" if len(found) > LISTED_FILES else ""
    return ", ".join(map(text, found[:LISTED_FILES])) + more if found else "none"


def _reasons_of(captures: Sequence[Mapping[str, Any]]) -> Callable[[str], str]:
    def reasons(profile: str) -> str:
        """Return why runs of a profile have no data."""
        found = dict.fromkeys(row["reason"] for row in captures if row["profile"] == profile and row["reason"])
        return "; ".join(map(text, list(found)[:LISTED_FILES])) or "no reason was recorded"

    return reasons
