"""Captions as Snakemake's report shows them; any complaint of docutils is a failure."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from docutils.core import publish_parts
from jinja2 import Environment

from hpcai.report.captions import render_text
from hpcai.report.material import Material

REPORTS = Path(__file__).parents[2] / "reports"
LINKS = """

{% for cat, res in categories|dictsort %}
.. _{{ cat.name }}: javascript:app.showCategory('{{ cat.name|urlencode }}')
{% endfor %}
{% for res in files %}
.. _{{ res.target }}: javascript:app.showResultInfo('{{ res.path|urlencode }}')
{% endfor %}
"""
"""What Snakemake puts behind every text of the report: our own names must not hide the ones that it uses."""


class Category:
    """A stand-in for Snakemake's class: a name, sortable."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __lt__(self, other: "Category") -> bool:
        return self.name < other.name


def make_material(summary: dict[str, Any] | None, rounds: Sequence[str] = ()) -> Material:
    """Return what captions are rendered from: a summary, and the origins of published rounds."""
    tables = {"mlperf_runs": pd.DataFrame({"origin": list(rounds)})} if rounds else {}
    return Material(
        folder=Path(), sources=REPORTS, tables=tables, summary=summary, study=None, definitions={}, place=""
    )


def render(name: str, summary: dict[str, Any] | None, rounds: Sequence[str] = ()) -> str:
    """Return the HTML of a caption, or of the landing page (``workflow``)."""
    template = REPORTS / "workflow.rst" if name == "workflow" else REPORTS / "captions" / f"{name}.rst"
    source = render_text(make_material(summary, rounds), template)
    categories = {Category(known): {} for known in ("Summary", "Throughput", "Scaling", "I/O")}
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    page = environment.from_string(source_as_written(source) + LINKS).render(categories=categories, files=[])
    settings = {"halt_level": 2, "report_level": 2}
    return str(publish_parts(page, writer="html", settings_overrides=settings)["html_body"])


def says(page: str, *facts: str) -> bool:
    """Return whether facts stand in a page one behind the other, with a few words between: whatever these words are."""
    return re.search(r"[\s\S]{0,60}?".join(re.escape(fact) for fact in facts), page) is not None


def source_as_written(source: str) -> str:
    """Return the text as it stands in the file that Snakemake takes for a template."""
    return f"{{% raw %}}\n{source}{{% endraw %}}\n"
