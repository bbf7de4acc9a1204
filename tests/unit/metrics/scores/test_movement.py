"""Times and VFLOPS with and without staging; nothing where staging was not measured."""

from typing import Any

import pandas as pd
import pytest
from unit.record_factory import make_image_benchmark, make_record, write_records
from unit.score_factory import make_scores, make_trials, make_work

from hpcai.metrics.run_tables import collect_runs
from hpcai.metrics.scores.movement import NO_STAGING, NO_TIME, movement_scores
from hpcai.metrics.scores.trial_scores import score_trials
from hpcai.profiles.views import VIEWS
from hpcai.records.run import RunRecord


def scores_of(tmp_path: Any, records: list[RunRecord]) -> tuple[pd.Series, pd.DataFrame]:
    """Return the row of one point, and the table of its runs."""
    runs = collect_runs(write_records(records, tmp_path))
    trials = score_trials(runs, make_work(runs), pd.DataFrame(columns=list(VIEWS["power"])))
    return movement_scores(runs, trials).iloc[0], runs


def test_staging_on_the_clock_is_taken_off_and_before_it_is_added(tmp_path: Any) -> None:
    on_clock, runs = scores_of(tmp_path / "on", [make_record(repetition=1)])
    run = runs.iloc[0]
    assert on_clock["time_with_movement_s"] == pytest.approx(run["run_s"])
    assert on_clock["time_without_movement_s"] == pytest.approx(run["run_s"] - run["staging_s"])
    before, runs = scores_of(tmp_path / "before", [make_record(repetition=1, time_staging=False)])
    run = runs.iloc[0]
    assert before["time_without_movement_s"] == pytest.approx(run["run_s"])
    assert before["time_with_movement_s"] == pytest.approx(run["run_s"] + run["staging_s"])
    assert (on_clock["staging_on_clock"], before["staging_on_clock"]) == ("yes", "no")
    assert before["movement_share_ratio"] == pytest.approx(run["staging_s"] / before["time_with_movement_s"])


def test_vflops_with_movement_are_smaller_and_labelled_as_ours(tmp_path: Any) -> None:
    row, runs = scores_of(tmp_path, [make_record(benchmark=make_image_benchmark(), time_staging=False)])
    run = runs.iloc[0]
    share = run["training_s"] / (run["training_s"] + run["staging_s"])
    assert row["vflops_with_movement_flop_per_s"] == pytest.approx(share * row["vflops_flop_per_s"])
    assert row["vflops_label"] != ""


def test_a_suite_without_vflops_has_none(tmp_path: Any) -> None:
    row, _ = scores_of(tmp_path, [make_record()])
    assert pd.isna(row["vflops_with_movement_flop_per_s"])
    assert pd.isna(row["exponent"])
    assert row["vflops_label"] == ""


def test_data_read_in_place_and_missed_targets_have_a_reason(tmp_path: Any) -> None:
    record = make_record()
    training = record.training
    assert training is not None
    staging = training.staging.model_copy(update={"place": "none", "staging_s": 0.0})
    still = record.model_copy(update={"training": training.model_copy(update={"staging": staging})})
    row, _ = scores_of(tmp_path / "still", [still])
    assert NO_STAGING.find_in(row["reason"]) is not None
    assert pd.isna(row["time_with_movement_s"])
    missed, _ = scores_of(tmp_path / "missed", [make_record("not_converged")])
    assert missed["reason"] == NO_TIME(n=0, of=1)
    failed, _ = scores_of(tmp_path / "failed", [make_record("failed")])
    assert NO_STAGING.find_in(failed["reason"]) is not None


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_time_with_staging_on_the_clock_is_that_of_the_scale(tmp_path: Any, count: int) -> None:
    made = make_scores(tmp_path, [make_record(repetition=number) for number in range(1, count + 1)])
    row, scale = movement_scores(made["runs"], made["run_scores"]).iloc[0], made["scales"].iloc[0]
    assert row["time_with_movement_s"] == pytest.approx(scale["time_to_train_score_s"])
    assert row["time_to_train_score_method"] == scale["time_to_train_score_method"]
    assert row["statistic"] == scale["statistic"]
    assert row["staging_s"] == pytest.approx(made["runs"]["staging_s"].median())


@pytest.mark.parametrize("count", [3, 4, 5])
def test_the_numbers_of_trials_some_of_which_reached_the_target_are_those_of_the_scores(
    tmp_path: Any, count: int
) -> None:
    made = make_scores(tmp_path, make_trials(count, time_staging=False))
    row, scale = movement_scores(made["runs"], made["run_scores"]).iloc[0], made["scales"].iloc[0]
    assert 0 < row["time_to_train_n"] == scale["time_to_train_n"] < row["n"] == count
    assert row["time_without_movement_s"] == pytest.approx(scale["time_to_train_score_s"])
    assert 0 < row["movement_share_ratio"] < 1
    assert row["reason"] == ""
    assert row["vflops_flop_per_s"] == pytest.approx(made["scores"].iloc[0]["vflops_flop_per_s"])


def test_a_suite_that_counts_failed_runs_gives_no_time_where_too_many_failed(tmp_path: Any) -> None:
    made = make_scores(tmp_path, [make_record(), make_record("not_converged", repetition=2)])
    row = movement_scores(made["runs"], made["run_scores"]).iloc[0]
    assert pd.isna(made["scales"].iloc[0]["time_to_train_score_s"])
    assert pd.isna(row["time_with_movement_s"])
    assert row["reason"] == made["scales"].iloc[0]["time_to_train_score_note"]
