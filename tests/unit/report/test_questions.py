"""The questions at the top of the page: which of them the measurements answer, and that no answer is made up."""

import dataclasses
import re

import pandas as pd
import pytest
from unit.record_factory import make_machine
from unit.report.result_factory import make_campaign, write_results
from unit.report.test_page import SOURCES, make_page, read_page

from hpcai.metrics.roofline.ceilings import roofline_ceilings
from hpcai.report.material import read_material
from hpcai.report.questions import (
    COMMUNICATION,
    CONTENTION,
    FASTER,
    NONE_FASTER,
    NOT_SEPARATED,
    make_questions,
)

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


RESULT = {
    "method": "measured",
    "machine": "box",
    "benchmark": "a",
    "variant": "fp32",
    "engine": "horovod",
    "scale": "n1x1",
    "nodes": 1,
    "ranks": 1,
    "precision": "fp32",
    "rate_flop_per_s": 1e9,
}
PRODUCT = {
    "machine": "box",
    "scope": "memory",
    "kind": "gemm",
    "name": "GEMM fp32",
    "precision": "fp32",
    "nodes": 1,
    "ranks": 1,
    "value": 4e9,
    "method": "measured",
    "status": "ceiling",
}


def answer_of_peak(material, result, *products):
    tables = {"scores": pd.DataFrame([RESULT | result]), "roofline_ceilings": pd.DataFrame(products)}
    return ask(material, "How good", **tables).answer


@pytest.mark.parametrize(
    ("product", "is_told"),
    [
        ({}, True),
        ({"status": "roof"}, True),
        ({"precision": "bf16"}, False),
        ({"status": "refused"}, False),
        ({"method": "declared"}, False),
        ({"kind": "peak"}, False),
        ({"ranks": 2}, False),
    ],
)
def test_a_share_of_the_peak_needs_a_measured_product_of_its_precision_and_ranks(material, product, is_told):
    assert ("25 %" in answer_of_peak(material, {}, PRODUCT | product)) == is_told


@pytest.mark.parametrize("engine", ["horovod", "tensorflow", "jax"])
@pytest.mark.parametrize(("precision", "share"), [("fp32", "25 %"), ("tf32", "12 %")])
def test_the_share_is_of_tf32_only_for_results_in_tf32(material, engine, precision, share):
    faster = PRODUCT | {"name": "GEMM tf32", "precision": "tf32", "value": 8e9}
    assert share in answer_of_peak(material, {"engine": engine, "precision": precision}, PRODUCT, faster)


def test_the_share_of_a_node_of_gpus_is_of_all_its_ranks(material):
    gpu = make_machine(ranks_per_node=4, device={"kind": "gpu"}, accelerators_per_node=4)
    result = {"machine": gpu.name, "ranks": 4, "scale": "n1x4"}
    scores, links = pd.DataFrame([RESULT | result]), pd.DataFrame({"engine": []})
    one = {"kind": "gemm", "precision": "fp32", "threads": 1, "value": 1e9, "status": "measured"}
    measured = pd.DataFrame([one | {"reason": "", "source": "gemm.json"}])
    ceilings = roofline_ceilings(scores, measured, links, links, gpu)
    assert "25 %" in answer_of_peak(material, result, *ceilings.to_dict("records"))


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
    assert "`repeats`" in ask(material, "next", scales=scales.assign(n_counted=1, runs_by_rule=5)).answer
    enough = ask(material, "next", scales=scales.assign(n_counted=5, runs_by_rule=5))
    assert "`repeats`" not in enough.answer


def test_runs_that_the_rules_do_not_count_are_missing_as_in_the_banner(material):
    material = dataclasses.replace(material, summary={**(material.summary or {}), "counts": {"runs": 5}})
    scales = material.table("scales").assign(n=5, n_counted=4, runs_by_rule=5)
    few = re.search(r"at (\d+) of (\d+) scales", ask(material, "How sure", scales=scales).answer)
    assert few is not None
    assert few[1] == few[2]
    assert "`repeats`" in ask(material, "next", scales=scales).answer


GROUP = {
    "benchmark": "a",
    "variant": "fp32",
    "instances": 2,
    "contention_ratio": 0.8,
    "distributed_ratio": 0.6,
    "communication_ratio": 0.75,
    "reason": "",
}


def test_a_loss_is_called_communication_only_with_the_same_batch_per_rank(material):
    details = pd.DataFrame({"ranks": [2], "baseline_ranks": 1, "efficiency_ratio": 0.6, "benchmark": "a"})
    details = details.assign(variant="fp32", engine="horovod", communication_share_ratio=float("nan"))
    other = GROUP | {"benchmark": "b", "communication_ratio": float("nan"), "reason": "another batch"}
    tables = {"scaling_details": details, "contention": pd.DataFrame([GROUP, other])}
    same, different = ask(material, "limits", **tables).answer.split("; ")
    assert CONTENTION(instances=2, benchmark="a", variant="fp32", share="80 %") in same
    assert COMMUNICATION(loss="25 %") in same
    assert CONTENTION(instances=2, benchmark="b", variant="fp32", share="80 %") in different
    assert NOT_SEPARATED(reason="another batch") in different
    assert COMMUNICATION.find_in(different) is None


def test_a_published_result_of_several_lists_is_counted_once(material):
    theirs = {"origin": "paper", "benchmark": "a", "variant": "fp32", "scale": "n1x1", "method": "declared", "place": 1}
    rows = [theirs | {"list": listed, "machine": box, "result": box} for box in "xyz" for listed in ("fast", "good")]
    answer = ask(material, "Which machine", ranking=pd.DataFrame(rows), comparison=pd.DataFrame()).answer
    assert re.findall(r"\d+", answer) == ["3"]


def predicted(material, *rates, **changed):
    """Return the answer for links that give a point of the study so many times its measured rate, and that rate."""
    point = material.table("scales").iloc[0]
    measured = point["train_rate_samples_per_s"]
    rows = [
        {name: point[name] for name in ("benchmark", "variant", "engine")}
        | {"from_scale": point["scale"], "question": "link", "link": f"link{number}", "speedup_ratio": 9.0}
        | {"rate_samples_per_s": rate * measured}
        | {f"rate_{end}_samples_per_s": float("nan") for end in ("low", "high")}
        | changed
        for number, rate in enumerate(rates)
    ]
    return ask(material, "network", predictions=pd.DataFrame(rows)).answer, point


def test_a_faster_network_is_told_by_its_gain_over_the_measured_rate(material):
    answer, point = predicted(material, 0.9, 1.25, 1.5)
    said = FASTER.find_in(answer)
    assert said is not None
    names = {name: said[name] for name in ("link", "gain", "scale", "variant")}
    assert names == {"link": "link2", "gain": "1.500", "scale": point["scale"], "variant": point["variant"]}
    assert "link1" not in answer
    assert "12 to 34" in predicted(material, 1.5, rate_low_samples_per_s=12.0, rate_high_samples_per_s=34.0)[0]


def test_links_without_a_gain_are_not_faster(material):
    answer, _ = predicted(material, 0.9, 1.0)
    assert NONE_FASTER() in answer
    assert "link" not in answer.replace(NONE_FASTER(), "")
