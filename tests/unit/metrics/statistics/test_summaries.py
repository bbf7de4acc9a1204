"""Means and intervals against golden values, by coverage and by identities."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.metrics.statistics.summaries import (
    MEDIAN_ERROR,
    Sample,
    interval_of,
    mean_interval,
    median,
    paired_ratio,
    ratio_interval,
    ratio_of,
    variation_ratio,
)

MINUTES = [float(minute) for minute in range(10, 20)]
positive = st.floats(min_value=0.01, max_value=1e6)


def sample(values: list[float], statistic: str = "median", slower: int = 0) -> Sample:
    return Sample(np.asarray(values, dtype=float), statistic, slower)


def test_no_run_is_not_measured() -> None:
    for estimate in (interval_of(sample([])), mean_interval([math.nan]), ratio_interval([], [1.0])):
        assert math.isnan(estimate.value)
        assert estimate.n == 0
        assert estimate.note == "not measured"


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


@pytest.mark.parametrize("statistic", ["mean", "median", "olympic"])
@settings(deadline=None)
@given(values=st.lists(positive, min_size=2, max_size=12))
def test_every_statistic_lies_within_its_interval(statistic: str, values: list[float]) -> None:
    estimate = interval_of(sample(values, statistic))
    assert min(values) * (1 - 1e-9) <= estimate.value <= max(values) * (1 + 1e-9)
    assert 0 < estimate.low <= estimate.value * (1 + 1e-9)
    assert estimate.value <= estimate.high * (1 + 1e-9)
    if len(values) < 5:
        assert (estimate.low, estimate.high) == (min(values), max(values))
        assert f"range of {len(values)}" in estimate.method


def test_every_statistic_covers_what_it_promises() -> None:
    rng = np.random.default_rng(11)
    runs = np.sort(rng.normal(100, 5, (800, 10)))
    samples = {"median": rng.normal(100, 5, (800, 7)), "olympic": runs[:, 1:-1]}
    for statistic, found in samples.items():
        estimates = [interval_of(sample(values, statistic)) for values in found]
        assert 0.92 <= np.mean([each.low <= 100 <= each.high for each in estimates]) <= 0.99, statistic
    ratios = [
        ratio_of(sample(above, "olympic"), sample(below))
        for above, below in zip(samples["olympic"], samples["median"], strict=True)
    ]
    assert 0.92 <= np.mean([each.low <= 1 <= each.high for each in ratios]) <= 0.99


def test_relative_errors_golden() -> None:
    values = [9.0, 10.0, 11.0, 12.0, 13.0]
    plain = math.sqrt(2.5) / math.sqrt(5) / 11
    assert sample(values, "mean").relative_error == pytest.approx(plain)
    assert sample(values, "median").relative_error == pytest.approx(MEDIAN_ERROR * plain)
    assert sample(values[:2], "median").relative_error == sample(values[:2], "mean").relative_error
    # Winsorized: 9, 9, 10, 11, 12, 13, 13 around 11, of seven runs of which five are left.
    assert sample(values, "olympic").relative_error == pytest.approx(math.sqrt(18 / 6) * math.sqrt(7) / 5 / 11)


@pytest.mark.parametrize(
    ("values", "slower", "expected"),
    [([10.0, 12.0], 1, 12.0), ([10.0, 12.0, 14.0], 1, 13.0), ([10.0], 1, math.nan), ([10.0, 12.0], 2, math.nan)],
)
def test_runs_without_a_time_are_the_slowest_of_a_median(values: list[float], slower: int, expected: float) -> None:
    estimate = interval_of(sample(values, "median", slower))
    assert estimate.value == pytest.approx(expected, nan_ok=True)
    assert math.isnan(estimate.low)
    assert estimate.n == len(values) + slower


def test_a_sample_says_what_it_is() -> None:
    assert [sample([1.0] * n).words for n in range(3)] == ["", "one run", "median of 2"]
    assert sample([1.0] * 8, "olympic").words == "mean of 8, extremes dropped"
    assert sample([1.0], slower=1).words == "median of 2"


@settings(deadline=None)
@given(st.lists(positive, min_size=2, max_size=10), st.floats(min_value=0.1, max_value=10))
def test_ratio_is_scale_free(values: list[float], factor: float) -> None:
    scaled = ratio_interval([factor * value for value in values], values)
    assert scaled.value == pytest.approx(factor)
    assert scaled.low <= scaled.value * (1 + 1e-9)
    assert scaled.high >= scaled.value * (1 - 1e-9)


def test_the_range_of_pairs_holds_the_ratio_of_the_medians() -> None:
    found = paired_ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert (found.value, found.low, found.high, found.n) == (2.0, 2.0, 2.0, 3)
    found = paired_ratio([2.0, 2.2, 1.8], [1.0, 1.0, 1.2])
    assert (found.value, found.low, found.high) == (2.0, 1.5, 2.2)


@given(st.lists(st.tuples(positive, positive), min_size=3, max_size=9))
def test_the_range_of_any_pairs_holds_the_ratio_of_the_medians(pairs: list[tuple[float, float]]) -> None:
    above, below = zip(*pairs, strict=True)
    found = paired_ratio(above, below)
    assert found.value == pytest.approx(np.median(above) / np.median(below))
    assert found.low <= found.value <= found.high
    assert found.low == pytest.approx(min(a / b for a, b in pairs))


@pytest.mark.parametrize(
    "sides",
    [([1.0, 2.0], [1.0, 2.0]), ([1.0, 2.0, 3.0], [1.0, 2.0]), ([1.0, 2.0, math.nan], [1.0, 2.0, 3.0])],
    ids=["two pairs", "unequal sides", "a value is missing"],
)
def test_what_is_not_whole_pairs_is_refused(sides):
    with pytest.raises(ValueError, match="pairs"):
        paired_ratio(*sides)
