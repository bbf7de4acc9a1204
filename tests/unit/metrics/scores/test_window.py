"""The window of consecutive runs that makes a result of more runs than the rules count."""

import math

from hypothesis import given
from hypothesis import strategies as st

from hpcai.metrics.scores.window import CHOSEN, TOO_FEW, choose_window, find_window, score_windows


def test_all_runs_where_there_are_not_more_than_the_rules_count():
    assert (choose_window([], 5, 5).first, choose_window([], 5, 5).length, choose_window([], 5, 5).note) == (0, 5, "")
    assert choose_window([], 3, 5).note == TOO_FEW(runs=3, needed=5)


def test_the_window_with_the_median_score_and_neither_the_fastest_nor_the_last():
    window = choose_window([30.0, 10.0, 20.0], 7, 5)
    assert (window.first, window.length) == (2, 5)
    told = CHOSEN.find_in(window.note)
    assert told
    assert (told["first"], told["last"], told["runs"]) == ("3", "7", "7")


def test_of_two_in_the_middle_the_slower_and_invalid_windows_are_infinitely_slow():
    assert choose_window([1.0, 2.0, 3.0, 4.0], 8, 5).first == 2
    assert choose_window([1.0, math.inf, 3.0, math.inf], 8, 5).first == 1


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=12), st.integers(3, 10))
def test_at_least_half_of_the_windows_are_not_slower_and_half_not_faster(scores, by_rule):
    window = choose_window(scores, by_rule + len(scores) - 1, by_rule)
    chosen = scores[window.first]
    assert 2 * sum(score <= chosen for score in scores) >= len(scores)
    assert 2 * sum(score >= chosen for score in scores) >= len(scores)


def test_scores_of_windows_leave_out_the_extremes_and_one_run_may_have_missed():
    times = [math.inf, 10.0, 20.0, 40.0, 30.0, math.inf, math.inf]
    assert score_windows(times, 5) == [30.0, 30.0, math.inf]
    assert score_windows(times, 8) == []


def test_runs_without_a_time_are_infinitely_slow_and_the_order_is_that_of_their_start():
    starts = [("d", 1), ("a", 1), ("a", 2), ("b", 1), ("c", 1), ("e", 1)]
    times = [10.0, None, math.nan, 20.0, 30.0, 40.0]
    places, note = find_window(starts, times, 5)
    assert places == [1, 2, 3, 4, 0]
    assert CHOSEN.find_in(note)
    assert find_window(starts[:3], times[:3], 5) == ([1, 2, 0], TOO_FEW(runs=3, needed=5))
