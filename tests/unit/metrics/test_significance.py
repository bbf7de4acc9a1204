"""Tests, intervals and power: golden values, identities, and rates of false and true alarms."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hpcai.metrics.detectable import detectable_ratio, runs_needed
from hpcai.metrics.significance import (
    Significance,
    compare_failures,
    compare_samples,
    correct_holm,
    find_level_shift,
)

NAN = math.nan
values = st.lists(st.floats(0.1, 100), min_size=2, max_size=6)


@pytest.mark.parametrize(("effect", "runs"), [(0.2, 394), (0.5, 64), (0.8, 26), (1.0, 17)])
def test_runs_needed_are_those_of_cohen(effect: float, runs: int) -> None:
    # Cohen (1988), table 2.4.1: two-sided 5 %, power 80 %; 393 for d = 0.2 is rounded there.
    assert runs_needed(1.0, math.expm1(effect)) == pytest.approx(runs, abs=1)


def test_detectable_change_is_found_in_four_of_five_campaigns() -> None:
    change = detectable_ratio(0.03, 6, 6)
    random = np.random.default_rng(3)
    base, new = random.normal(0, 0.03, (4000, 6)), random.normal(math.log1p(change), 0.03, (4000, 6))
    found = stats.ttest_ind(base, new, axis=1).pvalue <= 0.05
    assert found.mean() == pytest.approx(0.8, abs=0.03)


def test_fewer_runs_and_more_spread_hide_larger_changes() -> None:
    assert detectable_ratio(0.02, 10, 10) < detectable_ratio(0.02, 3, 3) < detectable_ratio(0.05, 3, 3)
    assert math.isnan(detectable_ratio(0.02, 1, 1))
    assert math.isnan(detectable_ratio(NAN, 5, 5))
    assert runs_needed(0.001, 0.05) == 4
    assert runs_needed(5.0, 0.01) == math.inf
    assert math.isnan(runs_needed(NAN, 0.05))
    with pytest.raises(ValueError, match="positive"):
        runs_needed(0.1, 0.0)


def test_exact_permutations_are_those_of_scipy() -> None:
    base, new = [10.0, 10.4, 9.9, 10.2, 10.1], [10.3, 10.9, 10.2, 10.8, 10.35]
    own = compare_samples(base, new)
    reference = stats.permutation_test(
        (new, base), lambda x, y, axis: np.log(x.mean(axis) / y.mean(axis)), vectorized=True, n_resamples=np.inf
    )
    assert own.p_permutation == pytest.approx(reference.pvalue)
    assert own.smallest_p == pytest.approx(2 / 252)
    assert "all 252 arrangements" in own.method


def test_t_test_and_interval_tell_the_same() -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        change = compare_samples(random.lognormal(0, 0.05, 4), random.lognormal(0.06, 0.05, 6))
        assert (change.p_t <= 0.05) == (not change.low <= 1 <= change.high)


def test_t_test_is_close_to_the_one_of_logarithms() -> None:
    random = np.random.default_rng(6)
    base, new = random.lognormal(0, 0.03, 8), random.lognormal(0.03, 0.03, 8)
    reference = stats.ttest_ind(np.log(new), np.log(base), equal_var=False).pvalue
    assert compare_samples(base, new).p_t == pytest.approx(reference, rel=0.1)


@given(values, values)
def test_sides_can_be_swapped(base: list[float], new: list[float]) -> None:
    there, back = compare_samples(base, new), compare_samples(new, base)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.p_permutation == pytest.approx(back.p_permutation)
    assert there.p_t == pytest.approx(back.p_t, nan_ok=True)
    assert there.smallest_p <= there.p_permutation <= 1


@given(values, st.floats(0.5, 20))
def test_units_do_not_matter(base: list[float], factor: float) -> None:
    new = [value * 1.1 for value in reversed(base)]
    scaled = compare_samples([factor * value for value in base], [factor * value for value in new])
    assert scaled.ratio == pytest.approx(1.1)
    assert scaled.spread_ratio == pytest.approx(compare_samples(base, new).spread_ratio, abs=1e-9)


@given(values)
def test_a_result_against_itself_has_not_changed(base: list[float]) -> None:
    change = compare_samples(base, base)
    assert change.identical
    assert change.ratio == 1
    assert change.p_permutation == 1
    assert not change.is_significant(0.0)


def test_one_run_has_no_test_but_a_range() -> None:
    inside, outside = compare_samples([1.0, 1.2, 1.1], [1.15]), compare_samples([1.0, 1.2, 1.1], [1.3])
    assert not inside.beyond_range
    assert outside.beyond_range
    assert math.isnan(outside.low)
    assert math.isnan(outside.p_value)
    assert "no test is possible" in outside.note
    assert outside.ratio == pytest.approx(1.3 / 1.1)


def test_two_runs_are_too_few_whatever_they_say() -> None:
    change = compare_samples([1.0, 1.001], [2.0, 2.001])
    assert change.smallest_p == pytest.approx(1 / 3)
    assert not change.can_be_significant
    assert not change.is_significant(0.001)
    assert "too few runs" in change.note


def test_nothing_measured_is_no_number() -> None:
    assert compare_samples([], [NAN]).note == "not measured"
    half = compare_samples([1.0, 2.0], [NAN])
    assert half.note == "not measured on the new side"
    assert math.isnan(half.new_value)
    assert math.isnan(half.ratio)
    zero = compare_samples([0.0, 0.1], [0.2, 0.3])
    assert "not positive" in zero.note
    assert math.isnan(zero.ratio)


def test_values_without_spread_are_judged_by_permutations() -> None:
    change = compare_samples([14.0] * 5, [15.0] * 5)
    assert math.isnan(change.p_t)
    assert change.p_value == change.p_permutation == pytest.approx(2 / 252)
    assert "no spread" in change.note


def test_many_runs_are_drawn_and_repeatable() -> None:
    random = np.random.default_rng(7)
    base, new = random.lognormal(0, 0.05, 30), random.lognormal(0.1, 0.05, 30)
    change = compare_samples(base, new)
    assert change == compare_samples(base, new)
    assert change.p_permutation == change.smallest_p == pytest.approx(1e-4)
    assert "9999 drawn" in change.method


def test_false_alarms_stay_below_their_rate() -> None:
    random = np.random.default_rng(8)
    alarms = 0
    for _ in range(300):
        change = compare_samples(random.lognormal(0, 0.05, 5), random.lognormal(0, 0.05, 5))
        alarms += change.is_significant(change.p_t)
    assert alarms / 300 <= 0.08


def test_holm_by_hand() -> None:
    assert correct_holm([0.01, 0.04, 0.03, 0.005, NAN]) == pytest.approx([0.03, 0.06, 0.06, 0.02, NAN], nan_ok=True)
    assert correct_holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_keeps_the_order_and_lies_between_none_and_bonferroni(p_values: list[float]) -> None:
    corrected = correct_holm(p_values)
    for p, own in zip(p_values, corrected, strict=True):
        assert p <= own <= min(1, len(p_values) * p) + 1e-12
    assert np.array_equal(np.argsort(p_values, kind="stable"), np.lexsort((p_values, corrected)))


def test_failures_by_fisher() -> None:
    assert compare_failures(5, 5, 1, 5) == pytest.approx(6 / 252)
    assert compare_failures(5, 5, 5, 5) == 1
    assert compare_failures(2, 2, 0, 2) == pytest.approx(1 / 6)
    assert math.isnan(compare_failures(0, 0, 1, 2))
    with pytest.raises(ValueError, match="6 of 5"):
        compare_failures(6, 5, 1, 5)


def test_a_level_shift_is_found_where_it_is() -> None:
    random = np.random.default_rng(9)
    series = [*random.lognormal(0, 0.02, 9), *random.lognormal(0.2, 0.02, 7)]
    place, p = find_level_shift(series)
    assert place == 9
    assert p < 0.001
    assert find_level_shift(series) == (place, p)


def test_noise_and_short_series_have_no_shift() -> None:
    random = np.random.default_rng(10)
    found = [find_level_shift(random.lognormal(0, 0.05, 12).tolist())[1] <= 0.05 for _ in range(60)]
    assert sum(found) <= 8
    assert find_level_shift([1, 1, 1, 2, 2, 2])[1] > 0.05
    assert math.isnan(find_level_shift([1, 2])[1])


def test_empty_significance_is_never_significant() -> None:
    assert not Significance().is_significant(NAN)
    assert not Significance().can_be_significant
