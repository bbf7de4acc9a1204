"""Rankings hold like with like, share places, and never mix exponents."""

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.config.published import load_published
from hpcai.metrics.scores.best_results import BEST, PASSED_OVER, TIME_TO_TRAIN
from hpcai.metrics.scores.columns import REPEATED, SCORE_COLUMNS, TIMINGS, score_frame
from hpcai.metrics.scores.declared import declared_scores
from hpcai.metrics.scores.ranking import LIKE, NO_STAGING, OTHER_WORK, RANKING_COLUMNS, SAME_RUNS, rank_results
from hpcai.metrics.scores.result_scores import score_machines
from hpcai.metrics.scores.validity import label_result
from hpcai.metrics.scores.vflops import compute_vflops
from hpcai.plots.scores.ranking import MOST, NOTHING, plot_ranking
from hpcai.plots.theme import to_svg

PUBLISHED = Path(__file__).parents[4] / "config" / "published"
GOOD, GOOD_TIME = label_result("hpc_ai500", ()), label_result("mlperf_hpc", ())
BAD = "not a valid result: generated data"
ON_CLOCK, BEFORE = TIMINGS[True], TIMINGS[False]


def make_row(result: str = "a", **changes: Any) -> dict[str, Any]:
    row = {
        "method": "measured", "origin": "study", "result": result, "machine": result, "suite": "hpc_ai500",
        "workload": "image_classification", "benchmark": "resnet50", "dataset": "imagenet (official)",
        "variant": "fp32", "engine": "horovod",
        "scale": "n1x8", "nodes": 1, "ranks": 8, "label": GOOD, "quality_metric": "top1_accuracy",
        "quality": 0.763, "quality_target": 0.763, "exponent": 5.0, "flop_per_sample": 23e9, "flop_method": "formula",
        "rate_flop_per_s": 1e12, "vflops_flop_per_s": 1e12,
    }  # fmt: skip
    return {**row, **changes}


def make_timed(result: str = "a", **changes: Any) -> dict[str, Any]:
    row = {
        "suite": "mlperf_hpc", "workload": "cosmoflow", "benchmark": "cosmoflow", "label": GOOD_TIME,
        "exponent": math.nan, "vflops_flop_per_s": math.nan, "time_to_train_s": 100.0, "timing": ON_CLOCK,
        "division": "closed",
    }  # fmt: skip
    return make_row(result, **{**row, **changes})


def rank(*rows: dict[str, Any]) -> pd.DataFrame:
    return rank_results(score_frame(rows, SCORE_COLUMNS))


def by(ranking: pd.DataFrame, measure: str = "VFLOPS") -> pd.DataFrame:
    return ranking[ranking["measure"] == measure].reset_index(drop=True)


def published(name: str) -> pd.DataFrame:
    return declared_scores(load_published(PUBLISHED / f"{name}.yaml"))


def test_the_public_list_has_its_nine_places():
    ranking = rank_results(published("hpc_ai500_ranking_2020"))
    assert tuple(ranking.columns) == RANKING_COLUMNS
    # The rates that follow from its times make a second list.
    assert ranking.groupby("list", sort=False).size().to_list() == [9, 9]
    ranking = by(ranking)
    assert ranking["place"].tolist() == list(range(1, 10))
    assert ranking["result"].tolist()[:2] == ["fujitsu", "google"]
    assert ranking["result"].iloc[-1] == "facebook"
    assert set(ranking["exponent"]) == {10.0}
    assert ranking["ratio_to_first"].iloc[1] == pytest.approx(20.10 / 31.41)
    assert set(ranking["valid"]) == {"declared"}


def test_own_results_stand_in_a_declared_list_recomputed_with_its_exponent():
    own = score_frame([make_row(rate_flop_per_s=2e15, quality=0.75, vflops_flop_per_s=1.8e15)], SCORE_COLUMNS)
    ranking = rank_results(pd.concat([own, published("hpc_ai500_ranking_2020")], ignore_index=True))
    mine = by(ranking).query("origin == 'study'").set_index("exponent")
    assert mine.index.tolist() == [10.0, 5.0]
    assert mine.loc[5.0, "score"] == 1.8e15
    assert mine.loc[5.0, "note"] == ""
    assert mine.loc[10.0, "score"] == pytest.approx(compute_vflops(2e15, 0.75, 0.763, 10))
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
    assert (by(ranking)["origin"] == "study").sum() == 1


