"""Rankings hold like with like, share places, and never mix exponents."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.config.published import load_published
from hpcai.metrics.declared import declared_scores
from hpcai.metrics.ranking import LIKE, RANKING_COLUMNS, rank_results
from hpcai.metrics.score_columns import SCORE_COLUMNS, score_frame
from hpcai.metrics.validity import label_result
from hpcai.metrics.vflops import valid_rate
from hpcai.plots.ranking import MOST, NOTHING, plot_ranking
from hpcai.plots.theme import to_svg

PUBLISHED = Path(__file__).parents[3] / "config" / "published"
GOOD = label_result("hpc_ai500", ())


def make_row(result: str = "a", **changes: Any) -> dict[str, Any]:
    row = {
        "method": "measured", "origin": "study", "result": result, "machine": "box", "suite": "hpc_ai500",
        "workload": "image_classification", "benchmark": "resnet50", "dataset": "imagenet (official)",
        "variant": "fp32", "scale": "n1x8", "nodes": 1, "ranks": 8, "label": GOOD, "quality_metric": "top1_accuracy",
        "quality": 0.763, "quality_target": 0.763, "exponent": 5.0, "rate_flop_per_s": 1e12,
        "valid_rate_flop_per_s": 1e12,
    }  # fmt: skip
    return {**row, **changes}


def rank(*rows: dict[str, Any]) -> pd.DataFrame:
    return rank_results(score_frame(rows, SCORE_COLUMNS))


def published(name: str) -> pd.DataFrame:
    return declared_scores(load_published(PUBLISHED / f"{name}.yaml"))


def test_the_public_list_has_its_nine_places():
    ranking = rank_results(published("hpc_ai500_ranking_2020"))
    assert tuple(ranking.columns) == RANKING_COLUMNS
    assert len(set(ranking["list"])) == 1
    assert ranking["place"].tolist() == list(range(1, 10))
    assert ranking["result"].tolist()[:2] == ["fujitsu", "google"]
    assert ranking["result"].iloc[-1] == "facebook"
    assert set(ranking["exponent"]) == {10.0}
    assert ranking["ratio_to_first"].iloc[1] == pytest.approx(20.10 / 31.41)
    assert set(ranking["valid"]) == {"declared"}


def test_own_results_stand_in_a_declared_list_recomputed_with_its_exponent():
    own = score_frame([make_row(rate_flop_per_s=2e15, quality=0.75, valid_rate_flop_per_s=1.8e15)], SCORE_COLUMNS)
    ranking = rank_results(pd.concat([own, published("hpc_ai500_ranking_2020")], ignore_index=True))
    mine = ranking[ranking["origin"] == "study"].set_index("exponent")
    assert mine.index.tolist() == [10.0, 5.0]
    assert mine.loc[5.0, "score"] == 1.8e15
    assert mine.loc[5.0, "note"] == ""
    assert mine.loc[10.0, "score"] == pytest.approx(valid_rate(2e15, 0.75, 0.763, 10))
    assert "recomputed with n = 10" in mine.loc[10.0, "note"]
    assert math.isnan(mine.loc[10.0, "score_low"])
    assert mine.loc[10.0, "place"] == 7


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset": "imagenet_tiny (generated)"},
        {"quality_target": 0.7},
        {"workload": "extreme_weather"},
        {"quality": math.nan},
        {"quality_metric": "top5_accuracy"},
    ],
)
def test_other_data_targets_or_workloads_are_not_recomputed(changes):
    own = score_frame([make_row(**changes)], SCORE_COLUMNS)
    ranking = rank_results(pd.concat([own, published("hpc_ai500_ranking_2020")], ignore_index=True))
    assert (ranking["origin"] == "study").sum() == 1


def test_declared_results_are_not_recomputed():
    both = pd.concat([published("hpc_ai500_ranking_2020"), published("hpc_ai500_v2")], ignore_index=True)
    ranking = rank_results(both)
    assert len(ranking) == len(both)
    assert (ranking["note"] == "").all()
    assert set(ranking.loc[ranking["measure"] == "FLOPS", "list"].str.contains("n =")) == {False}


def test_equal_scores_share_a_place():
    ranking = rank(
        make_row("a"),
        make_row("b"),
        make_row("c", valid_rate_flop_per_s=3e12),
        make_row("d", valid_rate_flop_per_s=1e11),
    )
    assert ranking["result"].tolist() == ["c", "a", "b", "d"]
    assert ranking["place"].tolist() == [1, 2, 2, 4]


def test_results_that_are_not_valid_have_no_place_and_say_why():
    bad = make_row("bad", valid_rate_flop_per_s=9e12, label="not a valid HPC AI500 V2.0 result: generated data")
    ranking = rank(bad, make_row("good"), make_row("silent", label=""))
    assert ranking["result"].tolist() == ["good", "bad", "silent"]
    assert ranking["group"].tolist() == ["ranked", "not valid", "not valid"]
    assert ranking["place"].tolist() == [1, pd.NA, pd.NA]
    assert "generated data" in ranking["reason"].iloc[1]
    assert "not judged" in ranking["reason"].iloc[2]
    assert ranking["ratio_to_first"].tolist()[:2] == [1.0, 1.0]


def test_other_suites_are_ranked_by_time_to_train():
    label = label_result("mlperf_hpc", ())
    times = {"fast": 100.0, "slow": 400.0, "never": math.nan}
    rows = [
        make_row(name, suite="mlperf_hpc", workload="cosmoflow", exponent=math.nan, time_to_train_s=time, label=label,
                 valid_rate_flop_per_s=math.nan)
        for name, time in times.items()
    ]  # fmt: skip
    ranking = rank(*rows)
    assert ranking["result"].tolist() == ["fast", "slow", "never"]
    assert ranking["score_unit"].tolist()[:2] == ["s", "s"]
    assert ranking["ratio_to_first"].tolist()[:2] == [1.0, 0.25]
    assert ranking["group"].iloc[2] == "not ranked"
    assert "target was not reached" in ranking["reason"].iloc[2]


def test_nothing_to_rank_is_an_empty_table_and_a_figure_that_says_so():
    ranking = rank()
    assert tuple(ranking.columns) == RANKING_COLUMNS
    assert NOTHING.encode() in to_svg(plot_ranking(ranking))
    failed = rank(make_row(rate_flop_per_s=math.nan, valid_rate_flop_per_s=math.nan))
    assert failed["group"].tolist() == ["not ranked"]
    assert NOTHING.encode() in to_svg(plot_ranking(failed))


rows = st.builds(
    make_row,
    st.text("abc", min_size=1, max_size=3),
    method=st.sampled_from(["measured", "declared"]),
    exponent=st.sampled_from([5.0, 10.0]),
    dataset=st.sampled_from(["imagenet (official)", "tiny (generated)"]),
    quality=st.floats(0.1, 1.0),
    valid_rate_flop_per_s=st.one_of(st.floats(1e9, 1e18), st.just(math.nan)),
    label=st.sampled_from([GOOD, "not a valid HPC AI500 V2.0 result: generated data"]),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(rows, max_size=8), st.randoms(use_true_random=False))
def test_a_list_holds_like_with_like_whatever_the_order(found, random):
    ranking = rank(*found)
    for _, part in ranking[ranking["list"] != ""].groupby("list"):
        assert len(part[[*LIKE, "measure"]].drop_duplicates()) == 1
        if part["measure"].iloc[0] == "VFLOPS":
            assert len(set(part["exponent"])) == 1
        placed = part[part["group"] == "ranked"]
        assert placed["place"].is_monotonic_increasing
        assert placed["score"].is_monotonic_decreasing
        assert (placed["ratio_to_first"] <= 1).all()
    shuffled = list(found)
    random.shuffle(shuffled)
    again = rank(*shuffled)
    columns = ["list", "group", "place", "score"]
    pd.testing.assert_frame_equal(
        ranking[columns].sort_values(columns, ignore_index=True), again[columns].sort_values(columns, ignore_index=True)
    )


def test_figure_shows_every_list_place_and_reason():
    own = score_frame(
        [make_row("mine"), make_row("bad", label="not a valid HPC AI500 V2.0 result: generated data")], SCORE_COLUMNS
    )
    ranking = rank_results(pd.concat([own, published("hpc_ai500_ranking_2020")], ignore_index=True))
    figure = plot_ranking(ranking)
    svg = to_svg(figure).decode()
    assert len(figure.axes) == ranking["list"].nunique()
    for words in (
        "1. fujitsu",
        "31.4 PFLOP/s",
        "box: mine",
        "generated data",
        "recomputed with the",
        "declared by others",
    ):
        assert words in svg
    assert to_svg(plot_ranking(ranking)).decode() == svg


def test_a_long_list_is_cut_and_says_so():
    many = rank(*(make_row(f"r{n}", valid_rate_flop_per_s=1e12 + n * 1e10) for n in range(MOST + 5)))
    figure = plot_ranking(many)
    assert f"the first {MOST} of {MOST + 5}" in figure.axes[0].get_title(loc="left").replace("\n", " ")
    assert len(figure.axes[0].get_yticks()) == MOST
