"""Tests, intervals and power: golden values, identities, and rates of false and true alarms."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hpcai.compare.history import find_level_shift
from hpcai.metrics.statistics.detectable import detectable_ratio, runs_needed
from hpcai.metrics.statistics.significance import (
    NOT_ON_SIDE,
    ONE_RUN,
    Significance,
    compare_differences,
    compare_failures,
    compare_samples,
    correct_holm,
)

NAN = math.nan
SPREAD = 0.02
values = st.lists(st.floats(0.1, 100), min_size=2, max_size=6)


@pytest.mark.parametrize(("effect", "runs"), [(0.2, 394), (0.5, 64), (0.8, 26), (1.0, 17)])
def test_runs_needed_are_those_of_cohen(effect: float, runs: int) -> None:
    # Cohen (1988), table 2.4.1: two-sided 5 %, power 80 %; 393 for d = 0.2 is rounded there. The rule's t test has the
    # degrees of freedom of one side: that costs up to one run.
    assert runs_needed(1.0, math.expm1(effect)) == pytest.approx(runs, abs=1)


def power_of_the_rule(n_base: int, n_new: int, change: float, scores: int, campaigns: int = 600) -> float:
    """How often the rule finds a change of one score among others that have not changed."""
    random = np.random.default_rng(100 * n_base + n_new)
    found = 0
    for _ in range(campaigns):
        base, new = (np.exp(random.normal(mean, SPREAD, n)) for mean, n in ((0, n_base), (math.log1p(change), n_new)))
        compared = compare_samples(base, new)
        found += compared.is_significant(correct_holm([compared.p_value, *[1.0] * (scores - 1)])[0])
    return found / campaigns


@pytest.mark.parametrize(
    ("n_base", "n_new", "scores"),
    [(2, 2, 1), (3, 3, 1), (3, 3, 12), (4, 4, 1), (5, 5, 1), (5, 5, 12), (3, 6, 1), (7, 7, 1), (10, 10, 1)],
)
def test_detectable_change_is_found_in_four_of_five_campaigns(n_base: int, n_new: int, scores: int) -> None:
    change = detectable_ratio(SPREAD, n_base, n_new, scores)
    assert power_of_the_rule(n_base, n_new, change, scores) == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(("change", "scores"), [(0.10, 1), (0.04, 1), (0.03, 1), (0.06, 12)])
def test_so_many_runs_as_are_needed_find_the_change_and_one_fewer_does_not(change: float, scores: int) -> None:
    needed = int(runs_needed(SPREAD, change, scores))
    assert 3 <= needed <= 12
    assert power_of_the_rule(needed, needed, change, scores) >= 0.75
    assert detectable_ratio(SPREAD, needed - 1, needed - 1, scores) > change


def test_a_power_that_is_known_grows_with_every_run() -> None:
    for scores in (1, 30):
        changes = [detectable_ratio(0.001, n, n, scores) for n in range(2, 15)]
        assert changes == sorted(changes, reverse=True)
        assert detectable_ratio(0.001, 4, 6, scores) == detectable_ratio(0.001, 6, 4, scores)
    assert detectable_ratio(0.01, 5, 5, 30) > detectable_ratio(0.01, 5, 5)


def test_fewer_runs_and_more_spread_hide_larger_changes() -> None:
    assert detectable_ratio(0.02, 10, 10) < detectable_ratio(0.02, 3, 3) < detectable_ratio(0.05, 3, 3)
    assert math.isnan(detectable_ratio(0.02, 1, 1))
    assert math.isnan(detectable_ratio(NAN, 5, 5))
    assert math.isnan(detectable_ratio(0.02, 1, 9))
    assert math.isnan(detectable_ratio(0.0, 5, 5))
    assert runs_needed(0.001, 0.05) == 2
    assert runs_needed(0.02, 0.05) > 4
    assert math.isnan(runs_needed(0.0, 0.05))
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


@pytest.mark.parametrize("runs", [2, 3])
def test_few_runs_are_judged_by_the_t_test_and_their_order(runs: int) -> None:
    base = [1.0, 1.001, 1.002][:runs]
    change = compare_samples(base, [2 * value for value in base])
    assert change.smallest_p > 0.05
    assert change.can_be_significant
    assert change.is_significant(change.p_value)
    assert not change.is_significant(0.06)
    assert "assuming a normal distribution" in change.method
    overlap = compare_samples([1.0, 1.001, 1.1], [1.05, 1.2, 1.201])
    assert not overlap.is_significant(0.001)


def test_ten_times_slower_with_three_runs_is_significant_among_thirty_scores() -> None:
    change = compare_samples([10.0, 10.05, 9.95], [100.0, 100.6, 99.4])
    assert change.is_significant(min(1.0, 30 * change.p_value))
    assert not compare_samples([10.0], [100.0, 100.6, 99.4]).is_significant(0.0)


@pytest.mark.parametrize(("runs", "told"), [(2, False), (3, False), (4, True), (5, True)])
def test_runs_without_spread_are_judged_by_permutations_alone(runs: int, *, told: bool) -> None:
    # The mean of equal values is rounded: 0.1 + 0.1 + 0.1 is not 0.3, and their deviations are not 0.
    change = compare_samples([0.1] * runs, [0.1 * 1.3] * runs)
    assert math.isnan(change.p_t)
    assert math.isnan(change.low)
    assert math.isnan(change.high)
    assert math.isnan(change.detectable_ratio)
    assert change.can_be_significant == told
    assert change.is_significant(change.p_value) == told
    assert ("too few runs" in change.note) == (not told)


def test_rounding_is_no_change() -> None:
    base = [0.7123, 0.7123 * (1 + 1e-14), 0.7123]
    change = compare_samples(base, [value * (1 + 1e-13) for value in base])
    assert change.identical
    assert not change.is_significant(change.p_value)
    assert compare_samples([14.0] * 2, [14.0] * 3).identical
    assert not compare_samples([14.0] * 2, [15.0] * 3).identical


def test_differences_are_judged_by_the_same_rule() -> None:
    base, new = [0.70, 0.71, 0.72, 0.705], [0.80, 0.81, 0.83, 0.805]
    change = compare_differences(base, new)
    assert change.is_significant(change.p_value)
    assert change.p_t == pytest.approx(stats.ttest_ind(base, new, equal_var=False).pvalue)
    shifted = compare_differences([value - 0.75 for value in base], [value - 0.75 for value in new])
    assert shifted.p_bounded == pytest.approx(change.p_bounded)
    assert shifted.p_permutation == change.p_permutation
    assert not compare_differences([0.7] * 3, [0.8] * 3).can_be_significant
    assert compare_differences([0.7], []).note == NOT_ON_SIDE(side="new")
    assert compare_differences([0.7], [0.8, 0.81]).note == ONE_RUN(where="beyond")


def test_nothing_measured_is_no_number() -> None:
    assert compare_samples([], [NAN]).note == "not measured"
    half = compare_samples([1.0, 2.0], [NAN])
    assert half.note == NOT_ON_SIDE(side="new")
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
        alarms += change.is_significant(change.p_value)
    assert alarms / 300 <= 0.08


SCATTER: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda random, n: random.normal(10, 0.3, n),
    "tiny spread": lambda random, n: 10 + random.normal(0, 1e-6, n),
    "rounding": lambda random, n: 0.7 * (1 + 1e-14 * random.integers(-3, 4, n)),
    "steps": lambda random, n: np.round(random.normal(14, 0.7, n)),
    "coarse steps": lambda random, n: random.integers(14, 16, n).astype(float),
    "hardly a step": lambda random, n: np.where(random.random(n) < 0.1, 15.0, 14.0),
    "constant": lambda random, n: np.full(n, 0.1),
    "heavy tails": lambda random, n: 10 + 0.1 * random.standard_t(3, n),
    "some slow runs": lambda random, n: random.normal(10, 0.1, n) + 3 * (random.random(n) < 0.15),
}


@pytest.mark.parametrize("scatter", SCATTER)
@pytest.mark.parametrize("runs", [(1, 3), (2, 2), (2, 3), (2, 4), (3, 3), (2, 5), (4, 4), (3, 7)])
def test_false_alarms_stay_at_five_percent_with_any_number_of_runs(runs: tuple[int, int], scatter: str) -> None:
    random, draw = np.random.default_rng(11), SCATTER[scatter]
    changes = [compare_samples(*(draw(random, n) for n in runs)) for _ in range(400)]
    alarms = sum(change.is_significant(change.p_value) for change in changes)
    # 29 of 400 are exceeded with 2 % probability at a rate of 5 %.
    assert alarms <= 29
    assert alarms == 0 or min(runs) > 1


@pytest.mark.parametrize("runs", [(2, 2), (2, 4), (3, 3), (4, 4), (4, 10)])
def test_false_alarms_stay_rare_where_one_side_is_steadier_and_many_scores_are_tested(runs: tuple[int, int]) -> None:
    # With Welch's degrees of freedom 4 against 2 runs would raise 10 times as many: 5 % of 20 scores becomes 40 %.
    random = np.random.default_rng(12)
    alarms = 0
    for _ in range(2000):
        steady, wide = random.normal(10, 0.01, max(runs)), random.normal(10, 0.08, min(runs))
        change = compare_samples(steady, wide)
        alarms += change.is_significant(20 * change.p_value)
    assert alarms <= 13  # 5 of 2000 at a rate of 5 % / 20


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
