"""The scatter of tails is recovered from results that were made with it."""

import numpy as np
import pytest

from hpcai.metrics.scaling.weak_forecast import forecast_all
from hpcai.metrics.scaling.weak_tails import SPREADS, Tail, Weak, draw_factors, draw_slowest, fit_tail


def make_results(count: int, spread: float, seed: int) -> list[Weak]:
    """Return results of 200 instances, whose slowest is as far from the mean as a log-normal one times a factor."""
    draws, results = np.random.default_rng(seed), []
    for _ in range(count):
        logs = 6 + 0.05 * draws.standard_normal(200)
        slowest = 6 + (logs.max() - 6) * np.exp(spread * draws.standard_normal())
        results.append(Weak(np.exp(logs[:10]).tolist(), 200, float(np.exp(slowest))))
    return results


@pytest.mark.parametrize(("spread", "low", "high"), [(0.0, 0.0, 0.2), (0.3, 0.2, 0.45), (0.8, 0.6, 1.05)])
def test_the_spread_is_recovered(spread: float, low: float, high: float) -> None:
    found = fit_tail(make_results(40, spread, seed=4))
    assert low <= found.spread <= high
    assert found.degrees == 39


def test_intervals_with_the_spread_of_others_hold_results_that_were_left_out() -> None:
    results = make_results(60, 0.6, seed=9)
    tail = fit_tail(results[:30])
    inside = 0
    for one in results[30:]:
        found = forecast_all(one.ends_s, one.instances, tail=tail)
        inside += found.low <= one.all_s <= found.high
    assert inside >= 26


def test_a_time_below_the_mean_of_all_instances_still_leaves_a_spread() -> None:
    strange = [Weak([100.0, 101.0, 102.0], 50, 60.0)] * 3
    assert fit_tail(strange).spread in SPREADS


def test_the_largest_factors_are_finite() -> None:
    draws = draw_slowest([1.0, 2.0, 3.0], 10, seed=1)[2]
    assert np.isfinite(draw_factors(Tail(2.0, 1), draws)).all()
