"""Climate-like fields with cyclones and atmospheric rivers, and the masks that follow from the fields by thresholds.

A frame shows the sea between 5 and 55 degrees north, 75 degrees wide, whatever its number of pixels. Wind follows from
a smooth random pressure by geostrophic balance, humidity from temperature. Cyclones are warm-cored vortices, rivers are
bands of moist air with a wind along them. Two decoys show only part of the signature: cold lows (pressure and
vorticity, no warm core, no moisture) and moist patches (no wind). Lengths are in degrees of latitude.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hpcai.workloads.deepcam.data.frame import CHANNELS

Field = NDArray[np.float64]

SOUTH, NORTH, WIDTH = 5.0, 55.0, 75.0
TROPICS = 20.0
METRES_PER_DEGREE = 111_200.0
GRAVITY_M_PER_S2 = 9.81
AIR_GAS_CONSTANT_J_PER_KG_K = 287.05
AIR_DENSITY_KG_PER_M3 = 1.2
CORIOLIS_PER_S = 8.4e-5
"""At 35 degrees north; one value for the whole frame keeps the balance simple."""
MOIST_LAYER_M = 2400.0
"""Height of a column of surface air that holds as much water as the atmosphere above."""
RELATIVE_HUMIDITY = 0.78
T200_K = 220.0
FRICTION, FRICTION_ANGLE = 0.8, np.deg2rad(20.0)
"""What remains of the wind at the surface, and how far it is turned towards low pressure."""


@dataclass(frozen=True)
class Grid:
    """Pixels of a frame; the first row is the southernmost."""

    height: int
    width: int

    @cached_property
    def latitude(self) -> Field:
        """Degrees north, shape (height, width)."""
        rows = SOUTH + (np.arange(self.height) + 0.5) * (NORTH - SOUTH) / self.height
        return np.repeat(rows[:, None], self.width, axis=1)

    @cached_property
    def longitude(self) -> Field:
        """Degrees east of the frame's edge, shape (height, width)."""
        columns = (np.arange(self.width) + 0.5) * WIDTH / self.width
        return np.repeat(columns[None, :], self.height, axis=0)

    def slopes(self, values: Field) -> tuple[Field, Field]:
        """Return the change per metre to the north and to the east."""
        row_m = METRES_PER_DEGREE * (NORTH - SOUTH) / self.height
        column_m = METRES_PER_DEGREE * WIDTH / self.width
        north, east = np.gradient(values, row_m, column_m)
        return north, east

    def noise(self, random: np.random.Generator, length: float) -> Field:
        """Return a Gaussian random field of mean 0, variance 1 and a correlation length in degrees."""
        white = np.fft.rfft2(random.standard_normal((self.height, self.width)))
        rows = np.fft.fftfreq(self.height, (NORTH - SOUTH) / self.height)
        columns = np.fft.rfftfreq(self.width, WIDTH / self.width)
        square = rows[:, None] ** 2 + columns[None, :] ** 2
        values = np.fft.irfft2(white * np.exp(-((np.pi * length) ** 2) * square / 2), s=(self.height, self.width))
        return np.asarray((values - values.mean()) / values.std())


@dataclass
class Weather:
    """The fields from which all channels follow, each of shape (height, width)."""

    pressure_pa: Field
    """At sea level."""
    east_m_per_s: Field
    """Wind at 850 hPa."""
    north_m_per_s: Field
    water_kg_per_m2: Field
    """In the whole column."""
    surface_k: Field
    core_k: Field
    """How much warmer the upper air is than around it."""


def saturation_humidity(temperature_k: Field) -> Field:
    """Return the water in saturated air at 1000 hPa [kg/kg] (Bolton 1980, Monthly Weather Review 108, eq. 10)."""
    celsius = temperature_k - 273.15
    return np.asarray(0.622 * 611.2 * np.exp(17.67 * celsius / (celsius + 243.5)) / 100_000.0)


def mean_temperature(grid: Grid) -> Field:
    """Return the climate's surface temperature [K]."""
    return np.asarray(301.0 - 0.011 * (grid.latitude - SOUTH) ** 2)


def mean_water(grid: Grid) -> Field:
    """Return the climate's water in the column [kg/m^2]."""
    humidity = RELATIVE_HUMIDITY * saturation_humidity(mean_temperature(grid))
    return np.asarray(humidity * AIR_DENSITY_KG_PER_M3 * MOIST_LAYER_M)


