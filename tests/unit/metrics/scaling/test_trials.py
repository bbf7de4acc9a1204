"""Which runs a row uses: extremes by the suite's own score, only from the required number of runs."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.metrics.scaling.efficiency import compute_scaling
from hpcai.metrics.scaling.trials import (
    OUTSIDE,
    SOME_REACHED,
    choose_runs,
    mark_extremes,
    name_statistics,
    score_basis,
    select_trials,
    training_times,
)
from hpcai.metrics.scores.validity import TOO_FEW
from hpcai.metrics.scores.window import CHOSEN

MINUTES = [float(minute) for minute in range(10, 20)]
MISSED = math.nan


def make_images(rates: list[float], qualities: list[float] | None = None, **columns: Any) -> pd.DataFrame:
    """Return trials of HPC AI500's image classification, which asks for ten."""
    reached = qualities or [0.6] * len(rates)
    times = [1e3 / rate if quality >= 0.6 else math.nan for rate, quality in zip(rates, reached, strict=True)]
    rows = {
        "run_id": [f"r{number}" for number in range(len(rates))],
        "benchmark": "b",
        "variant": "v",
        "engine": "horovod",
        "scale": "n1x1",
        "nodes": 1,
        "ranks": 1,
        "suite": "hpc_ai500",
        "workload": "image_classification",
        "outcome": ["converged" if quality >= 0.6 else "not_converged" for quality in reached],
        "repetition": range(len(rates)),
        "started_utc": [f"2026-01-01T00:00:{number:02}Z" for number in range(len(rates))],
        "train_rate_samples_per_s": rates,
        "time_to_train_s": times,
        "last_quality": reached,
        "quality_target": 0.6,
        "global_batch_samples": 64,
    }
    frame = pd.DataFrame({**rows, **columns})
    return frame.assign(dropped=mark_extremes(frame))


def make_timed(times: list[float], workload: str = "cosmoflow", **columns: Any) -> pd.DataFrame:
    """Return runs of MLPerf HPC, whose CosmoFlow asks for ten; one without a time missed its target."""
    outcome = ["not_converged" if math.isnan(time) else "converged" for time in times]
    rates = [1e3 / time if time > 0 else 1.0 for time in times]
    more = {"suite": "mlperf_hpc", "workload": workload, "outcome": outcome, "time_to_train_s": times, **columns}
    return make_images(rates, **more)


def test_extremes_are_dropped_from_as_many_trials_as_the_suite_asks_for() -> None:
    ten = make_images([100.0 + n for n in range(10)])
    assert ten["dropped"].tolist() == ["lowest", *[""] * 8, "highest"]
    assert select_trials(ten).words == "mean of 8, extremes dropped"
    nine = make_images([100.0 + n for n in range(9)])
    assert (nine["dropped"] == "").all()
    assert select_trials(nine).words == "median of 9"
    assert select_trials(nine).sample("train_rate_samples_per_s").value == 104.0


def test_a_trial_that_broke_down_does_not_count_towards_them() -> None:
    outcomes = ["failed", *["converged"] * 9]
    assert (make_images([100.0 + n for n in range(10)], outcome=outcomes)["dropped"] == "").all()


def test_vflops_order_trials_where_there_are_any_and_throughput_where_not() -> None:
    rates, qualities = [100.0 + n for n in range(10)], [0.7, *[0.6] * 8, 0.5]
    by_vflops = make_images(rates, qualities)
    assert score_basis(by_vflops)[0] == "VFLOPS"
    assert by_vflops["dropped"].tolist() == ["highest", *[""] * 8, "lowest"]
    unknown = make_images(rates, last_quality=[math.nan, *[0.6] * 9])
    assert score_basis(unknown)[0] == "throughput"
    assert unknown["dropped"].tolist() == ["lowest", *[""] * 8, "highest"]


def test_equal_trials_still_lose_two() -> None:
    assert sorted(make_images([100.0] * 10)["dropped"]) == [*[""] * 8, "highest", "lowest"]


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        (MINUTES, MINUTES[1:9]),
        # The rules let one run fail, which then is the slowest (MLPerf HPC rules 3.0, 8).
        ([MISSED, *MINUTES[1:]], MINUTES[2:]),
    ],
)
def test_times_to_train_lose_the_fastest_and_the_slowest(times: list[float], kept: list[float]) -> None:
    runs = make_timed(times)
    assert sorted(runs.loc[runs["dropped"] == "", "time_to_train_s"]) == kept
    found = training_times(runs)
    assert found.sample.value == pytest.approx(np.mean(kept))
    assert (found.sample.words, found.note) == ("mean of 8, extremes dropped", "")
    # The rates beside it are those of the same runs.
    assert select_trials(runs).sample("train_rate_samples_per_s").values.tolist() == [
        1e3 / time for time in sorted(kept)
    ]


def test_a_run_that_broke_down_is_the_dropped_slowest() -> None:
    runs = make_timed(MINUTES, outcome=["failed", *["converged"] * 9], time_to_train_s=[MISSED, *MINUTES[1:]])
    assert runs["dropped"].tolist() == ["lowest", "highest", *[""] * 8]
    assert training_times(runs).sample.n == 8


