"""Linear theory against known values and identities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcai.workloads.cosmoflow.data.cosmology import (
    Universe,
    age_gyr,
    growth,
    power_spectrum,
    scale_factor_at_lookback,
    transfer,
)


def test_known_age() -> None:
    assert age_gyr(1.0, Universe(0.3, 0.8, 0.96, 70.0)) == pytest.approx(13.47, abs=0.02)


@given(st.floats(0.1, 0.5), st.floats(50, 90), st.floats(0, 8))
def test_scale_factor_inverts_age(omega_m: float, h_0: float, lookback_gyr: float) -> None:
    universe = Universe(omega_m, 0.8, 1.0, h_0)
    scale_factor = scale_factor_at_lookback(lookback_gyr, universe)
    assert age_gyr(scale_factor, universe) == pytest.approx(age_gyr(1.0, universe) - lookback_gyr, rel=1e-9)


@given(st.floats(0.1, 0.9))
def test_growth_is_one_today_and_faster_early(omega_m: float) -> None:
    assert growth(1.0, omega_m) == 1
    assert 0.5 <= growth(0.5, omega_m) < 1


def test_transfer_keeps_large_scales() -> None:
    assert transfer(np.array([1e-6]), 0.2)[0] == pytest.approx(1, abs=1e-3)


@given(st.floats(0.2, 1.3))
def test_power_grows_with_the_square_of_sigma_8(sigma_8: float) -> None:
    k = np.array([0.01, 0.1, 1.0])
    ratio = power_spectrum(k, Universe(0.3, sigma_8, 1.0, 70.0)) / power_spectrum(k, Universe(0.3, 1.0, 1.0, 70.0))
    assert ratio == pytest.approx(np.full(3, sigma_8**2))


def test_before_the_beginning() -> None:
    with pytest.raises(ValueError, match="did not exist"):
        scale_factor_at_lookback(20, Universe(0.3, 0.8, 1.0, 70.0))