def test_equal_throughputs_share_a_place_whatever_work_they_were_counted_with():
    """The paper counts 23 GFLOP per image, we count 24.3: at equal images/s ours would be 6 % higher."""
    images_per_s = 2624.0
    mine = make_row(flop_per_sample=24.3e9, rate_flop_per_s=24.3e9 * images_per_s, rate_low_flop_per_s=24.3e9 * 2000.0,
                    vflops_flop_per_s=24.3e9 * images_per_s * 0.9, quality=0.75)  # fmt: skip
    paper = published("hpc_ai500_v2").query("result in ('ic_fp32_8', 'ic_mixed_64_valid')")
    both = pd.concat([score_frame([mine], SCORE_COLUMNS), paper.assign(machine=paper["result"])], ignore_index=True)
    ranking = rank_results(both)
    own = ranking[ranking["origin"] == "study"]
    for measure in ("FLOPS", "VFLOPS"):
        rows = by(own, measure).set_index("flop_method")
        assert rows["flop_per_sample"].to_dict() == {"declared": 23e9, "formula": 24.3e9}
        assert rows.loc["declared", "score"] == pytest.approx(rows.loc["formula", "score"] * 23 / 24.3)
        words = "recomputed with 23 GFLOP per sample as declared; counted here: 24.3 GFLOP per sample"
        assert rows["note"].to_dict() == {"declared": words, "formula": ""}
    flops = by(own, "FLOPS").set_index("flop_method").loc["declared"]
    assert flops["score_low"] == pytest.approx(23e9 * 2000.0)
    theirs = by(ranking, "FLOPS").set_index("result").loc["ic_fp32_8"]
    assert flops["score"] == pytest.approx(theirs["score"])
    assert (flops["list"], flops["place"]) == (theirs["list"], theirs["place"])
    assert theirs["list"].endswith("FLOPS, 23 GFLOP per sample")


def test_own_work_and_exponent_are_replaced_together():
    own = make_row(flop_per_sample=46e9, rate_flop_per_s=2e15, quality=0.75, vflops_flop_per_s=1.8e15)
    both = pd.concat([score_frame([own], SCORE_COLUMNS), published("hpc_ai500_ranking_2020")], ignore_index=True)
    mine = by(rank_results(both)).query("origin == 'study'").set_index("exponent")
    assert mine.loc[10.0, "score"] == pytest.approx(compute_vflops(1e15, 0.75, 0.763, 10))
    assert "n = 10" in mine.loc[10.0, "note"]
    assert OTHER_WORK(declared="23 GFLOP per sample", counted="46 GFLOP per sample") in mine.loc[10.0, "note"]
    assert mine.loc[5.0, ["score", "flop_per_sample", "note"]].tolist() == [1.8e15, 46e9, ""]


def test_work_that_nobody_stated_makes_a_list_of_its_own():
    ranking = by(rank(make_row("known"), make_row("unknown", flop_per_sample=math.nan)), "FLOPS")
    assert ranking["place"].tolist() == [1, 1]
    assert ranking["list"].str.endswith("work per sample not stated").tolist().count(True) == 1


def test_declared_results_are_not_recomputed():
    both = pd.concat([published("hpc_ai500_ranking_2020"), published("hpc_ai500_v2")], ignore_index=True)
    ranking = rank_results(both)
    assert (ranking["note"] == "").all()
    found = ranking.merge(both, on=["origin", "result", "exponent", "vflops_flop_per_s"])
    assert len(found) == len(ranking)
    assert len(by(ranking)) == len(both.dropna(subset=["vflops_flop_per_s"]))
    assert set(ranking.loc[ranking["measure"] == "FLOPS", "list"].str.contains("n =")) == {False}


def test_equal_scores_share_a_place():
    ranking = rank(
        make_row("a"),
        make_row("b"),
        make_row("c", vflops_flop_per_s=3e12),
        make_row("d", vflops_flop_per_s=1e11),
    )
    assert by(ranking, "FLOPS")["place"].tolist() == [1, 1, 1, 1]
    ranking = by(ranking)
    assert ranking["result"].tolist() == ["c", "a", "b", "d"]
    assert ranking["place"].tolist() == [1, 2, 2, 4]


def test_results_that_are_not_valid_have_no_place_and_say_why():
    bad = make_row("bad", vflops_flop_per_s=9e12, label="not a valid HPC AI500 V2.0 result: generated data")
    ranking = by(rank(bad, make_row("good"), make_row("silent", label="")))
    assert ranking["result"].tolist() == ["good", "bad", "silent"]
    assert ranking["group"].tolist() == ["ranked", "not valid", "not valid"]
    assert ranking["place"].tolist() == [1, pd.NA, pd.NA]
    assert "generated data" in ranking["reason"].iloc[1]
    assert "not judged" in ranking["reason"].iloc[2]
    assert ranking["ratio_to_first"].tolist()[:2] == [1.0, 1.0]


