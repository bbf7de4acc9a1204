"""Declared results become scores and points by our own functions; undeclared values stay empty."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.config.published import Published, load_published
from hpcai.metrics.roofline.columns import CEILING_COLUMNS, POINT_COLUMNS
from hpcai.metrics.roofline.declared import declared_ceilings, declared_roofline
from hpcai.metrics.scores.columns import SCORE_COLUMNS
from hpcai.metrics.scores.declared import NO_PEAK, NO_QUALITY, declared_peak, declared_rate, declared_scores
from hpcai.metrics.scores.declared_checks import (
    CHECK_COLUMNS,
    SHARES_TOO_LARGE,
    check_declared,
    coefficient_gain,
    complete_shares,
)
from hpcai.metrics.scores.vflops import compute_vflops

FILES = sorted((Path(__file__).parents[4] / "config" / "published").glob("*.yaml"))
positive = st.floats(0.01, 100.0)


def make_published(result: dict[str, Any], **workload: Any) -> Published:
    base = {
        "workload": "image_classification",
        "suite": "hpc_ai500",
        "dataset": "imagenet (official)",
        "quality_metric": "top1_accuracy",
        "quality_target": 0.8,
        "exponent": 5,
        "flop_per_sample": 2e9,
    }
    return Published.model_validate(
        {
            "name": "made_up",
            "title": "Made up",
            "citation": {"document": "Nowhere", "date": "2020-07-01"},
            "machines": {"box": {"title": "a box", "peaks": {"fp32": {"rate_flop_per_s": 1e12, "source": "sheet"}}}},
            "workloads": {"ic": {**base, **workload}},
            "results": [{"name": "one", "workload": "ic", "machine": "box", "where": "Table 1", **result}],
        }
    )


def score(result: dict[str, Any], **workload: Any) -> pd.Series:
    return declared_scores(make_published(result, **workload)).iloc[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_our_files_become_scores_with_the_columns_of_scores(path):
    published = load_published(path)
    scores = declared_scores(published)
    assert tuple(scores.columns) == SCORE_COLUMNS
    assert set(scores["method"]) == {"declared"}
    assert set(scores["origin"]) == {path.stem}
    assert len(scores) == sum(result.use == "result" for result in published.results)
    assert scores["source"].str.contains(published.citation.document).all()
    # Interval and counts of trials were not published.
    assert scores[["n", "rate_low_flop_per_s", "vflops_high_flop_per_s"]].isna().all(axis=None)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_source_prints_agrees_exactly_where_it_is_expected_to(path):
    checks = check_declared(load_published(path))
    assert tuple(checks.columns) == CHECK_COLUMNS
    wrong = checks[checks["agrees"] != checks["expected"]]
    assert wrong.empty, wrong[["result", "quantity", "computed", "printed", "tolerance"]].to_string()
    assert (checks.loc[~checks["expected"], "note"] != "").all()


def test_a_rate_comes_from_throughput_and_work():
    row = score({"train_rate_samples_per_s_per_process": 25, "ranks": 4, "nodes": 1, "precision": "fp32"})
    assert row["train_rate_samples_per_s"] == 100
    assert row["rate_flop_per_s"] == 200e9
    assert row["peak_ratio"] == pytest.approx(0.05)
    assert row["scale"] == "n1x4"


def test_a_rate_comes_from_work_over_time_where_nothing_else_is_declared():
    row = score({"time_to_quality_s": "2 min", "quality": 0.7}, train_samples=1e6, epochs=6)
    assert row["rate_flop_per_s"] == pytest.approx(1e6 * 6 * 2e9 / 120)
    assert row["time_to_quality_s"] == 120
    assert math.isnan(row["time_to_train_s"])
    assert score({"time_to_quality_s": 120, "quality": 0.8})["time_to_train_s"] == 120


@pytest.mark.parametrize(("quality", "seconds"), [(0.7, 120.0), (0.8, 120.0), (0.9, math.nan)])
def test_an_error_metric_reaches_its_target_from_above(quality, seconds):
    row = score({"time_to_quality_s": 120, "quality": quality}, quality_metric="mean_absolute_error", exponent=None)
    assert row["time_to_train_s"] == pytest.approx(seconds, nan_ok=True)
    assert row["time_to_quality_s"] == 120


def test_no_quality_is_ever_filled_in():
    row = score({"rate_flop_per_s": 10e12, "vflops_flop_per_s": 5e12})
    assert math.isnan(row["quality"])
    assert math.isnan(row["quality_coefficient_ratio"])
    assert math.isnan(row["vflops_capped_flop_per_s"])
    assert row["vflops_flop_per_s"] == 5e12
    assert "imply a quality of 0.6964" in row["reason"]
    assert NO_QUALITY() in score({"rate_flop_per_s": 10e12})["reason"]


def test_without_an_exponent_there_is_no_vflops():
    row = score({"rate_flop_per_s": 10e12, "quality": 0.7}, exponent=None)
    assert math.isnan(row["vflops_flop_per_s"])
    assert "none is defined" in row["reason"]


@given(quality=st.floats(0.1, 1.0), rate=st.floats(1e9, 1e18))
def test_vflops_of_a_declared_quality_are_those_of_our_own_runs(quality, rate):
    row = score({"rate_flop_per_s": rate, "quality": quality})
    assert row["vflops_flop_per_s"] == pytest.approx(compute_vflops(rate, quality, 0.8, 5))
    assert row["vflops_capped_flop_per_s"] <= row["rate_flop_per_s"] * (1 + 1e-12)
    assert row["quality"] == quality


def test_power_gives_scores_per_watt_and_is_marked_as_declared():
    row = score({"rate_flop_per_s": 10e12, "quality": 0.8, "mean_power_w": 500})
    assert (row["flop_per_j"], row["vflops_flop_per_j"], row["power_method"]) == (20e9, 20e9, "declared")
    assert score({"rate_flop_per_s": 10e12})["power_method"] == ""


def test_peaks_are_declared_or_absent_never_inferred():
    published = make_published({"rate_flop_per_s": 1e12, "ranks": 2, "precision": "fp16"})
    peak, why = declared_peak(published.results[0], published)
    assert math.isnan(peak)
    assert NO_PEAK() in why
    assert declared_peak(published.results[0], published, "fp32")[0] == 2e12


@pytest.mark.parametrize(("devices", "expected"), [(None, 8e12), (8, 8e12), (4, 4e12), (1, 1e12)])
def test_processes_that_share_a_device_have_its_peak_once(devices, expected):
    published = make_published({"nodes": 1, "ranks": 8, "precision": "fp32"})
    box = published.machines["box"].model_copy(update={"devices_per_node": devices})
    published = published.model_copy(update={"machines": {"box": box}})
    assert declared_peak(published.results[0], published)[0] == expected


def test_a_rate_that_cannot_be_found_is_nan_with_its_reason():
    published = make_published({"quality": 0.8})
    rate = declared_rate(published.results[0], published)
    assert math.isnan(rate.flop_per_s)
    assert rate.method.startswith("no throughput")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_points_and_ceilings_have_the_columns_of_the_rooflines(path):
    published = load_published(path)
    points, ceilings = declared_roofline(published), declared_ceilings(published)
    assert tuple(points.columns) == POINT_COLUMNS
    assert tuple(ceilings.columns) == CEILING_COLUMNS
    drawn = points[points["status"] == "drawn"]
    assert (drawn["rate_flop_per_s"] <= drawn["roof_flop_per_s"]).all()
    assert (drawn["roof_flop_per_s"] <= drawn["compute_roof_flop_per_s"]).all()
    assert (points.loc[points["status"] != "drawn", "reason"] != "").all()
    assert (ceilings.loc[ceilings["status"] == "refused", "reason"].str.contains("times the declared peak")).all()


def test_a_point_above_its_roof_is_refused():
    fast = {"nodes": 1, "ranks": 2, "precision": "fp32", "rate_flop_per_s": 9e12}
    published = make_published(fast, flop_per_step=1e12, parameters=1e6)
    linked = published.model_dump()
    linked["machines"]["box"]["intra_node"] = {"bandwidth_bytes_per_s": "10 GB/s", "source": "sheet"}
    point = declared_roofline(Published.model_validate(linked)).iloc[0]
    assert point["status"] == "refused"
    assert "4.5 times its roof" in point["reason"]
    assert declared_roofline(published).iloc[0]["status"] == "not placed"


@given(st.dictionaries(st.sampled_from("abcdef"), st.floats(0.0, 0.16), max_size=6))
def test_shares_are_completed_to_one(shares):
    completed = complete_shares(shares)
    assert math.fsum(completed.values()) == pytest.approx(1)
    assert {name: completed[name] for name in shares} == shares


@pytest.mark.parametrize("shares", [{"a": 0.7, "b": 0.4}, {"a": -0.1}])
def test_shares_that_are_no_parts_are_refused(shares):
    with pytest.raises(ValueError, match=SHARES_TOO_LARGE.pattern):
        complete_shares(shares)


@given(base=st.floats(0.3, 0.9), gain=st.floats(0.001, 0.1), exponent=st.sampled_from([5, 10]))
def test_a_gain_is_worth_less_the_higher_its_base(base, gain, exponent):
    coefficient = coefficient_gain(base, gain, exponent)
    assert gain / (coefficient ** (1 / exponent) - 1) == pytest.approx(base)
    assert coefficient_gain(base * 1.1, gain, exponent) < coefficient
