"""A published weak-scaling result is forecast from a part of its instances, and compared with what was published."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from hpcai.metrics.scaling.weak_tails import FEWEST_RESULTS, PUBLISHED_TAIL
from hpcai.mlperf_hpc.analysis.weak_backtest import NO_SCORE, TOO_FEW, USED, backtest_table

NAMES = {"origin": "v1.0", "submission": "org/system", "benchmark": "cosmoflow"}


def make_tables(count: int, **result: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the runs of a result that start together, and the result; ``result`` replaces its fields."""
    times_s = np.exp(6 + 0.1 * np.random.default_rng(5).standard_normal(count))
    runs = pd.DataFrame(
        {**NAMES, "scaling": "weak", "run_s": times_s, "number": range(1, count + 1), "good_by_status": True,
         "started_utc": "2021-10-01T00:00:00Z"}
    )  # fmt: skip
    row = {
        **NAMES, "org": "org", "division": "closed", "label": "a label", "instances": count, "counted_instances": count,
        "scale_unit": "node", "source": "logs", "time_to_train_all_s": times_s.max(), "reason": "", "same_runs_as": "",
    }  # fmt: skip
    return runs, pd.DataFrame([{**row, **result}])


def test_a_result_is_forecast_from_ten_of_its_instances() -> None:
    row = backtest_table(*make_tables(400)).iloc[0]
    assert row["seen_instances"] == USED
    assert row["error_ratio"] == pytest.approx(row["time_to_train_all_s"] / row["published_all_s"] - 1)
    assert row["inside"] == (
        row["time_to_train_all_low_s"] <= row["published_all_s"] <= row["time_to_train_all_high_s"]
    )
    assert abs(row["error_ratio"]) < 0.25


def test_what_it_saw_decides_and_not_the_rest() -> None:
    runs, weak = make_tables(400)
    slow = runs.assign(run_s=runs["run_s"].where(runs["number"] != 200, 1e5))
    assert backtest_table(slow, weak).iloc[0]["time_to_train_all_s"] == pytest.approx(
        backtest_table(runs, weak).iloc[0]["time_to_train_all_s"]
    )


def test_instances_that_do_not_count_are_not_seen() -> None:
    runs, weak = make_tables(40)
    failed = runs.assign(scaling="weak_pruned", run_s=9e5, number=100)
    both = backtest_table(pd.concat([runs, failed], ignore_index=True), weak)
    assert both.iloc[0]["time_to_train_all_s"] == backtest_table(runs, weak).iloc[0]["time_to_train_all_s"]


def test_a_result_without_a_forecast_says_why_and_a_repeated_one_is_left_out() -> None:
    assert backtest_table(*make_tables(5)).iloc[0]["reason"] == TOO_FEW(n=5)
    bare = backtest_table(*make_tables(40, time_to_train_all_s=float("nan"), reason="none"))
    assert bare.iloc[0]["reason"] == NO_SCORE(why="none")
    assert backtest_table(*make_tables(40, same_runs_as="v0.7")).empty


def make_round(organisations: list[str], slow: dict[str, float]) -> pd.DataFrame:
    """Return the backtest of one result of 60 instances for each organisation; ``slow`` multiplies its slowest."""
    tables = [make_tables(60, org=org, submission=f"{org}/system") for org in organisations]
    runs = [part.assign(submission=weak["submission"].iloc[0]) for part, weak in tables]
    weak = [part.assign(time_to_train_all_s=part["time_to_train_all_s"] * slow.get(part["org"].iloc[0], 1.0))
            for _, part in tables]  # fmt: skip
    return backtest_table(pd.concat(runs, ignore_index=True), pd.concat(weak, ignore_index=True)).set_index(
        "submission"
    )


def test_the_scatter_of_tails_comes_from_other_submitters_alone() -> None:
    organisations = [f"o{number}" for number in range(FEWEST_RESULTS)] + ["mine"]
    plain, strange = make_round(organisations, {}), make_round(organisations, {"mine": 2.0})
    assert plain.loc["mine/system", "tail_results"] == FEWEST_RESULTS
    assert plain.loc["mine/system", "tail_spread"] == strange.loc["mine/system", "tail_spread"]
    assert strange.loc["o0/system", "tail_spread"] > plain.loc["o0/system", "tail_spread"]
    assert (strange["width_ratio"] == strange["time_to_train_all_high_s"] / strange["time_to_train_all_low_s"]).all()


def test_a_joint_submission_is_none_of_others_and_few_results_have_the_spread_of_the_library() -> None:
    found = make_round(["mine", "Mine+other", *(f"o{number}" for number in range(FEWEST_RESULTS - 1))], {})
    assert pd.isna(found.loc["mine/system", "tail_results"])
    assert found.loc["mine/system", "tail_spread"] == PUBLISHED_TAIL.spread
    assert found.loc["o0/system", "tail_results"] == FEWEST_RESULTS