def test_other_suites_are_ranked_by_time_to_train():
    times = {"fast": 100.0, "slow": 400.0, "never": math.nan}
    ranking = rank(*(make_timed(name, time_to_train_s=time) for name, time in times.items()))
    assert ranking["result"].tolist() == ["fast", "slow", "never"]
    assert ranking["score_unit"].tolist()[:2] == ["s", "s"]
    assert ranking["ratio_to_first"].tolist()[:2] == [1.0, 0.25]
    assert ranking["group"].iloc[2] == "not ranked"
    assert "target was not reached" in ranking["reason"].iloc[2]


def test_a_machine_is_ranked_by_the_measure_of_its_list():
    quick = make_timed("n1x1", machine="box", time_to_train_s=15.5, rate_flop_per_s=1e12)
    busy = make_timed("n1x2", machine="box", ranks=16, time_to_train_s=math.nan, rate_flop_per_s=9e12)
    late = make_timed("n1x4", machine="box", ranks=32, time_to_train_s=40.0, rate_flop_per_s=20e12)
    ranking = rank(late, busy, quick)
    assert ranking["result"].tolist() == ["n1x1"]
    assert ranking["place"].tolist() == [1]
    machine = score_machines(score_frame([late, busy, quick], SCORE_COLUMNS))
    assert machine["result"].tolist() == ["n1x1"]
    assert machine["chosen_because"].tolist() == [BEST(word="shortest", measure="time to train", n=3)]


@pytest.mark.parametrize("make", [make_row, make_timed])
def test_a_result_that_is_not_valid_hides_none_that_is(make):
    good = make("good", machine="box")
    better = {"vflops_flop_per_s": 9e12, "rate_flop_per_s": 9e12, "time_to_train_s": 1.0}
    bad = make("bad", machine="box", label=BAD, **(better if make is make_row else {"time_to_train_s": 1.0}))
    ranking = rank(bad, good)
    assert set(ranking["result"]) == {"good"}
    assert set(ranking["place"]) == {1}
    machine = score_machines(score_frame([bad, good], SCORE_COLUMNS))
    assert machine["result"].tolist() == ["good"]
    assert machine["chosen_because"].str.endswith(PASSED_OVER(results=1)).all()
    # Without a valid result, the best of the others is listed without a place.
    worse = make("worse", machine="box", ranks=64, label=BAD, vflops_flop_per_s=1.0, rate_flop_per_s=1.0,
                 time_to_train_s=1e6)  # fmt: skip
    ranking = rank(worse, bad)
    assert set(ranking["result"]) == {"bad"}
    assert ranking["place"].isna().all()


def test_each_machine_and_study_stands_once_in_a_list():
    rows = [
        make_row("n1x1", machine="box", origin="first", vflops_flop_per_s=1e12),
        make_row("n1x2", machine="box", origin="first", vflops_flop_per_s=2e12),
        make_row("n1x2", machine="box", origin="second", vflops_flop_per_s=3e12),
        make_row("n1x2", machine="other", origin="first", vflops_flop_per_s=4e12),
    ]
    ranking = by(rank(*rows))
    assert ranking["score"].tolist() == [4e12, 3e12, 2e12]
    assert ranking["place"].tolist() == [1, 2, 3]
    labels = [label.get_text() for label in plot_ranking(ranking).axes[0].get_yticklabels()]
    assert labels == ["1. other: n1x2", "2. box: n1x2 (second)", "3. box: n1x2 (first)"]


def test_the_best_for_a_declared_exponent_may_be_another_result():
    fast = make_row("fast", machine="box", rate_flop_per_s=4e15, quality=0.6, vflops_flop_per_s=1.2e15)
    exact = make_row("exact", machine="box", rate_flop_per_s=1.1e15, quality=0.763, vflops_flop_per_s=1.1e15)
    own = score_frame([fast, exact], SCORE_COLUMNS)
    ranking = by(rank_results(pd.concat([own, published("hpc_ai500_ranking_2020")], ignore_index=True)))
    mine = ranking[ranking["origin"] == "study"].set_index("exponent")["result"]
    assert mine.to_dict() == {5.0: "fast", 10.0: "exact"}


def test_a_result_with_vflops_stands_in_the_list_of_flops_too():
    plain = make_row("plain", rate_flop_per_s=718e12, quality=math.nan, vflops_flop_per_s=math.nan)
    ranking = rank(plain, make_row("valid", rate_flop_per_s=939e12, vflops_flop_per_s=642e12))
    assert by(ranking, "FLOPS")["result"].tolist() == ["valid", "plain"]
    assert by(ranking, "FLOPS")["score"].tolist() == [939e12, 718e12]
    assert by(ranking)["result"].tolist() == ["valid"]
    assert not (ranking["group"] == "not ranked").any()


