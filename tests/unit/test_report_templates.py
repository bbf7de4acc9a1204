"""The landing page and the captions, rendered as Snakemake renders them; any complaint of docutils is a failure."""

from pathlib import Path
from typing import Any

import pytest
from unit.caption_pages import REPORTS, render
from unit.record_factory import (
    make_benchmark,
    make_machine,
    make_mixed_study,
    make_record,
    make_study,
    make_two_suites,
    write_records,
)

from hpcai.catalogue.figures import CHARTS, FIGURES
from hpcai.metrics.run_tables import collect_runs, summarise_scales, summarise_study
from hpcai.records.run import RunRecord
from hpcai.report.sections import SECTIONS

CAPTIONS = sorted((REPORTS / "captions").glob("*.rst"))
NASTY = "*bold `x` |sub| http://a_ \\ <script>alert(1)</script> .. raw:: html :math:`1` a_ [1]_ {{ 7 * 7 }} Ünï #1) - x"


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


OF_OWN_PAGES = {"gpu_roofline"}
"""Captions of pages beside the study's report; what these show is no result of a suite."""


@pytest.mark.parametrize("template", [REPORTS / "workflow.rst", *CAPTIONS], ids=lambda path: path.stem)
def test_template_renders(template: Path, summary: dict[str, Any] | None) -> None:
    page = render(template.stem, summary)
    assert "<script>" not in page
    assert ">nan" not in page.lower()
    assert " nan" not in page.lower()
    if summary is None:  # a page of its own needs no analysed study
        assert ("Nothing has been analysed yet" in page) == (template.stem not in OF_OWN_PAGES)


def test_every_figure_has_its_caption_and_every_caption_is_shown() -> None:
    captions = {path.stem for path in CAPTIONS}
    assert {*FIGURES, *CHARTS} <= captions
    assert (
        captions <= {part.name for section in SECTIONS for part in section.parts} | {"runs", "captures"} | OF_OWN_PAGES
    )


def test_every_text_says_that_the_results_are_not_valid(tmp_path: Path) -> None:
    summary = summarise(make_two_suites(), tmp_path)
    for template in (REPORTS / "workflow.rst", *CAPTIONS):
        page = render(template.stem, summary)
        if template.stem in OF_OWN_PAGES:
            assert "no result of any suite" in " ".join(page.split())
            continue
        for suite in ("MLPerf HPC", "HPC AI500 V2.0"):
            assert f"not a valid {suite} result" in " ".join(page.split()), template


def test_landing_page_names_study_verdict_and_report(tmp_path: Path) -> None:
    page = " ".join(render("workflow", summarise(make_two_suites(), tmp_path)).split())
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
    page = render("workflow", summarise(nasty_study(), tmp_path, NASTY))
    shown = NASTY.replace("<", "&lt;").replace(">", "&gt;")
    # The study's title and the machine's.
    assert page.count(shown) == 2


def test_every_number_of_a_scale_says_what_it_is(tmp_path: Path) -> None:
    """Ten runs and three: a mean without extremes, and a median."""
    records = [make_record(repetition=n) for n in range(1, 11)]
    records += [make_record(repetition=n, ranks_per_node=2) for n in (1, 2, 3)]
    summary = summarise(records, tmp_path)
    for name in ("throughput", "time_to_train", "step_times", "staging"):
        page = " ".join(render(name, summary).split())
        assert "mean of 8, extremes dropped" in page, name
        assert "median of 3" in page, name


def test_a_text_cannot_end_what_snakemake_takes_as_it_is(tmp_path: Path) -> None:
    record = make_record(
        "failed",
        record={"reason": "{% endraw %}{{ 7 * 7 }}"},
        benchmark=make_benchmark(title="{% endraw %}{{ 7 * 7 }}"),
    )
    page = render("workflow", summarise([record], tmp_path, "{% endraw %}{{ 7 * 7 }}"))
    assert "{% endraw %}{{ 7 * 7 }}" in page
    assert "49" not in page
