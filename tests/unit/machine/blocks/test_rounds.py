"""Times over rounds: what a round does to everything is taken out, and what happens to one block alone is not."""

import numpy as np
import pytest

from hpcai.machine.blocks import rounds
from hpcai.machine.blocks.rounds import ROUNDS, time_in_turn, typical_times

TIMES_S = np.array([1e-4, 2e-3, 5e-2, 7e-1])


def test_slow_rounds_do_not_change_the_times():
    slow = np.array([1.0, 1.0, 1.3, 1.0, 2.0, 1.0, 1.1])
    assert typical_times(slow[:, None] * TIMES_S) == pytest.approx(TIMES_S)


def test_a_round_that_disturbs_one_block_alone_is_one_of_many():
    times_s = np.tile(TIMES_S, (9, 1))
    times_s[3, 2] *= 10
    assert typical_times(times_s) == pytest.approx(TIMES_S)


def test_scatter_of_rounds_is_taken_out_where_medians_keep_it():
    random = np.random.default_rng(5)
    rounds = np.exp(0.2 * random.standard_normal((8, 1)))
    times_s = rounds * TIMES_S * np.exp(0.01 * random.standard_normal((8, 4)))
    found = typical_times(times_s)
    ratios = found / TIMES_S
    # Which speed is the usual one, no round can tell; the ratios between the times are right.
    assert ratios / ratios[0] == pytest.approx(np.ones(4), rel=0.02)


def test_a_block_too_short_for_the_clock_stays_zero():
    times_s = np.tile([0.0, 1e-3], (7, 1))
    assert typical_times(times_s).tolist() == [0.0, 1e-3]
    assert typical_times(np.zeros((7, 2))).tolist() == [0.0, 0.0]


def test_calls_and_each_pass_get_their_own_times():
    passes = [lambda: (np.array([1.0, 2.0]), []), lambda: (np.array([3.0]), [])]
    timed = time_in_turn({"step": lambda: sum(range(20_000))}, passes, [1, 1], 0.0)
    assert [one.tolist() for one in timed.passes_s] == [[1.0, 2.0], [3.0]]
    assert 0 < timed.calls_s["step"] < 1
    assert ROUNDS[0] <= timed.rounds <= ROUNDS[1]


def test_rounds_end_soon_where_only_all_are_slow_together_and_go_on_where_blocks_scatter(monkeypatch):
    random = np.random.default_rng(3)
    monkeypatch.setattr(rounds, "cpu_time_s", lambda call: call())

    def go_on(scatter):
        speed = {}

        def step():
            speed["now"] = np.exp(0.2 * random.standard_normal())
            return speed["now"] * sum(TIMES_S)

        def run():
            return speed["now"] * TIMES_S * np.exp(scatter * random.standard_normal(4)), []

        return time_in_turn({"step": step}, [run], [1] * 4, 60.0).rounds

    assert go_on(1e-4) == ROUNDS[0]
    assert go_on(0.1) > 2 * ROUNDS[0]
