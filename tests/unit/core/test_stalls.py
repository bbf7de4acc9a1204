"""Pauses among the times of steps and evaluations."""

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.catalogue.tables import definitions
from hpcai.core.stalls import FACTOR, FEWEST, LEAST_S, NEIGHBOURS, STALLED, Stalls, find_stalls, say_stall

STEPS = [0.02 + 0.001 * (place % 7) for place in range(60)]


@pytest.mark.parametrize("place", [0, 1, 30, 58, 59])
def test_a_stopped_rank_leaves_one_step_wherever_it_is(place: int) -> None:
    times_s = STEPS.copy()
    times_s[place] += 20.0
    found = find_stalls(times_s)
    assert found is not None
    assert (found.count, found.longest_s) == (1, times_s[place])
    assert found.beside_s == pytest.approx(0.023, abs=0.002)


def test_steps_that_differ_as_steps_do_are_none() -> None:
    rates = random.Random(1)
    times_s = [rates.uniform(0.3, 1.2) for _ in range(500)]
    assert find_stalls([0.07, *STEPS]) == find_stalls(times_s) == Stalls(count=0)


def test_a_pause_of_long_steps_and_one_that_two_steps_share() -> None:
    assert find_stalls([3.0] * 10 + [23.0] + [3.0] * 10) == Stalls(count=1, longest_s=23.0, beside_s=3.0)
    found = find_stalls([*STEPS, 4.0, 6.0, *STEPS])
    assert found is not None
    assert (found.count, found.longest_s, found.beside_s) == (2, 6.0, pytest.approx(0.023, abs=2e-3))


def test_what_is_short_or_grows_slowly_is_no_pause() -> None:
    assert find_stalls([*STEPS, 0.9, *STEPS]) == Stalls(count=0)
    assert find_stalls([1.05**place for place in range(200)]) == Stalls(count=0)
    assert find_stalls([0.1] * 50 + [3.0] * 50) == Stalls(count=0)


def test_series_are_compared_each_with_itself() -> None:
    assert find_stalls(STEPS, [2.0] * 5) == Stalls(count=0)
    assert find_stalls(STEPS, [2.0, 2.0, 22.0, 2.0]) == Stalls(count=1, longest_s=22.0, beside_s=2.0)


def test_too_few_times_tell_nothing() -> None:
    assert find_stalls([1.0] * (FEWEST - 1), []) is None
    assert find_stalls() is None


@given(st.lists(st.floats(0, 100), min_size=FEWEST, max_size=80))
def test_found_are_all_that_the_definition_says(times_s: list[float]) -> None:
    beside = [
        median(times_s[max(place - NEIGHBOURS, 0) : place] + times_s[place + 1 : place + 1 + NEIGHBOURS])
        for place in range(len(times_s))
    ]
    expected = [time_s for time_s, own_s in zip(times_s, beside, strict=True) if time_s > max(LEAST_S, FACTOR * own_s)]
    found = find_stalls(times_s)
    assert found is not None
    assert found.count == len(expected)
    assert found.longest_s == max(expected, default=None)


def test_words_and_the_definition_that_readers_find() -> None:
    assert STALLED.find_in(say_stall(20.123, 0.0213)) == {"longest_s": "20.1", "beside_s": "0.021"}
    said = definitions().find("runs", "stalls")[1].definition
    for words in (f"longer than {LEAST_S:g} s", f"than {FACTOR:g} times", f"median of the {NEIGHBOURS} before"):
        assert words in said
