"""The caption of the scores, rendered as Snakemake renders it; any complaint of docutils is a failure."""

import json
import re
from typing import Any

import pandas as pd
import pytest
from unit.caption_pages import REPORTS, render, says
from unit.record_factory import make_machine, make_two_suites
from unit.score_factory import make_scores
from unit.test_report_templates import NASTY, summarise

from hpcai.metrics.scores.ranking import rank_results
from hpcai.metrics.scores.validity import NOT_VALID
from hpcai.rules.table import rules_of


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    peaks = {"fp32": {"rate_flop_per_s": "1 TFLOP/s", "source": NASTY}}
    machine = make_machine(device={"kind": "cpu", "peaks": peaks})
    scores = make_scores(tmp_path_factory.mktemp("scores"), machine=machine)["scores"]
    # As the workflow hands tables to captions: an empty cell is None.
    rows = json.loads(scores.to_json(orient="records"))
    return {**summarise(make_two_suites(), tmp_path_factory.mktemp("records")), "scoring": {"scores": rows}}


def words(page: str) -> str:
    return " ".join(page.split())


def test_definition_exponent_and_peak_are_there(summary: dict[str, Any]) -> None:
    page = words(render("scores", summary))
    assert says(page, "n = 5", "target 0.6", "4 or 5 trials of 10")
    assert says(page, "not defined", "target 0.3", "2 or 4 trials of 10")
    assert "images_tiny (generated)" in page
    assert "machine file, fp32: " + NASTY.replace("<", "&lt;").replace(">", "&gt;") in page
    assert "<script>" not in page
    assert NOT_VALID(suite=rules_of("hpc_ai500").title, reasons="images_tiny") in page


@pytest.mark.parametrize("scoring", [{}, {"scores": []}, None])
def test_without_scores_it_is_said(summary: dict[str, Any], scoring: dict[str, Any] | None) -> None:
    assert "no run has been scored" in render("scores", {**summary, "scoring": scoring})


def test_without_anything_it_is_said() -> None:
    assert "Nothing has been analysed yet" in render("scores", None)


def test_where_the_power_comes_from_is_said(summary: dict[str, Any]) -> None:
    assert says(words(render("scores", summary)), "power is never", "timed runs", "profiled run")


def test_the_ranking_says_what_a_list_holds(summary: dict[str, Any]) -> None:
    ranking = rank_results(pd.DataFrame(summary["scoring"]["scores"]))
    rows = json.loads(ranking.to_json(orient="records"))
    page = words(re.sub("<[^>]*>", "", render("ranking", {**summary, "scoring": {"ranking": rows}})))
    assert says(page, "best result", "each machine and study", "valid ones first")
    words_of_list = "time to train, closed division, staging on the clock"
    assert says(page, words_of_list, "0 ranked", "0 declared", "1 not valid")
    assert says(page, "images_tiny (generated), top_1_accuracy 0.6", "FLOPS, 4 MFLOP per sample", "0 ranked")
    assert "In no list: 0 results" in page


@pytest.mark.parametrize("caption", ["scores", "ranking"])
def test_it_is_short(caption: str) -> None:
    assert len((REPORTS / "captions" / f"{caption}.rst").read_text(encoding="utf-8").splitlines()) <= 25