def background(grid: Grid, random: np.random.Generator) -> Weather:
    """Return weather without events."""
    ridge = 400.0 * np.sin(np.pi * (grid.latitude - SOUTH) / (NORTH - SOUTH))
    pressure = 101_200.0 + ridge + 250.0 * grid.noise(random, 9.0)
    north, east = grid.slopes(pressure)
    balance = AIR_DENSITY_KG_PER_M3 * CORIOLIS_PER_S
    return Weather(
        pressure_pa=pressure,
        east_m_per_s=-north / balance,
        north_m_per_s=east / balance,
        water_kg_per_m2=mean_water(grid) * (1 + 0.05 * grid.noise(random, 4.0)),
        surface_k=mean_temperature(grid) + grid.noise(random, 6.0),
        core_k=0.3 * grid.noise(random, 6.0),
    )


@dataclass(frozen=True)
class Vortex:
    """A round low; ``radius`` is that of the strongest wind."""

    latitude: float
    longitude: float
    radius: float
    deficit_pa: float
    core_k: float
    water_kg_per_m2: float

    def add_to(self, weather: Weather, grid: Grid) -> None:
        """Change the weather: a Gaussian low with the wind around it."""
        north, east = grid.latitude - self.latitude, grid.longitude - self.longitude
        square = (north**2 + east**2) / self.radius**2
        bell = np.exp(-square / 2)
        # Strongest wind from the deficit [hPa], in m/s instead of knots: Monthly Weather Review 105 (1977), page 421.
        strongest_m_per_s = 3.45 * (self.deficit_pa / 100) ** 0.644
        around = strongest_m_per_s * np.exp(0.5) * bell / self.radius
        weather.pressure_pa -= self.deficit_pa * bell
        weather.east_m_per_s -= around * north
        weather.north_m_per_s += around * east
        weather.core_k += self.core_k * bell
        weather.water_kg_per_m2 += self.water_kg_per_m2 * np.exp(-square / 1.6)


@dataclass(frozen=True)
class Band:
    """A bent band of moist air; with wind along it, an atmospheric river."""

    latitude: float
    longitude: float
    heading: float
    """Angle from east to north [rad]."""
    length: float
    width: float
    bend: float
    """Sideways shift of both ends."""
    water_kg_per_m2: float
    wind_m_per_s: float

    def add_to(self, weather: Weather, grid: Grid) -> None:
        """Change the weather: Gaussian across, with soft ends."""
        north, east = grid.latitude - self.latitude, grid.longitude - self.longitude
        along = east * np.cos(self.heading) + north * np.sin(self.heading)
        place = 2 * along / self.length
        across = north * np.cos(self.heading) - east * np.sin(self.heading) - self.bend * place**2
        ends = 1 / (1 + np.exp(np.clip(8 * (np.abs(place) - 1), -50, 50)))
        square = (across / self.width) ** 2
        direction = self.heading + np.arctan(4 * self.bend * place / self.length)
        wind = self.wind_m_per_s * ends * np.exp(-square / 3.4)
        weather.water_kg_per_m2 += self.water_kg_per_m2 * ends * np.exp(-square / 2)
        weather.east_m_per_s += wind * np.cos(direction)
        weather.north_m_per_s += wind * np.sin(direction)


def add_events(weather: Weather, grid: Grid, random: np.random.Generator) -> None:
    """Add cyclones, rivers and decoys; some frames have no cyclone, a few no river."""

    def between(low: float, high: float) -> float:
        return float(random.uniform(low, high))

    def number(shares: tuple[float, ...]) -> int:
        return int(random.choice(len(shares), p=shares))

    for _ in range(number((0.3, 0.5, 0.2))):
        place = between(SOUTH + 5, 30.0), between(6.0, WIDTH - 6)
        Vortex(*place, between(1.9, 2.6), between(3000.0, 5500.0), between(5.0, 8.0), between(14.0, 20.0)).add_to(
            weather, grid
        )
    for _ in range(number((0.1, 0.7, 0.2))):
        place = between(32.0, 46.0), between(14.0, WIDTH - 14)
        form = between(0.3, 0.9), between(20.0, 30.0), between(1.3, 1.8), between(-4.0, 4.0)
        Band(*place, *form, between(18.0, 24.0), between(20.0, 28.0)).add_to(weather, grid)
    for _ in range(number((0.4, 0.4, 0.2))):
        place = between(35.0, NORTH - 5), between(6.0, WIDTH - 6)
        Vortex(*place, between(2.5, 4.0), between(1800.0, 3000.0), between(-5.0, -3.0), 0.0).add_to(weather, grid)
    for _ in range(number((0.4, 0.4, 0.2))):
        place = between(SOUTH + 5, NORTH - 5), between(6.0, WIDTH - 6)
        Band(*place, between(0.0, 3.1), between(5.0, 14.0), between(1.5, 2.5), 0.0, between(12.0, 18.0), 0.0).add_to(
            weather, grid
        )


