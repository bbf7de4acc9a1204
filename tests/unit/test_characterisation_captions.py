"""Captions of the characterisation, rendered as Snakemake renders them; any complaint of docutils is a failure."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docutils.core import publish_parts
from jinja2 import Environment
from unit.view_factory import make_captures, make_empty_tables, make_rows, make_tables

from hpcai.metrics.advice import advise
from hpcai.plots.registry import CHARACTERISATION_FIGURES
from hpcai.plots.table_page import CHARACTERISATION_COLUMNS

FOLDER = Path(__file__).parents[2] / "reports" / "captions"
NAMES = sorted({*CHARACTERISATION_FIGURES, *CHARACTERISATION_COLUMNS})
NASTY = (
    "*bold `x` |sub| http://a_ \\ <script>alert(1)</script>\n\n.. raw:: html\n\n   <b> :math:`1` a_ [1]_ {{ 7 }} Ü #1)"
)


def make_views(tables: dict[str, Any]) -> dict[str, Any]:
    """Return rows as the summary holds them: Python's own types, None for what was not measured."""
    names = ("communication", "phases", "kernels", "io", "links", "ceilings")
    advice = advise(*(tables[name] for name in names))
    views = {name: [clean(row) for row in table.to_dict("records")] for name, table in tables.items()}
    return {**views, "advice": advice.to_dict("records"), "messages": [{"count": len(tables["messages"])}]}


def clean(row: dict[Any, Any]) -> dict[Any, Any]:
    return {key: None if is_missing(value) else value for key, value in row.items()}


def is_missing(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def make_nasty() -> dict[str, Any]:
    tables = make_tables(2)
    for name, column in (("communication", "reasons"), ("io", "reasons"), ("kernels", "tool"), ("links", "scope")):
        tables[name][column] = NASTY
    views = make_views({**tables, "captures": make_captures(NASTY)})
    names = ("method", "instrument", "reasons", "memory_bandwidth_reason", "sentence", "source", "topic")
    row = clean(make_rows("io").iloc[0].to_dict()) | dict.fromkeys(names, NASTY)
    return views | {view: [row] for view in ("work", "power", "characterisation", "inconsistencies", "advice")}


VIEWS = {
    "one": lambda: make_views(make_tables(1)),
    "ten": lambda: make_views(make_tables(10)),
    "nothing": lambda: make_views(make_empty_tables(NASTY)),
    "blank": lambda: make_views({name: make_rows(name) for name in make_tables(1)}),
    "no_fit": lambda: make_views({**make_tables(1), "link_fits": make_rows("link_fits", scope="node", reason=NASTY)}),
    "nasty": make_nasty,
    "absent": lambda: None,
}


def render(name: str, summary: dict[str, Any] | None, **wildcards: str) -> str:
    config = {} if summary is None else {"summary": summary}
    snakemake = SimpleNamespace(config=config, wildcards=SimpleNamespace(**wildcards), params=SimpleNamespace())
    template = Environment(trim_blocks=True, lstrip_blocks=True).from_string((FOLDER / f"{name}.rst").read_text())
    settings = {"halt_level": 2, "report_level": 2}
    page = publish_parts(template.render(snakemake=snakemake), writer="html", settings_overrides=settings)["html_body"]
    return " ".join(str(page).split())


@pytest.fixture(scope="module", params=VIEWS)
def views(request: pytest.FixtureRequest) -> Any:
    return VIEWS[request.param]()


@pytest.mark.parametrize("name", NAMES)
def test_caption_renders(name: str, views: Any) -> None:
    summary = {"notice": "not a valid result of any_suite", "characterisation": views}
    for wildcards in ({}, {"benchmark": "cosmoflow_tiny"}):
        page = render(name, summary, **wildcards)
        assert "<script>" not in page
        assert "<b>" not in page
        assert "None" not in page
        assert " nan" not in page.lower()
        assert "not a valid result of any_suite" in page
        assert "Nothing has been analysed yet" not in page


@pytest.mark.parametrize("name", NAMES)
def test_caption_before_anything_was_analysed(name: str) -> None:
    assert "Nothing has been analysed yet" in render(name, None)


def test_numbers_are_those_of_the_views() -> None:
    summary = {"notice": "", "characterisation": make_views(make_tables(6))}
    page = render("phases", summary)
    assert "negotiation 28.6 % of communication, communication 20.0 % of the step, transfers behind" in page
    assert "behind computation 40.0 %, 20 steps" in page
    assert "transfers behind computation not measured" in page
    assert "resnet50_tiny" not in render("phases", summary, benchmark="cosmoflow_tiny")
    page = render("messages", summary)
    assert "1800 batches in all" in page
    assert "latency 40.0 µs ± 1.0 µs, bandwidth 2.1 GB/s ± 100 MB/s, 13 sizes" in page
    assert "page cache cold; sum 1.1 GB/s, parallel 900 MB/s, delivered 150 MB/s" in render("io", summary)
    assert "and 3 more" in render("communication", summary)
    chosen = render("communication", summary, benchmark="deepcam_tiny")
    assert "raw files: results/profiles/timeline/deepcam_tiny/fp32/n1x2/1/raw/timeline.json. The same table" in chosen
    assert "other 5.0 % of kernel time" in render("kernels", summary)


@pytest.mark.parametrize("name", ["io", "kernels", "phases", "lanes", "messages", "communication", "power", "captures"])
def test_reason_of_what_was_not_measured(name: str) -> None:
    summary = {"notice": "", "characterisation": make_views(make_empty_tables("the tool is not there"))}
    assert "the tool is not there" in render(name, summary)