def test_vflops_of_zero_are_vflops():
    missed = make_row("missed", quality=0.0, vflops_flop_per_s=0.0)
    ranking = by(rank(missed, make_row("good")))
    assert ranking["result"].tolist() == ["good", "missed"]
    assert ranking["ratio_to_first"].tolist() == [1.0, 0.0]
    assert b"0 FLOP/s" in to_svg(plot_ranking(ranking))
    alone = by(rank(missed))
    assert alone["place"].tolist() == [1]
    assert alone["ratio_to_first"].isna().all()
    assert b"0 FLOP/s" in to_svg(plot_ranking(alone))
    wide = by(rank(missed, make_row("good"), make_row("small", vflops_flop_per_s=1e9)))
    assert plot_ranking(wide).axes[0].get_xscale() == "log"
    assert plot_ranking(wide).axes[0].get_xlim()[0] > 0
    assert score_machines(score_frame([missed], SCORE_COLUMNS))["chosen_because"].tolist() == ["the only result"]


def test_times_with_and_without_staging_share_no_list():
    rows = [
        make_timed("timed", timing=ON_CLOCK),
        make_timed("free", timing=BEFORE, time_to_train_s=10.0),
        make_timed("unknown", timing=""),
    ]
    ranking = rank(*rows)
    assert ranking["place"].tolist() == [1, 1, 1]
    ends = {row["result"]: row["list"].rsplit(", ", 1)[1] for row in ranking.to_dict("records")}
    assert ends == {"timed": ON_CLOCK, "free": BEFORE, "unknown": "staging not stated"}
    one = score_frame([{**row, "machine": "box"} for row in rows], SCORE_COLUMNS)
    assert len(score_machines(one)) == len(rank_results(one)) == 3
    # Tables of earlier studies have no such columns.
    older = rank_results(one.drop(columns=["timing", "division", "runs_sha256"]))
    assert older["list"].str.endswith(f"division not stated, {NO_STAGING()}").all()


def test_times_of_different_divisions_share_no_list():
    rows = [
        make_timed("closed", division="closed"),
        make_timed("open", division="open", time_to_train_s=10.0),
        make_timed("unknown", division=""),
    ]
    ranking = rank(*rows)
    assert ranking["place"].tolist() == [1, 1, 1]
    words = {row["result"]: row["list"].rsplit(", ", 2)[1] for row in ranking.to_dict("records")}
    assert {name: said.split(": ")[-1] for name, said in words.items()} == {
        "closed": "closed division", "open": "open division", "unknown": "division not stated"
    }  # fmt: skip
    assert ranking.set_index("result")["division"].to_dict() == {"closed": "closed", "open": "open", "unknown": ""}
    one = score_frame([{**row, "machine": "box"} for row in rows], SCORE_COLUMNS)
    assert len(score_machines(one)) == len(rank_results(one)) == 3
    # Other suites have no divisions: their lists do not name them.
    assert not rank(make_row())["list"].str.contains("division").any()


def test_runs_that_were_published_again_have_one_place():
    imported = {"method": "declared", "runs_sha256": "a1"}
    rows = [
        make_timed("fast", origin="v1.0", time_to_train_s=50.0, method="declared", runs_sha256="b2"),
        make_timed("again", origin="v3.0", timing="", **imported),
        make_timed("twice", origin="v2.0", **imported),
        make_timed("once", origin="v1.0", **imported),
        make_timed("slow", origin="v2.0", time_to_train_s=200.0, method="declared", runs_sha256="c3"),
    ]
    for order in (rows, rows[::-1]):
        ranking = rank(*order).set_index("result")
        listed = ranking[ranking["group"] == "ranked"]
        assert listed["place"].to_dict() == {"fast": 1, "once": 2, "slow": 3}
        assert listed["list"].str.endswith(ON_CLOCK).all()
        repeated = ranking.loc[["again", "twice"]]
        assert set(repeated["group"]) == {"not ranked"}
        assert set(repeated["reason"]) == {SAME_RUNS(repeated=f"{REPEATED} v1.0 once")}
        assert repeated[["score", "score_unit", "measure"]].isna().all(axis=None)


def test_runs_published_again_stay_where_their_timing_is_known():
    """A log without staging keys gives the timing by the rules of one round, but not by those of another."""
    imported = {"method": "declared", "runs_sha256": "a1"}
    ranking = rank(make_timed("a", origin="v1.0", timing="", **imported), make_timed("b", origin="v2.0", **imported))
    assert ranking.set_index("result")["group"].to_dict() == {"a": "not ranked", "b": "ranked"}