@pytest.mark.parametrize(
    "times",
    [
        [MISSED, MISSED, *MINUTES[2:]],
        [*MINUTES[:5], MISSED, MISSED, *MINUTES[5:]],  # both are in every window of ten
        [MISSED] * 3,
        [MISSED, 10.0],
    ],
)
def test_failures_that_the_rules_do_not_allow_leave_no_time(times: list[float]) -> None:
    runs = make_timed(times)
    found = training_times(runs)
    assert math.isnan(found.sample.value)
    assert found.note.startswith("no valid result: ")
    assert (runs["dropped"] == "").all()


@pytest.mark.parametrize(
    ("times", "expected"), [([10.0], 10.0), ([10.0, 13.0], 11.5), ([10.0, 13.0, MISSED], 13.0), (MINUTES[:9], 14.0)]
)
def test_fewer_runs_are_a_median_that_says_so(times: list[float], expected: float) -> None:
    found = training_times(make_timed(times))
    assert found.sample.value == expected
    assert found.sample.words == ("one run" if len(times) == 1 else f"median of {len(times)}")
    assert TOO_FEW(word="run", counted=len(times), by_rule=10) in found.note
    assert ("counts as the slowest" in found.note) == (MISSED in times)


@pytest.mark.parametrize("outcome", ["failed", "timed_out", "diverged"])
def test_a_run_that_broke_down_is_the_slowest_of_a_median(outcome: str) -> None:
    runs = make_timed([10.0, 13.0, MISSED], outcome=["converged", "converged", outcome])
    found = training_times(runs)
    assert (found.sample.value, found.sample.words) == (13.0, "median of 3")
    most_fast = make_timed([10.0, 11.0, 13.0, MISSED], outcome=["converged"] * 3 + [outcome])
    assert training_times(most_fast).sample.value == 12.0


def test_of_more_runs_than_the_rules_count_the_window_with_the_median_score_counts() -> None:
    """MLPerf HPC takes N consecutive runs, never all or the best; HPC AI500 welcomes more."""
    runs = make_timed([30.0, 30.0, *[10.0] * 10])
    assert (runs["dropped"] == OUTSIDE).tolist() == [True, True, *[False] * 10]
    found = training_times(runs)
    assert (found.sample.value, found.sample.words) == (10.0, "mean of 8, extremes dropped")
    told = CHOSEN.find_in(found.note)
    assert told is not None
    assert (told["first"], told["last"], told["runs"], told["windows"]) == ("3", "12", "12", "3")
    assert select_trials(runs).sample("train_rate_samples_per_s").values.tolist() == [100.0] * 8
    more = make_images([100.0 + n for n in range(11)])
    assert OUTSIDE not in set(more["dropped"])
    assert training_times(more).note == choose_runs(more)[1] == ""


def test_the_window_is_one_of_consecutive_runs_in_the_order_of_their_start() -> None:
    times = [*[10.0] * 5, 90.0, 90.0, *[10.0] * 5]
    starts = [f"2026-01-01T00:00:{second:02}Z" for second in (*range(2, 7), 0, 1, *range(7, 12))]
    chosen, _ = choose_runs(make_timed(times, started_utc=starts))
    assert chosen["time_to_train_s"].tolist() == [10.0] * 10
    assert len(choose_runs(make_timed(times))[0]) == 10


def test_two_runs_that_missed_are_no_harm_outside_of_the_window() -> None:
    runs = make_timed([MISSED, MISSED, *MINUTES])
    assert runs["dropped"].tolist() == [OUTSIDE, OUTSIDE, "highest", *[""] * 8, "lowest"]
    assert training_times(runs).sample.value == np.mean(MINUTES[1:-1])


def test_a_time_of_some_of_the_trials_says_so() -> None:
    found = training_times(make_images([100.0, 125.0, 160.0], [0.7, 0.5, 0.6]))
    assert found.sample.values.tolist() == [10.0, 6.25]
    assert SOME_REACHED(reached=2, n=3, word="trial") in found.note


def test_a_number_that_one_trial_lacks_is_none_of_the_row() -> None:
    runs = make_images([100.0, 110.0, 120.0], evaluation_s=[1.0, math.nan, 2.0])
    assert math.isnan(select_trials(runs).sample("evaluation_s").value)
    assert select_trials(runs).mean("evaluation_s") == 1.5


def test_legends_name_the_statistics_that_are_there() -> None:
    assert name_statistics(["median of 3", "mean of 8, extremes dropped", ""]) == "mean without extremes or median"
    assert name_statistics(["one run", "one run"]) == "one run"
    assert name_statistics([""]) == ""


rates = st.lists(st.floats(min_value=1.0, max_value=1e6), min_size=1, max_size=12)


@settings(deadline=None, max_examples=30)
@given(base=rates, scaled=rates, work=st.floats(min_value=1e6, max_value=1e12))
def test_efficiency_by_flops_is_that_by_throughput(base: list[float], scaled: list[float], work: float) -> None:
    """FLOPS are the throughput times a constant, for means and medians, for even and odd numbers of runs."""
    runs = pd.concat([make_images(base), make_images(scaled, scale="n1x2", ranks=2)], ignore_index=True)
    point = compute_scaling(runs).query("ranks == 2 and measure == 'train_rate'").iloc[0]
    flops = [
        select_trials(own.assign(rate=own["train_rate_samples_per_s"] * work)).sample("rate").value
        for _, own in runs.groupby("ranks")
    ]
    assert flops[1] / flops[0] / 2 == pytest.approx(point["efficiency_ratio"], rel=1e-9)
    assert point["n"] == len(select_trials(runs[runs["ranks"] == 2]).kept)
