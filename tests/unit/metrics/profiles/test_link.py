"""The alpha-beta fit."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.metrics.profiles.link import fit_link, rate_at, say_misfit

SIZES = [4.0 * 4**power for power in range(13)]


def times(latency_s: float, bandwidth: float, noise: float = 0.0, seed: int = 1) -> list[float]:
    factors = 1 + noise * np.random.default_rng(seed).standard_normal(len(SIZES))
    return [(latency_s + size / bandwidth) * float(factor) for size, factor in zip(SIZES, factors, strict=True)]


@given(st.floats(1e-6, 1e-2), st.floats(1e8, 1e11))
@settings(max_examples=50, deadline=None)
def test_exact_parameters_are_recovered(latency_s, bandwidth):
    fit = fit_link(SIZES, times(latency_s, bandwidth))
    # Where even the longest message hides in the latency, a bandwidth cannot be seen to full precision.
    assert fit.latency_s == pytest.approx(latency_s, rel=1e-6)
    assert fit.bandwidth_bytes_per_s == pytest.approx(bandwidth, rel=1e-4)
    assert fit.n == len(SIZES)
    assert fit.reason == ""
    assert fit.misfit_ratio < 1e-6


def test_the_errors_are_those_of_the_noise():
    fits = [fit_link(SIZES, times(1e-3, 1e9, noise=0.05, seed=seed)) for seed in range(200)]
    for name, true in (("latency", 1e-3), ("bandwidth", 1e9)):
        unit = "_s" if name == "latency" else "_bytes_per_s"
        distances = [(getattr(fit, f"{name}{unit}") - true) / getattr(fit, f"{name}_error{unit}") for fit in fits]
        assert abs(np.mean(distances)) < 0.3
        assert 0.7 < np.std(distances) < 1.6


def test_one_disturbed_size_moves_the_line_little():
    disturbed = times(1e-3, 1e9, noise=0.01)
    disturbed[6] *= 5
    fit = fit_link(SIZES, disturbed)
    assert fit.latency_s == pytest.approx(1e-3, rel=0.03)
    assert fit.bandwidth_bytes_per_s == pytest.approx(1e9, rel=0.03)
    assert fit.misfit_ratio > 0.7


def test_unit_of_time_does_not_matter():
    seconds, long = fit_link(SIZES, times(1e-3, 1e9, 0.05)), fit_link(SIZES, [1e3 * t for t in times(1e-3, 1e9, 0.05)])
    assert long.latency_s == pytest.approx(1e3 * seconds.latency_s)
    assert long.bandwidth_bytes_per_s == pytest.approx(seconds.bandwidth_bytes_per_s / 1e3)
    assert long.misfit_ratio == pytest.approx(seconds.misfit_ratio)


@pytest.mark.parametrize(
    ("sizes", "values", "reason"),
    [
        ([], [], "0 message sizes with a time, at least 4"),
        (SIZES[:3], times(1e-3, 1e9)[:3], "3 message sizes"),
        ([4.0] * 10, [1e-3] * 10, "1 message sizes"),
        ([100.0, 110.0, 120.0, 130.0], [1.0, 1.1, 1.2, 1.3], "only 1.3 times the smallest"),
        (SIZES, [1e-3 + 1e-6 / (size + 1) for size in SIZES], "time per byte of -"),
        (SIZES, [size**1.2 / 1e9 for size in SIZES], "latency of -"),
        (SIZES, [math.nan] * 13, "0 message sizes"),
        (SIZES, [0.0] * 13, "0 message sizes"),
    ],
)
def test_nonsense_is_a_reason_and_no_number(sizes, values, reason):
    fit = fit_link(sizes, values)
    assert reason in fit.reason
    assert math.isnan(fit.latency_s)
    assert math.isnan(fit.bandwidth_bytes_per_s)
    assert math.isnan(fit.latency_error_s)


def test_missing_times_are_left_out():
    some = times(1e-3, 1e9)
    some[3] = math.nan
    fit = fit_link(SIZES, some)
    assert fit.n == len(SIZES) - 1
    assert fit.latency_s == pytest.approx(1e-3)


def test_sizes_and_times_belong_together():
    with pytest.raises(ValueError, match="3 sizes and 2 times"):
        fit_link([1.0, 2.0, 3.0], [1.0, 2.0])


def test_one_short_message_that_was_fast_does_not_move_the_line():
    seconds = times(3e-3, 1e9)
    seconds[0] = 1e-4  # the line may not follow it and leave the twelve others 30 times slower
    fit = fit_link(SIZES, seconds)
    assert fit.latency_s == pytest.approx(3e-3, rel=0.05)
    assert fit.bandwidth_bytes_per_s == pytest.approx(1e9, rel=0.05)
    assert fit.misfit_ratio > 20


def test_the_rate_at_a_size_lies_between_those_measured():
    rows = [
        ("transfer", "node", 2, 100, 1e-3), ("transfer", "node", 2, 10_000, 1e-3), ("call", "node", 2, 100, 1.0),
        ("transfer", "node", 4, 100, 1.0), ("transfer", "network", 2, 100, 2e-3),
    ]  # fmt: skip
    links = pd.DataFrame(rows, columns=["what", "scope", "ranks", "bytes", "time_min_s"]).assign(time_s=9.0)
    assert rate_at(links, "transfer", 2, 100) == pytest.approx(1e5)
    assert rate_at(links, "transfer", 2, 1000) == pytest.approx(1e6)  # the middle on logarithmic scales
    assert rate_at(links, "transfer", 2, 10_000) == pytest.approx(1e7)
    assert rate_at(links, "call", 2, 100) == pytest.approx(100)
    assert rate_at(links, "transfer", 2, 100, scope="network") == pytest.approx(5e4)
    for what, ranks, size in (("transfer", 2, 99), ("transfer", 2, 1e5), ("transfer", 8, 100), ("call", 2, math.nan)):
        assert math.isnan(rate_at(links, what, ranks, size))
    assert math.isnan(rate_at(pd.DataFrame(), "call", 2, 4))


@pytest.mark.parametrize(
    ("misfit_ratio", "said"),
    [(0.12, "12 %"), (1.0, "100 %"), (29.3, "30.3 times"), (math.nan, "not known")],
)
def test_a_line_far_above_a_time_is_said_as_a_multiple(misfit_ratio, said):
    assert said in say_misfit(misfit_ratio)
