"""Means and intervals against golden values, by coverage and by identities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.metrics.statistics import (
    mean_interval,
    median,
    olympic_mean,
    paired_ratio_interval,
    ratio_interval,
    variation_ratio,
)

MINUTES = [float(minute) for minute in range(10, 20)]
positive = st.floats(min_value=0.01, max_value=1e6)


def test_olympic_mean_of_ten_runs() -> None:
    score = olympic_mean(MINUTES, runs_by_rule=10)
    assert (score.value, score.n, score.note) == (14.5, 10, "")
    assert "fastest and slowest dropped" in score.method


def test_one_failed_run_is_the_dropped_slowest() -> None:
    score = olympic_mean(MINUTES[:9], failed=1, runs_by_rule=10)
    assert score.value == pytest.approx(np.mean(MINUTES[1:9]))
    assert score.n == 10


@pytest.mark.parametrize(("times", "failed"), [(MINUTES[:8], 2), ([10.0], 1), ([10.0, 11.0], 3)])
def test_failures_that_leave_no_result(times: list[float], failed: int) -> None:
    score = olympic_mean(times, failed=failed, runs_by_rule=10)
    assert math.isnan(score.value)
    assert score.note.startswith(f"no valid result: {failed} of {len(times) + failed} failed")


@pytest.mark.parametrize("times", [[10.0], [10.0, 12.0]])
def test_nothing_can_be_dropped(times: list[float]) -> None:
    score = olympic_mean(times, runs_by_rule=10)
    assert score.value == pytest.approx(np.mean(times))
    assert "nothing dropped" in score.note
    assert f"too few runs ({len(times)} of 10 that the rules ask for)" in score.note
    assert "olympic" not in score.method


def test_no_run_is_not_measured() -> None:
    for estimate in (olympic_mean([]), mean_interval([math.nan]), ratio_interval([], [1.0])):
        assert math.isnan(estimate.value)
        assert estimate.n == 0
        assert estimate.note == "not measured"


def test_more_runs_than_the_rules_count() -> None:
    assert "more runs than the 10" in olympic_mean([*MINUTES, 20.0], runs_by_rule=10).note


def test_variation_and_median() -> None:
    assert variation_ratio([1.0, 2.0, 3.0]) == pytest.approx(0.5)
    assert math.isnan(variation_ratio([1.0]))
    assert median([3.0, math.nan, 1.0]) == 2.0
    assert math.isnan(median([]))


def test_t_interval_golden() -> None:
    estimate = mean_interval(MINUTES)
    factor = math.exp(2.2621571628 * math.sqrt(55 / 6) / math.sqrt(10) / 14.5)
    assert estimate.value == 14.5
    assert (estimate.low, estimate.high) == (pytest.approx(14.5 / factor), pytest.approx(14.5 * factor))
    assert math.isnan(mean_interval([5.0]).low)


@given(st.lists(positive, min_size=2, max_size=12))
def test_an_interval_of_positive_values_is_positive_and_holds_their_mean(values: list[float]) -> None:
    estimate = mean_interval(values)
    assert 0 < estimate.low <= estimate.value * (1 + 1e-9)
    assert estimate.value <= estimate.high * (1 + 1e-9)
    if len(values) < 5:
        assert (estimate.low, estimate.high) == (min(values), max(values))


def test_intervals_cover_what_they_promise() -> None:
    rng = np.random.default_rng(7)
    slow, fast = rng.normal(100, 5, (600, 5)), rng.normal(50, 4, (600, 4))
    means = [mean_interval(sample) for sample in slow]
    ratios = [ratio_interval(above, below) for above, below in zip(slow, fast, strict=True)]
    assert 0.92 <= np.mean([estimate.low <= 100 <= estimate.high for estimate in means]) <= 0.98
    assert 0.92 <= np.mean([estimate.low <= 2 <= estimate.high for estimate in ratios]) <= 0.98


@settings(deadline=None)
@given(st.lists(positive, min_size=3, max_size=20))
def test_olympic_mean_lies_between_the_extremes(values: list[float]) -> None:
    score = olympic_mean(values).value
    assert min(values) * (1 - 1e-9) <= score <= max(values) * (1 + 1e-9)


@settings(deadline=None)
@given(st.lists(positive, min_size=2, max_size=10), st.floats(min_value=0.1, max_value=10))
def test_ratio_is_scale_free(values: list[float], factor: float) -> None:
    scaled = ratio_interval([factor * value for value in values], values)
    assert scaled.value == pytest.approx(factor)
    assert scaled.low <= scaled.value * (1 + 1e-9)
    assert scaled.high >= scaled.value * (1 - 1e-9)


def test_pairs_of_equal_ratios_have_no_interval_to_speak_of():
    found = paired_ratio_interval([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (found.value, found.low, found.high, found.n) == (2.0, pytest.approx(2.0), pytest.approx(2.0), 3)


def test_the_interval_of_pairs_holds_what_the_delta_method_says():
    found = paired_ratio_interval([2.0, 2.2, 1.8], [1.0, 1.0, 1.0])
    # sd(a / mean(a)) = 0.1, over the root of three; t(0.975, 2) = 4.302653.
    assert found.high / found.value == pytest.approx(math.exp(4.302653 * 0.1 / math.sqrt(3)), rel=1e-6)
    assert found.value / found.low == pytest.approx(found.high / found.value)


@pytest.mark.parametrize(
    "sides",
    [([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0, 3.0], [1.0, 2.0]), ([1.0, 2.0, math.nan], [1.0, 2.0, 3.0])],
    ids=["two pairs", "unequal sides", "a value is missing"],
)
def test_what_is_not_whole_pairs_is_refused(sides):
    with pytest.raises(ValueError, match="pairs"):
        paired_ratio_interval(*sides)
