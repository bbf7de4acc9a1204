"""FLOPS and VFLOPS: the golden values C-01, C-02, C-03 and C-11 of performance_models.md, C.2, and identities."""

import math
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from hpcai.metrics.scores.vflops import compute_vflops, implied_quality, quality_coefficient, run_rate, training_work

TOP_1, WEATHER = 0.763, 0.35
rates = st.floats(min_value=1e3, max_value=1e21)
qualities = st.floats(min_value=1e-3, max_value=1.0)
exponents = st.floats(min_value=0.1, max_value=20)


def test_c_01_implied_quality() -> None:
    assert compute_vflops(1.0, 0.70713, TOP_1, 5) == pytest.approx(0.683706, abs=2e-5)
    assert implied_quality(939e12, 642e12, TOP_1, 5) == pytest.approx(0.70713, abs=5e-6)
    assert implied_quality(939e12, 642e12, TOP_1, 10) == pytest.approx(0.73453, abs=5e-6)
    # Both numbers are rounded to units.
    assert implied_quality(939.5, 641.5, TOP_1, 5) == pytest.approx(0.70694, abs=5e-6)
    assert implied_quality(938.5, 642.5, TOP_1, 5) == pytest.approx(0.70731, abs=5e-6)
    assert compute_vflops(939e12, TOP_1 - 0.01, TOP_1, 5) == pytest.approx(879e12, abs=0.5e12)


@pytest.mark.parametrize(
    ("quality", "target", "exponent", "coefficient"),
    [(0.7634, TOP_1, 5, 1.002624), (0.6148, TOP_1, 5, 0.339662), (0.33, WEATHER, 10, 0.555212)],
)
def test_c_02_coefficients(quality: float, target: float, exponent: float, coefficient: float) -> None:
    assert quality_coefficient(quality, target, exponent) == pytest.approx(coefficient, abs=5e-7)


def test_c_03_gains_of_table_8_are_absolute_points() -> None:
    def gain(points: float, base: float = TOP_1) -> float:
        return quality_coefficient(base + points, base, 5)

    assert gain(0.0045) == pytest.approx(1.0298, abs=5e-5)
    assert round(gain(0.0045), 2) == 1.03
    assert gain(0.0138) == pytest.approx(1.0938, abs=5e-5)
    # The printed 1.10 for +1.38 points needs a lower base.
    assert gain(0.0138, 0.75341) == pytest.approx(1.095, abs=5e-6)
    relative = [quality_coefficient(TOP_1 * (1 + points), TOP_1, 5) for points in (0.0045, 0.0138)]
    assert relative == [pytest.approx(1.0227, abs=5e-5), pytest.approx(1.0709, abs=5e-5)]


def test_c_11_work_of_a_training_of_90_epochs() -> None:
    work = training_work(1.28e6, 90, 23e9)
    assert work == pytest.approx(2.6496e18)
    assert work / 72 == pytest.approx(36.80e15, rel=1e-4)
    assert work / (28 * 60) == pytest.approx(1.577e15, rel=1e-3)


def test_rate_of_a_run() -> None:
    # Images of image classification on 8 GPUs (HPC AI500 V2.0, Table 11): C-05.
    assert run_rate(2624 / 8, 8, 23e9) == pytest.approx(60.352e12)


@given(rates, qualities, exponents)
def test_vflops_are_flops_at_the_target(rate: float, target: float, exponent: float) -> None:
    assert compute_vflops(rate, target, target, exponent) == rate
    assert compute_vflops(rate, target, target, exponent, capped=True) == rate


@given(rates, qualities, qualities, qualities, exponents)
def test_vflops_grow_with_quality(rate: float, one: float, other: float, target: float, exponent: float) -> None:
    low, high = sorted((one, other))
    for capped in (False, True):
        below = compute_vflops(rate, low, target, exponent, capped=capped)
        assert below <= compute_vflops(rate, high, target, exponent, capped=capped)


@given(rates, qualities, qualities, exponents)
def test_a_cap_takes_away_what_lies_above_the_target(
    rate: float, quality: float, target: float, exponent: float
) -> None:
    free = compute_vflops(rate, quality, target, exponent)
    capped = compute_vflops(rate, quality, target, exponent, capped=True)
    assert capped <= free
    assert capped <= rate
    if quality <= target:
        assert capped == free


@given(rates, qualities, qualities)
def test_quality_counts_for_less_as_the_exponent_falls(rate: float, quality: float, target: float) -> None:
    assert compute_vflops(rate, quality, target, 1e-12) == pytest.approx(rate)
    stricter, milder = (quality_coefficient(quality, target, exponent) for exponent in (10, 5))
    assert stricter == pytest.approx(milder**2)
    assert (stricter <= milder) == (quality <= target) or milder == 1


@given(rates, qualities, qualities, exponents)
def test_implied_quality_is_the_inverse(rate: float, quality: float, target: float, exponent: float) -> None:
    valid = compute_vflops(rate, quality, target, exponent)
    assume(1e-290 < valid < 1e290)
    assert implied_quality(rate, valid, target, exponent) == pytest.approx(quality, rel=1e-6)


@pytest.mark.parametrize("place", range(4))
def test_what_was_not_measured_stays_so(place: int) -> None:
    for arguments in ([1e12, 0.5, 0.5, 5.0], [1e12, 0.7, 0.5, 5.0]):
        arguments[place] = math.nan
        assert math.isnan(compute_vflops(*arguments))
        assert math.isnan(compute_vflops(*arguments, capped=True))
        assert math.isnan(implied_quality(*arguments[:1], 1e12, *arguments[2:])) == (place != 1)
    assert math.isnan(implied_quality(1e12, math.nan, 0.5, 5))
    assert math.isnan(run_rate(math.nan, 2, 1.0))
    assert math.isnan(training_work(1, 1, math.nan))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quality_coefficient(-0.1, 0.5, 5), "quality = -0.1"),
        (lambda: quality_coefficient(0.1, 0.0, 5), "target = 0.0"),
        (lambda: quality_coefficient(0.1, 0.5, 0), "exponent = 0"),
        (lambda: compute_vflops(-1.0, 0.5, 0.5, 5), "rate_flop_per_s = -1.0"),
        (lambda: compute_vflops(math.inf, 0.5, 0.5, 5), "rate_flop_per_s = inf"),
        (lambda: implied_quality(0.0, 1.0, 0.5, 5), "rate_flop_per_s = 0.0"),
        (lambda: implied_quality(1.0, -1.0, 0.5, 5), "vflops_flop_per_s = -1.0"),
        (lambda: implied_quality(1.0, 1.0, 0.5, -5), "exponent = -5"),
        (lambda: run_rate(1.0, 0, 1.0), "processes = 0"),
        (lambda: training_work(-1, 1, 1.0), "samples = -1"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
