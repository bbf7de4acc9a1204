"""Laws of scaling recover unknown parameters, their intervals cover, and published efficiencies are reproduced."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcai.metrics.scaling.laws import (
    TOO_FEW_COUNTS,
    LawName,
    fit_law,
    gustafson_fraction,
    karp_flatt,
    parallel_efficiency,
    solve_serial_fraction,
)

RANKS = (1, 2, 4, 8, 16)
LARGE = (8, 16, 64, 128, 512)


def make_rates(
    ranks: tuple[int, ...], sigma: float, kappa: float = 0.0, *, noise: float = 0.0, seed: int = 0, repeats: int = 3
) -> tuple[np.ndarray, np.ndarray]:
    """Return ranks and rates of runs that follow a law with log-normal scatter; 100 samples/s on one rank."""
    counts = np.repeat(np.array(ranks, dtype=float), repeats)
    scatter = np.random.default_rng(seed).standard_normal(len(counts))
    return counts, true_rate(counts, sigma, kappa) * np.exp(noise * scatter)


def true_rate(ranks: np.ndarray, sigma: float, kappa: float) -> np.ndarray:
    return 100 * ranks / (1 + sigma * (ranks - 1) + kappa * ranks * (ranks - 1))


@pytest.mark.parametrize(
    ("rate", "ranks", "base_rate", "base_ranks", "expected", "tolerance"),
    [
        (345, 64, 58, 8, 0.744, 5e-4),  # image classification, fp32; printed 0.71
        (345, 64, 60.35, 8, 0.715, 5e-4),  # against 23 GFLOP x 2624 images/s
        (718, 64, 131.9, 8, 0.681, 1e-3),  # mixed precision; printed 0.67
        (25.99, 16, 31, 8, 0.42, 1e-3),  # extreme weather; the base includes compression
        (25.99, 16, 31 / 1.2, 8, 0.50, 5e-3),  # the base without it: what the source prints
    ],
)
def test_published_efficiencies(
    rate: float, ranks: int, base_rate: float, base_ranks: int, expected: float, tolerance: float
) -> None:
    assert parallel_efficiency(rate, ranks, base_rate, base_ranks) == pytest.approx(expected, abs=tolerance)


positive = st.floats(min_value=1e-3, max_value=1e12)
counts = st.integers(1, 10**6)


@given(positive, counts, counts)
def test_efficiency_identities(rate: float, ranks: int, base_ranks: int) -> None:
    assert parallel_efficiency(rate, ranks, rate, ranks) == pytest.approx(1)
    assert parallel_efficiency(rate * ranks, ranks, rate * base_ranks, base_ranks) == pytest.approx(1)
    assert parallel_efficiency(rate, ranks, rate, base_ranks) == pytest.approx(base_ranks / ranks)


@pytest.mark.parametrize("arguments", [(1, 0, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0), (-1, 1, 1, 1)])
def test_impossible_efficiencies_are_refused(arguments: tuple[float, float, float, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        parallel_efficiency(*arguments)
    assert math.isnan(parallel_efficiency(math.nan, 1, 1, 1))


@given(st.floats(0, 1), st.integers(2, 512), st.integers(1, 64))
def test_karp_flatt_inverts_amdahl(share: float, factor: int, base: int) -> None:
    ranks = base * factor
    speedup = factor * (1 + share * (base - 1)) / (1 + share * (ranks - 1))
    assert karp_flatt(speedup, ranks, base) == pytest.approx(share, abs=1e-6)


def test_karp_flatt_at_known_points() -> None:
    assert karp_flatt(1.95, 2) == pytest.approx((1 / 1.95 - 1 / 2) / (1 - 1 / 2))
    assert karp_flatt(2.0, 2) == 0
    assert karp_flatt(1.0, 2) == 1
    assert karp_flatt(2.2, 2) < 0
    assert karp_flatt(0.8, 2) > 1


@given(st.floats(0, 1), st.integers(2, 512), st.integers(1, 64))
def test_gustafson_fraction_inverts_gustafson(share: float, factor: int, base: int) -> None:
    ranks = base * factor
    speedup = (share + (1 - share) * ranks) / (share + (1 - share) * base)
    assert gustafson_fraction(speedup, ranks, base) == pytest.approx(share, abs=1e-6)


def test_gustafson_fraction_at_known_points() -> None:
    assert gustafson_fraction(1.9, 2) == pytest.approx(0.1)
    assert gustafson_fraction(1024 - 0.004 * 1023, 1024) == pytest.approx(0.004)  # the form of Gustafson 1988
    assert gustafson_fraction(2.2, 2) < 0
    assert gustafson_fraction(0.8, 2) > 1
    assert math.isnan(gustafson_fraction(10, 16, 8))
    with pytest.raises(ValueError, match="expected"):
        gustafson_fraction(1.5, 1, 1)


@pytest.mark.parametrize("ranks", [RANKS, LARGE])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.7, 1.0])
def test_gustafsons_law_gives_its_numbers_back(ranks: tuple[int, ...], share: float) -> None:
    counts = np.array(ranks, dtype=float)
    found = fit_law("gustafson", counts, 100 * (share + (1 - share) * counts))
    assert math.exp(found.log_rate) == pytest.approx(100, rel=1e-4)
    assert found.serial_fraction_ratio == pytest.approx(share, abs=1e-5)
    far = 8.0 * ranks[-1]
    assert found.rates([far])[0] == pytest.approx(100 * (share + (1 - share) * far), rel=1e-3)


def test_interval_and_band_of_gustafsons_law_cover() -> None:
    counts, far, hits = np.repeat(np.array(RANKS, dtype=float), 3), 128.0, np.zeros(2)
    for seed in range(200):
        scatter = np.exp(0.03 * np.random.default_rng(seed).standard_normal(len(counts)))
        found = fit_law("gustafson", counts, 100 * (0.1 + 0.9 * counts) * scatter)
        share, (_, low, high) = found.interval("serial_fraction"), found.rates([far])
        hits += [share.low <= 0.1 <= share.high, low[0] <= 100 * (0.1 + 0.9 * far) <= high[0]]
    assert (hits >= 0.89 * 200).all()
    assert (hits <= 199).all()


def test_karp_flatt_refuses_what_no_share_explains() -> None:
    assert math.isnan(karp_flatt(0.1, 16, 8))
    for arguments in ((1.5, 1, 1), (0.0, 2, 1), (1.5, 2, 0.5)):
        with pytest.raises(ValueError, match="expected"):
            karp_flatt(*arguments)


def test_two_scales_leave_no_interval() -> None:
    law = solve_serial_fraction([2, 2, 8], [190.0, 194.0, 500.0], "karp_flatt")
    assert law.serial_fraction_ratio == pytest.approx(karp_flatt(500 / 192, 8, 2))
    rate, low, high = law.rates([2, 8])
    assert rate == pytest.approx([192, 500])
    assert np.isnan([*low, *high, law.interval("serial_fraction").low]).all()


@pytest.mark.parametrize("ranks", [RANKS, LARGE])
@pytest.mark.parametrize(
    ("law", "sigma", "kappa"), [("amdahl", 0.0, 0.0), ("amdahl", 0.05, 0.0), ("amdahl", 1.0, 0.0),
                                ("universal", 0.03, 2e-4), ("universal", 0.0, 1e-4)],
)  # fmt: skip
def test_exact_data_give_their_numbers_back(ranks: tuple[int, ...], law: LawName, sigma: float, kappa: float) -> None:
    found = fit_law(law, *make_rates(ranks, sigma, kappa, repeats=1))
    assert math.exp(found.log_rate) == pytest.approx(100, rel=1e-4)
    assert found.serial_fraction_ratio == pytest.approx(sigma, abs=1e-5)
    assert found.coherency_ratio == pytest.approx(kappa, abs=1e-8)
    far = np.array([8.0 * ranks[-1]])
    assert found.rates(far)[0] == pytest.approx(true_rate(far, sigma, kappa), rel=1e-3)


@pytest.mark.parametrize(
    ("law", "ranks", "sigma", "kappa"),
    [("amdahl", RANKS, 0.05, 0.0), ("amdahl", LARGE, 0.002, 0.0), ("universal", LARGE, 0.03, 2e-4)],
)
def test_intervals_and_bands_cover(law: LawName, ranks: tuple[int, ...], sigma: float, kappa: float) -> None:
    """Of 200 made-up studies about 95 % hold the truth: the share, the rate inside, and the rate eight times beyond."""
    far, near = np.array([8.0 * ranks[-1]]), np.array([float(ranks[2])])
    hits = np.zeros(4)
    for seed in range(200):
        found = fit_law(law, *make_rates(ranks, sigma, kappa, noise=0.03, seed=seed))
        share, coherency = found.interval("serial_fraction"), found.interval("coherency")
        hits += [share.low <= sigma <= share.high, coherency.low <= kappa <= coherency.high,
                 *(low[0] <= true_rate(at, sigma, kappa)[0] <= high[0]
                   for at in (near, far) for _, low, high in [found.rates(at)])]  # fmt: skip
    assert (hits >= 0.89 * 200).all()
    assert hits[2] <= 199


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 0.3), st.integers(0, 1000), st.sampled_from([RANKS, LARGE]))
def test_band_widens_outside(sigma: float, seed: int, ranks: tuple[int, ...]) -> None:
    law = fit_law("amdahl", *make_rates(ranks, sigma, noise=0.02, seed=seed))
    middle, low, high = law.rates(ranks[-1] * np.array([1.0, 2.0, 4.0, 8.0]))
    assert ((low < middle) & (middle < high)).all()
    assert (np.diff(high / low) > 0).all()


def test_numbers_stay_within_the_law() -> None:
    """Fits to superlinear and to falling throughput end at the bounds, and report it."""
    for exponent, share in ((1.1, 0.0), (-0.2, 1.0)):
        ranks = np.array(RANKS, dtype=float)
        law = fit_law("amdahl", ranks, 100 * ranks**exponent)
        assert law.serial_fraction_ratio == share
        assert "serial_fraction_ratio" in law.at_bound
        interval = law.interval("serial_fraction")
        assert 0 <= interval.low <= interval.high <= 1


def test_criterion_prefers_the_law_of_the_data() -> None:
    for kappa, better, worse in ((0.0, "amdahl", "universal"), (1e-3, "universal", "amdahl")):
        data = make_rates(RANKS, 0.05, kappa, noise=0.01, seed=4)
        assert fit_law(better, *data).aicc < fit_law(worse, *data).aicc


def test_too_few_scales_are_refused() -> None:
    with pytest.raises(ValueError, match=TOO_FEW_COUNTS(law=".*", found=3, free=3)):
        fit_law("universal", *make_rates((1, 2, 4), 0.1))
    with pytest.raises(ValueError, match=TOO_FEW_COUNTS(law=".*", found=2, free=2)):
        fit_law("amdahl", *make_rates((1, 2), 0.1))


def test_order_of_runs_does_not_matter() -> None:
    ranks, rates = make_rates(RANKS, 0.05, 1e-3, noise=0.02)
    turned = fit_law("universal", ranks[::-1], rates[::-1])
    assert turned.coherency_ratio == pytest.approx(fit_law("universal", ranks, rates).coherency_ratio, rel=1e-6)