def channels(weather: Weather, grid: Grid, random: np.random.Generator) -> NDArray[np.float32]:
    """Return the sixteen channels in the official order, (height, width, 16) float32, in SI units."""
    east, north = weather.east_m_per_s, weather.north_m_per_s
    excess = weather.water_kg_per_m2 - mean_water(grid)
    reference_k = weather.surface_k - 1.0 + 0.4 * grid.noise(random, 5.0)
    humidity = RELATIVE_HUMIDITY * saturation_humidity(reference_k)
    t500 = weather.surface_k - 35.0 + 0.6 * weather.core_k + 0.5 * grid.noise(random, 6.0)
    t200 = T200_K + weather.core_k
    z1000 = (weather.pressure_pa - 100_000.0) / (AIR_DENSITY_KG_PER_M3 * GRAVITY_M_PER_S2)
    thickness = AIR_GAS_CONSTANT_J_PER_KG_K * (reference_k + t500 + t200) / 3 * np.log(5.0) / GRAVITY_M_PER_S2
    found = {
        "TMQ": weather.water_kg_per_m2,
        "U850": east,
        "V850": north,
        "UBOT": FRICTION * (east * np.cos(FRICTION_ANGLE) - north * np.sin(FRICTION_ANGLE)),
        "VBOT": FRICTION * (east * np.sin(FRICTION_ANGLE) + north * np.cos(FRICTION_ANGLE)),
        "QREFHT": humidity + 0.25 * excess / (AIR_DENSITY_KG_PER_M3 * MOIST_LAYER_M),
        # Over the sea the surface is at sea level.
        "PS": weather.pressure_pa,
        "PSL": weather.pressure_pa,
        "T200": t200,
        "T500": t500,
        "PRECT": 2e-8 * np.exp(np.clip(excess / 5, -2, 5)),
        "TS": weather.surface_k,
        "TREFHT": reference_k,
        "Z1000": z1000,
        "Z200": z1000 + thickness,
        # Middle of the lowest model layer.
        "ZBOT": 60.0 * reference_k / 288.0,
    }
    return np.asarray(np.stack([found[name] for name in CHANNELS], axis=-1), np.float32)


@dataclass(frozen=True)
class Thresholds:
    """Thresholds that classify a pixel as cyclone or river."""

    cyclone_pa: float
    cyclone_t200_k: float
    river_excess_kg_per_m2: float
    river_transport_kg_per_m_s: float


STRICT = Thresholds(100_000.0, T200_K + 1.5, 7.0, 480.0)
LOOSE = Thresholds(100_300.0, T200_K + 1.0, 5.0, 400.0)


def classify(frame: NDArray[np.float32], grid: Grid, thresholds: Thresholds) -> NDArray[np.uint8]:
    """Return the class of each pixel from the channels alone, (height, width): 0 background, 1 cyclone, 2 river.

    A cyclone is deep and has a warm core. A river is moister than the climate and carries water: the product of the
    column's water and the wind at 850 hPa is high. The tropics are always moist, so they have none.
    """
    values = {name: frame[..., number].astype(np.float64) for number, name in enumerate(CHANNELS)}
    cyclone = (values["PSL"] <= thresholds.cyclone_pa) & (values["T200"] >= thresholds.cyclone_t200_k)
    transport = values["TMQ"] * np.hypot(values["U850"], values["V850"])
    excess = values["TMQ"] - mean_water(grid)
    moist = excess >= thresholds.river_excess_kg_per_m2
    river = moist & (transport >= thresholds.river_transport_kg_per_m_s) & (grid.latitude >= TROPICS)
    warm = values["T200"] >= thresholds.cyclone_t200_k
    return np.where(cyclone, 1, np.where(river & ~warm, 2, 0)).astype(np.uint8)


def make_frame(
    grid: Grid, random: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the channels of a frame, (height, width, 16), and its classes by strict and by loose thresholds."""
    weather = background(grid, random)
    add_events(weather, grid, random)
    frame = channels(weather, grid, random)
    return frame, classify(frame, grid, STRICT), classify(frame, grid, LOOSE)
