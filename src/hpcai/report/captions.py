"""Captions of figures and tables, rendered as Snakemake renders them."""

from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from docutils.core import publish_parts
from docutils.utils import SystemMessage
from jinja2 import Environment
from markupsafe import Markup, escape

from hpcai.report.material import Material

SETTINGS: dict[str, Any] = {
    "halt_level": 2,
    "report_level": 5,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "warning_stream": False,
}
"""Captions quote reasons and titles that users and programs wrote: they may neither read files nor bring in HTML."""


@dataclass(frozen=True)
class Caption:
    """A caption in two parts: what a reader needs at once, and the rest."""

    first: Markup
    rest: Markup


def render_caption(material: Material, topic: str) -> Caption | None:
    """Return the caption of a figure or table; None if ``reports/captions`` has none."""
    path = material.sources / "captions" / f"{topic}.rst"
    if not path.exists():
        return None
    rounds = material.table("mlperf_runs")
    config: dict[str, Any] = {"rounds": sorted(rounds["origin"].unique())} if len(rounds) else {}
    config |= {"summary": material.summary} if material.summary else {}
    snakemake = SimpleNamespace(config=config, wildcards=SimpleNamespace(), params=SimpleNamespace())
    source = _environment().from_string(path.read_text(encoding="utf-8")).render(snakemake=snakemake)
    try:
        body = str(publish_parts(source, writer="html5", settings_overrides=SETTINGS)["body"])
    except SystemMessage as error:
        return Caption(Markup("<p>The caption could not be rendered: {}</p>").format(escape(str(error))), Markup(""))
    first, end, rest = body.strip().partition("</p>")
    # Both parts are docutils' own output, in which every text is escaped.
    return Caption(Markup(first + end), Markup(rest.strip()))  # noqa: S704


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # The texts become reStructuredText, not HTML: docutils escapes them.
    return Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701
