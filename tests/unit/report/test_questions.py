"""The questions at the top of the page: which of them the measurements answer, and that no answer is made up."""

import dataclasses
import re

import pandas as pd
import pytest
from unit.report.result_factory import make_campaign, write_results
from unit.report.test_page import SOURCES, make_page, read_page

from hpcai.report.material import read_material
from hpcai.report.questions import make_questions

ASKED = (
    "Which machine",
    "significant",
    "limits",
    "valid",
    "network",
    "energy",
    "broke",
    "reproduce",
    "not measured",
    "next",
)
"""A word of each of the ten questions about buying a machine."""


@pytest.fixture(scope="module")
def material(tmp_path_factory):
    folder = tmp_path_factory.mktemp("asked")
    return read_material(write_results(folder, make_campaign(), full=False), SOURCES)


def ask(material, word, **tables):
    """Return the question that holds a word, asked of tables that differ."""
    changed = dataclasses.replace(material, tables={**material.tables, **tables})
    (one,) = (question for question in make_questions(changed) if word in question.asked)
    return one


def test_each_is_asked_once_and_answered(material):
    for word in ASKED:
        assert ask(material, word).answer.strip()


def test_every_answer_leads_to_a_part_of_the_page(tmp_path, material):
    page = read_page(make_page(tmp_path, make_campaign()))
    assert {question.anchor for question in make_questions(material)} <= set(page.ids)


def test_nothing_is_asked_where_nothing_was_measured(material):
    assert make_questions(dataclasses.replace(material, tables={}, summary=None)) == ()


def test_what_was_not_measured_has_its_reason_and_no_number(material):
    captures = pd.DataFrame([{"profile": "power", "status": "not measured", "reason": "no meter"}])
    one = ask(material, "energy", power=pd.DataFrame(), captures=captures)
    assert not one.is_answered
    assert "no meter" in one.answer
    assert not re.search(r"\d", one.answer)
    assert "no meter" in ask(material, "not measured", captures=captures).answer


def test_a_share_of_the_peak_needs_a_measured_product_of_its_precision(material):
    columns = ["kind", "precision", "status", "value", "reason"]
    score = {
        "method": "measured",
        "benchmark": "a",
        "variant": "fp32",
        "engine": "horovod",
        "scale": "n1x1",
        "nodes": 1,
        "precision": "fp32",
    }
    scores = pd.DataFrame([{**score, "rate_flop_per_s": 1e9}])
    for precision, status, is_told in (("fp32", "measured", True), ("fp64", "measured", False), ("fp32", "refused", 0)):
        ceilings = pd.DataFrame([("gemm", precision, status, 4e9, "")], columns=columns)
        assert ("25 %" in ask(material, "How good", scores=scores, ceilings=ceilings).answer) == bool(is_told)


def test_too_few_runs_are_not_called_equal(material):
    effects = pd.DataFrame({"reading": ["", "too few runs"]})
    one = ask(material, "significant", variant_effects=effects)
    assert not one.is_answered
    assert "0 significant" in one.answer
    known = ask(material, "significant", variant_effects=pd.DataFrame({"reading": ["better", "worse", "not told"]}))
    assert known.is_answered
    assert "2 significant" in known.answer


def test_more_runs_come_before_anything_else(material):
    scales = material.table("scales")
    material = dataclasses.replace(material, summary={**(material.summary or {}), "counts": {"runs": 5}})
    assert "`repeats`" in ask(material, "next", scales=scales.assign(n=1, runs_by_rule=5)).answer
    enough = ask(material, "next", scales=scales.assign(n=5, runs_by_rule=5))
    assert "`repeats`" not in enough.answer
