"""Background fields of the generator: zonal climate, smooth weather, winds that follow from the pressure, mountains."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcai.workloads.extreme_weather.data.container import CHANNELS

Field = NDArray[np.float64]
GRAVITY_M_PER_S2 = 9.81
AIR_KG_PER_M3 = 1.2
_WEATHER_SCALE = 0.09
"""Correlation length of the weather as a part of the image's height."""


@dataclass(frozen=True)
class Grid:
    """A regular grid of latitudes, from south to north, and longitudes."""

    height: int
    width: int

    @property
    def latitude_deg(self) -> Field:
        """Latitudes of the rows, (height, 1)."""
        return ((np.arange(self.height) + 0.5) / self.height * 180 - 90)[:, None]


def smooth_noise(random: np.random.Generator, grid: Grid, count: int, scale: float) -> Field:
    """Return Gaussian random fields of mean 0 and variance 1 on a periodic grid, (count, height, width).

    Parameters
    ----------
    random
        Source of randomness.
    grid
        Extents.
    count
        Number of independent fields.
    scale
        Standard deviation of the smoothing kernel as a part of the height.
    """
    white = random.standard_normal((count, grid.height, grid.width))
    rows = np.fft.fftfreq(grid.height)[:, None]
    columns = np.fft.rfftfreq(grid.width)[None, :]
    filtered = np.exp(-2 * (np.pi * scale * grid.height) ** 2 * (rows**2 + columns**2))
    fields = np.fft.irfft2(np.fft.rfft2(white) * filtered, s=(grid.height, grid.width))
    fields -= fields.mean(axis=(1, 2), keepdims=True)
    return np.asarray(fields / fields.std(axis=(1, 2), keepdims=True))


def mountains(random: np.random.Generator, grid: Grid) -> Field:
    """Return the height of the ground, the same in all frames, (height, width) [m]."""
    return np.asarray(600 * np.maximum(smooth_noise(random, grid, 1, 0.12)[0] - 0.5, 0))


def background(random: np.random.Generator, grid: Grid, ground_m: Field) -> dict[str, Field]:
    """Return all channels of a frame without events, by name, in the units of the Community Atmosphere Model.

    Zonal means are rough fits to the present climate. Weather is added as smooth noise; channels that physics couples
    share it: heights follow pressures, winds follow the slope of the pressure.

    Parameters
    ----------
    random
        Source of the weather.
    grid
        Extents.
    ground_m
        Height of the ground [m].
    """
    degrees = grid.latitude_deg
    polar = np.sin(np.radians(degrees)) ** 2
    pressure, warmth, moisture, rain, surface, jet = smooth_noise(random, grid, 6, _WEATHER_SCALE)
    sea_level_pa = 101_100 - 700 * np.cos(6 * np.radians(degrees)) + 250 * pressure
    east, north = _winds(pressure, degrees)
    zonal = 12 * np.sin(2 * np.radians(degrees)) ** 2 - 5 * (1 - polar)
    fields = {
        "PRECT": 3e-8 * np.exp(-((degrees / 12) ** 2)) + 1e-8 * np.maximum(rain, 0),
        "PS": sea_level_pa - AIR_KG_PER_M3 * GRAVITY_M_PER_S2 * ground_m,
        "PSL": sea_level_pa,
        "QREFHT": 0.002 + 0.015 * np.exp(-((degrees / 32) ** 2)) + 4e-4 * moisture,
        "T200": 217 + 5 * polar - 0.5 * warmth + 0.5 * jet,
        "T500": 268 - 28 * polar + warmth,
        "TMQ": 8 + 38 * np.exp(-((degrees / 27) ** 2)) + 2.5 * moisture,
        "TREFHT": 299 - 45 * polar + 1.5 * warmth,
        "TS": 300 - 46 * polar + 1.5 * warmth + 0.5 * surface,
        "U850": zonal + 3 * east,
        "UBOT": 0.7 * zonal + 2 * east + 0.3 * surface,
        "V850": 3 * north,
        "VBOT": 2 * north + 0.3 * rain,
        "Z1000": (sea_level_pa - 100_000) / (AIR_KG_PER_M3 * GRAVITY_M_PER_S2),
        "Z200": 12_350 - 1_100 * polar + 25 * warmth,
        "ZBOT": 63 - 9 * polar + 0.4 * warmth,
    }
    return {name: np.broadcast_to(fields[name], (grid.height, grid.width)).copy() for name in CHANNELS}


def _winds(pressure: Field, degrees: Field) -> tuple[Field, Field]:
    """Return eastward and northward winds along the isobars, of variance 1 together; weak at the equator."""
    slope_north, slope_east = np.gradient(pressure)
    turning = np.tanh(degrees / 10)
    east, north = -slope_north * turning, slope_east * turning
    size = np.sqrt((east**2 + north**2).mean())
    return east / size, north / size
