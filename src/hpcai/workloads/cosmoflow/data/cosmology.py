"""Linear theory of a flat CDM universe: power spectrum, age, growth."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

HUBBLE_TIME_GYR_KM_PER_S_PER_MPC = 977.792
"""1/H_0 in Gyr for H_0 = 1 km/s/Mpc: (1 Mpc in km) / (1 Gyr in s)."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Universe:
    """The four parameters that a CosmoFlow network estimates; flat, with a cosmological constant.

    ``h_0`` is the Hubble constant in km/s/Mpc, the others have no unit.
    """

    omega_m: float
    sigma_8: float
    n_s: float
    h_0: float


def transfer(k_h_per_mpc: FloatArray, shape: float) -> FloatArray:
    """Return the CDM transfer function T(k) (Bardeen, Bond, Kaiser & Szalay 1986, ApJ 304, 15, eq. G3).

    Parameters
    ----------
    k_h_per_mpc
        Wave numbers > 0 [h/Mpc].
    shape
        Shape parameter Gamma = omega_m h.
    """
    q = k_h_per_mpc / shape
    polynomial = 1 + 3.89 * q + (16.1 * q) ** 2 + (5.46 * q) ** 3 + (6.71 * q) ** 4
    return np.asarray(np.log1p(2.34 * q) / (2.34 * q) * polynomial**-0.25)


def power_spectrum(k_h_per_mpc: FloatArray, universe: Universe) -> FloatArray:
    """Return today's linear matter power spectrum P(k) = A k^n_s T(k)^2 with A from sigma_8 [(Mpc/h)^3].

    sigma_8^2 = 1/(2 pi^2) integral of P(k) W(8 k)^2 k^2 dk, W(x) = 3 (sin x - x cos x) / x^3 (top hat of 8 Mpc/h).
    """
    shape = universe.omega_m * universe.h_0 / 100

    def unscaled(k: FloatArray) -> FloatArray:
        return np.asarray(k**universe.n_s * transfer(k, shape) ** 2)

    log_k = np.linspace(np.log(1e-5), np.log(1e2), 4000)
    k = np.exp(log_k)
    x = 8 * k
    # The closed form loses all digits for small arguments; use the series 1 - x^2/10 there.
    window = np.where(x < 1e-2, 1 - x**2 / 10, 3 * (np.sin(x) - x * np.cos(x)) / x**3)
    # The integrand is 0 at both ends, so the trapezoidal rule reduces to a sum.
    variance = float(np.sum(unscaled(k) * window**2 * k**3)) * (log_k[1] - log_k[0]) / (2 * np.pi**2)
    return np.asarray(unscaled(k_h_per_mpc) * (universe.sigma_8**2 / variance))


def age_gyr(scale_factor: float, universe: Universe) -> float:
    """Return the age of a flat universe at a scale factor (Carroll, Press & Turner 1992, ARA&A 30, 499) [Gyr].

    t = 2 / (3 H_0 sqrt(1 - omega_m)) asinh(sqrt((1 - omega_m) / omega_m) a^(3/2)).
    """
    omega_l = 1 - universe.omega_m
    hubble_time_gyr = HUBBLE_TIME_GYR_KM_PER_S_PER_MPC / universe.h_0
    stretch = np.sqrt(omega_l / universe.omega_m) * scale_factor**1.5
    return float(hubble_time_gyr * 2 / (3 * np.sqrt(omega_l)) * np.arcsinh(stretch))


def scale_factor_at_lookback(lookback_gyr: float, universe: Universe) -> float:
    """Return the scale factor a (today 1) at a lookback time, which must be below the age of the universe [Gyr]."""
    age_then_gyr = age_gyr(1.0, universe) - lookback_gyr
    if age_then_gyr <= 0:
        raise ValueError(
            f"{lookback_gyr} Gyr ago {universe} did not exist; its age is {age_gyr(1.0, universe):.3f} Gyr"
        )
    omega_l = 1 - universe.omega_m
    hubble_time_gyr = HUBBLE_TIME_GYR_KM_PER_S_PER_MPC / universe.h_0
    stretch = np.sinh(1.5 * np.sqrt(omega_l) * age_then_gyr / hubble_time_gyr)
    return float((stretch * np.sqrt(universe.omega_m / omega_l)) ** (2 / 3))


def growth(scale_factor: float, omega_m: float) -> float:
    """Return the linear growth factor of a flat universe relative to today (Carroll, Press & Turner 1992, eq. 29).

    D(a) is proportional to a g(a), g = 5/2 Om / (Om^(4/7) - Ol + (1 + Om/2)(1 + Ol/70)) with the values at a.
    """

    def unscaled(a: float) -> float:
        matter = omega_m / (omega_m + (1 - omega_m) * a**3)
        dark = 1 - matter
        return float(a * 2.5 * matter / (matter ** (4 / 7) - dark + (1 + matter / 2) * (1 + dark / 70)))

    return unscaled(scale_factor) / unscaled(1.0)
