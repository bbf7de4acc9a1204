import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlperf_logging.result_summarizer.result_summarizer import _compute_olympic_average
from unit.mlperf_hpc.analysis.made_runs import made_run

from hpcai.mlperf_hpc.analysis.counted_runs import claims_success, keep_runs, reaches_target
from hpcai.mlperf_hpc.analysis.targets import OWN_TARGET
from hpcai.mlperf_hpc.rounds.model import Score

TIMES = st.lists(st.integers(1, 10**7), min_size=3, max_size=12)


def scores(*values: float) -> tuple[Score, ...]:
    return tuple(Score(line, 0.0, value, None) for line, value in enumerate(values))


def test_fastest_and_slowest_are_dropped() -> None:
    assert keep_runs([3, 1, 5, 2, 4], [True] * 5) == (0, 3, 4)


def test_ten_to_nineteen_minutes_give_14_5() -> None:
    times = [60.0 * minutes for minutes in range(10, 20)]
    kept = keep_runs(times, [True] * 10)
    assert sum(times[place] for place in kept) / len(kept) / 60 == 14.5


def test_bad_run_takes_the_place_of_the_slowest_and_all_other_but_the_fastest_are_kept() -> None:
    assert keep_runs([3, 1, None, 2, 4], [True, True, False, True, True]) == (0, 3, 4)
    assert keep_runs([3, 1, 0.5, 2, 4], [True, True, False, True, True]) == (0, 3, 4)


@pytest.mark.parametrize("good", [[False, False, True, True, True], [False] * 5])
def test_two_bad_runs_leave_nothing(good) -> None:
    assert keep_runs([1, 2, 3, 4, 5], good) == ()


@pytest.mark.parametrize("count", [0, 1, 2])
def test_fewer_than_three_runs_leave_nothing(count) -> None:
    assert keep_runs([1.0] * count, [True] * count) == ()


@given(TIMES, st.booleans())
def test_mean_of_the_kept_runs_is_the_packages(times, one_fails) -> None:
    good = [True] * (len(times) - one_fails) + [False] * one_fails
    kept = keep_runs(times, good)
    ours = sum(times[place] for place in kept) / len(kept)
    known = [float(time) for time, ok in zip(times, good, strict=True) if ok]
    assert ours == pytest.approx(_compute_olympic_average(known, int(one_fails), 1), rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "good"),
    [
        ({}, True),
        ({"claim": "missing"}, True),
        ({"claim": "aborted"}, False),
        ({"claim": "incomplete", "run": None}, False),
        ({"run": None}, False),
    ],
)
def test_success_is_claimed_by_a_complete_run_without_another_status(changes, good) -> None:
    assert claims_success(made_run(**changes)) is good


@pytest.mark.parametrize(
    ("values", "reached"),
    [
        ((0.124,), True),
        ((0.1240001,), False),
        ((0.12, 0.3), True),
        ((0.0,), False),
        ((-0.1,), False),
        ((math.nan, math.inf), False),
        ((), False),
    ],
)
def test_one_score_has_to_meet_the_target_of_an_error(values, reached) -> None:
    assert reaches_target(made_run(scores=scores(*values))) is reached


@pytest.mark.parametrize(("value", "reached"), [(0.82, True), (0.8199, False), (1.0, True), (1.2, False)])
def test_accuracy_lies_between_target_and_one(value, reached) -> None:
    run = made_run(benchmark="deepcam", quality_key="eval_accuracy", scores=scores(value))
    assert reaches_target(run) is reached


def test_score_of_another_measure_reaches_nothing() -> None:
    assert not reaches_target(made_run(quality_key="eval_accuracy", scores=scores(0.1)))


def test_folder_decides_where_the_log_names_another_benchmark() -> None:
    run = made_run(benchmark="deepcam", scores=scores(0.12))
    assert reaches_target(run, "cosmoflow")
    assert not reaches_target(run)
    assert not reaches_target(made_run(benchmark="no_such"))


def test_run_with_a_target_of_its_own_has_to_meet_that() -> None:
    run = made_run(settings={OWN_TARGET: 0.3}, scores=scores(0.29))
    assert reaches_target(run)
    assert not reaches_target(made_run(scores=scores(0.29)))
