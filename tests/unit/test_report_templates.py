"""The landing page and the captions, rendered as Snakemake renders them; any complaint of docutils is a failure."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docutils.core import publish_parts
from jinja2 import Environment
from unit.record_factory import (
    make_benchmark,
    make_machine,
    make_mixed_study,
    make_record,
    make_study,
    make_two_suites,
    write_records,
)

from hpcai.catalogue import FIGURES
from hpcai.plots import SHOWN_COLUMNS
from hpcai.records import RunRecord
from hpcai.report.section_specs import FigureSpec
from hpcai.report.sections import SECTIONS
from hpcai.tables import collect_runs, summarise_scales, summarise_study

REPORTS = Path(__file__).parents[2] / "reports"
CAPTIONS = sorted((REPORTS / "captions").glob("*.rst"))
NASTY = "*bold `x` |sub| http://a_ \\ <script>alert(1)</script> .. raw:: html :math:`1` a_ [1]_ {{ 7 * 7 }} Ünï #1) - x"
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


def summarise(records: list[RunRecord], folder: Path, title: str = "A study") -> dict[str, Any]:
    runs = collect_runs(write_records(records, folder))
    return summarise_study(runs, summarise_scales(runs), records, title=title)


def nasty_study() -> list[RunRecord]:
    benchmark = make_benchmark(title=NASTY, target={"value": 0.3, "note": NASTY})
    machine = make_machine(title=NASTY)
    plan: dict[str, Any] = {"benchmark": benchmark, "machine": machine}
    good = [make_record(repetition=n, **plan) for n in (1, 2)]
    reason = f"{NASTY}\n\n.. raw:: html\n\n   <b>\x00"
    bad = make_record("failed", repetition=3, record={"reason": reason}, **plan)
    return [bad, make_record("timed_out", repetition=4, record={"reason": ""}, **plan), *good]


def render(template: Path, summary: dict[str, Any] | None, **wildcards: str) -> str:
    config = {} if summary is None else {"summary": summary}
    snakemake = SimpleNamespace(config=config, wildcards=SimpleNamespace(**wildcards), params=SimpleNamespace())
    categories = {Category(name): {} for name in ("Summary", "Throughput", "Scaling", "I/O")}
    environment = Environment(trim_blocks=True, lstrip_blocks=True)
    source = environment.from_string(template.read_text() + LINKS).render(
        snakemake=snakemake, categories=categories, files=[]
    )
    settings = {"halt_level": 2, "report_level": 2}
    return str(publish_parts(source, writer="html", settings_overrides=settings)["html_body"])


@pytest.fixture(
    scope="module", params=["plain", "mixed", "two_suites", "one", "all_failed", "nasty", "empty", "absent"]
)
def summary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any] | None:
    studies = {
        "plain": make_study,
        "mixed": make_mixed_study,
        "two_suites": make_two_suites,
        "one": lambda: make_study(ranks=(1,), repeats=1),
        "all_failed": lambda: [make_record("failed"), make_record("timed_out", repetition=2)],
        "nasty": nasty_study,
        "empty": list,
    }
    if request.param == "absent":
        return None
    folder = tmp_path_factory.mktemp(request.param)
    return summarise(studies[request.param](), folder, NASTY if request.param == "nasty" else "A study")


@pytest.mark.parametrize("template", [REPORTS / "workflow.rst", *CAPTIONS], ids=lambda path: path.stem)
def test_template_renders(template: Path, summary: dict[str, Any] | None) -> None:
    for wildcards in ({}, {"benchmark": "cosmoflow_tiny"}):
        page = render(template, summary, **wildcards)
        assert "<script>" not in page
        assert ">nan" not in page.lower()
        assert " nan" not in page.lower()
        if summary is None:
            assert "Nothing has been analysed yet" in page


def test_every_figure_has_its_caption() -> None:
    shown = {part.name for section in SECTIONS for part in section.parts if isinstance(part, FigureSpec)}
    assert {path.stem for path in CAPTIONS} == {*FIGURES, *SHOWN_COLUMNS, *shown}


def test_every_text_says_that_the_results_are_not_valid(tmp_path: Path) -> None:
    summary = summarise(make_two_suites(), tmp_path)
    for template in (REPORTS / "workflow.rst", *CAPTIONS):
        page = render(template, summary)
        for suite in ("MLPerf HPC", "HPC AI500 V2.0"):
            assert f"not a valid {suite} result" in " ".join(page.split()), template


def test_landing_page_names_study_verdict_and_report(tmp_path: Path) -> None:
    page = " ".join(render(REPORTS / "workflow.rst", summarise(make_two_suites(), tmp_path)).split())
    for words in (
        "A study",
        "A machine for tests",
        "report.html",
        "(HPC AI500 V2.0): not a valid HPC AI500 V2.0 result: generated data",
        "(MLPerf HPC): not a valid MLPerf HPC result: generated data",
    ):
        assert words in page


def test_landing_page_is_short() -> None:
    assert len((REPORTS / "workflow.rst").read_text().splitlines()) <= 40


def test_free_text_arrives_as_it_was_written(tmp_path: Path) -> None:
    page = render(REPORTS / "workflow.rst", summarise(nasty_study(), tmp_path, NASTY))
    shown = NASTY.replace("<", "&lt;").replace(">", "&gt;")
    # The study's title and the machine's.
    assert page.count(shown) == 2


def test_every_number_of_a_scale_says_what_it_is(tmp_path: Path) -> None:
    """Ten runs and three: a mean without extremes, and a median."""
    records = [make_record(repetition=n) for n in range(1, 11)]
    records += [make_record(repetition=n, ranks_per_node=2) for n in (1, 2, 3)]
    summary = summarise(records, tmp_path)
    for name in ("throughput", "time_to_train", "step_times", "staging"):
        page = " ".join(render(REPORTS / "captions" / f"{name}.rst", summary).split())
        assert "mean of 8, extremes dropped" in page, name
        assert "median of 3" in page, name