@pytest.mark.parametrize("other", [{"division": "open"}, {"quality_target": 0.5}, {"dataset": "tiny (generated)"}])
def test_the_same_runs_as_another_result_keep_their_place(other):
    imported = {"method": "declared", "runs_sha256": "a1"}
    ranking = rank(make_timed("a", **imported), make_timed("b", **imported, **other))
    assert ranking["place"].tolist() == [1, 1]


def test_results_without_known_runs_are_never_the_same():
    assert rank(make_timed("a"), make_timed("b"))["place"].tolist() == [1, 1]


def test_nothing_to_rank_is_an_empty_table_and_a_figure_that_says_so():
    ranking = rank()
    assert tuple(ranking.columns) == RANKING_COLUMNS
    assert NOTHING.encode() in to_svg(plot_ranking(ranking))
    failed = rank(make_row(rate_flop_per_s=math.nan, vflops_flop_per_s=math.nan))
    assert failed["group"].tolist() == ["not ranked"]
    assert NOTHING.encode() in to_svg(plot_ranking(failed))


rows = st.builds(
    make_row,
    st.text("abc", min_size=1, max_size=3),
    machine=st.sampled_from(["one", "two", "three"]),
    origin=st.sampled_from(["study", "other"]),
    ranks=st.sampled_from([1, 2]),
    suite=st.sampled_from(["hpc_ai500", "mlperf_hpc"]),
    timing=st.sampled_from([*TIMINGS.values(), ""]),
    division=st.sampled_from(["closed", "open", ""]),
    time_to_train_s=st.one_of(st.floats(0.1, 1e6), st.just(math.nan)),
    method=st.sampled_from(["measured", "declared"]),
    exponent=st.sampled_from([5.0, 10.0]),
    flop_per_sample=st.sampled_from([23e9, 24.3e9, math.nan]),
    dataset=st.sampled_from(["imagenet (official)", "tiny (generated)"]),
    quality=st.floats(0.1, 1.0),
    vflops_flop_per_s=st.one_of(st.floats(1e9, 1e18), st.sampled_from([0.0, math.nan])),
    label=st.sampled_from([GOOD, GOOD_TIME, "not a valid HPC AI500 V2.0 result: generated data"]),
)


@settings(deadline=None, max_examples=40)
@given(st.lists(rows, max_size=8), st.randoms(use_true_random=False))
def test_a_list_holds_like_with_like_whatever_the_order(found, random):
    ranking = rank(*found)
    for _, part in ranking[ranking["list"] != ""].groupby("list"):
        assert len(part[[*LIKE, "measure"]].drop_duplicates()) == 1
        if part["measure"].iloc[0] in ("FLOPS", "VFLOPS"):
            assert len(part["flop_per_sample"].drop_duplicates()) == 1
        if part["measure"].iloc[0] == "VFLOPS":
            assert len(set(part["exponent"])) == 1
        if part["measure"].iloc[0] == TIME_TO_TRAIN:
            assert len(part[["timing", "division"]].drop_duplicates()) == 1
        assert not part.duplicated(["method", "origin", "machine"]).any()
        placed = part[part["group"] == "ranked"]
        assert placed["place"].is_monotonic_increasing
        time = part["measure"].iloc[0] == TIME_TO_TRAIN
        assert placed["score"].is_monotonic_increasing if time else placed["score"].is_monotonic_decreasing
        ratios = placed["ratio_to_first"]
        assert (ratios <= 1).all() if placed["score"].max() > 0 else ratios.isna().all()
    shuffled = list(found)
    random.shuffle(shuffled)
    again = rank(*shuffled)
    columns = ["list", "group", "place", "score", "machine", "origin"]
    pd.testing.assert_frame_equal(
        ranking[columns].sort_values(columns, ignore_index=True), again[columns].sort_values(columns, ignore_index=True)
    )


def test_figure_shows_every_list_place_and_reason():
    own = score_frame(
        [
            make_row("mine", machine="box"),
            make_row("bad", label="not a valid HPC AI500 V2.0 result: generated data"),
        ],
        SCORE_COLUMNS,
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
    many = rank(*(make_row(f"r{n}", vflops_flop_per_s=1e12 + n * 1e10) for n in range(MOST + 5)))
    figure = plot_ranking(many)
    assert f"the first {MOST} of {MOST + 5}" in figure.axes[0].get_title(loc="left").replace("\n", " ")
    assert len(figure.axes[0].get_yticks()) == MOST
