"""Events of the generator: vortices and moisture filaments, whose boxes follow from the fields they add."""

from dataclasses import dataclass

import numpy as np

from hpcai.workloads.extreme_weather.data.climate import AIR_KG_PER_M3, GRAVITY_M_PER_S2, Field, Grid
from hpcai.workloads.extreme_weather.data.container import CLASSES

DEPRESSION, TROPICAL, EXTRATROPICAL, RIVER = range(len(CLASSES))
PRESSURE_EDGE_PA = 300.0
"""A cyclone's box encloses the pixels where it lowers the pressure by more than this."""
MOISTURE_EDGE_KG_PER_M2 = 8.0
"""A river's box encloses the pixels where it adds more water vapour to the column than this."""
_ATTEMPTS = 40
_MOST_OVERLAP = 0.2
_GRADIENT_WIND = 0.8
"""Peak wind of a vortex in units of sqrt(depth / density)."""
Range = tuple[float, float]
Box = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class VortexKind:
    """Ranges of a kind of cyclone: radius as a part of the height, core temperature and moisture at 1 kPa depth."""

    latitude_deg: Range
    radius: Range
    depth_pa: Range
    core_k: float
    moisture_kg_per_m2: float


VORTICES = {
    DEPRESSION: VortexKind((8, 28), (0.050, 0.060), (700, 1_000), 1.0, 8.0),
    TROPICAL: VortexKind((8, 28), (0.050, 0.060), (2_500, 5_000), 1.6, 5.0),
    EXTRATROPICAL: VortexKind((36, 58), (0.085, 0.110), (1_500, 3_000), -1.6, 3.0),
}
"""Size and depth distinguish the kinds: depressions are small and shallow, tropical cyclones deep, others wide."""


@dataclass(frozen=True)
class Vortex:
    """A cyclone; places and radius in pixels."""

    kind: int
    row: float
    column: float
    radius: float
    depth_pa: float


@dataclass(frozen=True)
class River:
    """An atmospheric river: a straight filament; places, length and width in pixels."""

    row: float
    column: float
    angle_rad: float
    length: float
    width: float
    moisture_kg_per_m2: float


def add_events(random: np.random.Generator, grid: Grid, fields: dict[str, Field], count: int) -> list[Box]:
    """Add events of random kinds to the fields of a frame; return their boxes (ymin, xmin, ymax, xmax, class).

    Boxes lie inside the image and hardly overlap; an event that does not fit is left out.

    Parameters
    ----------
    random
        Source of kinds and places.
    grid
        Extents.
    fields
        Channels by name, changed in place.
    count
        Number of events.
    """
    boxes: list[Box] = []
    for _ in range(count):
        kind = int(random.integers(len(CLASSES)))
        for _ in range(_ATTEMPTS):
            event = _draw(random, grid, kind)
            shape = _shape(event, grid)
            box = _box(shape, event, kind)
            if _inside(box, grid) and all(_overlap(box, other) < _MOST_OVERLAP for other in boxes):
                _add(event, shape, grid, fields)
                boxes.append(box)
                break
    return boxes


def _draw(random: np.random.Generator, grid: Grid, kind: int) -> Vortex | River:
    hemisphere = 1 if random.random() < 0.5 else -1
    column = random.uniform(0, grid.width)

    def row(degrees: float) -> float:
        return (hemisphere * degrees + 90) / 180 * grid.height

    if kind == RIVER:
        return River(
            row=row(random.uniform(28, 48)),
            column=column,
            angle_rad=hemisphere * random.uniform(0.35, 0.9),
            length=random.uniform(0.42, 0.6) * grid.height,
            width=random.uniform(0.020, 0.026) * grid.height,
            moisture_kg_per_m2=random.uniform(22, 30),
        )
    vortex = VORTICES[kind]
    return Vortex(
        kind=kind,
        row=row(random.uniform(*vortex.latitude_deg)),
        column=column,
        radius=random.uniform(*vortex.radius) * grid.height,
        depth_pa=random.uniform(*vortex.depth_pa),
    )


def _offsets(event: Vortex | River, grid: Grid) -> tuple[Field, Field]:
    """Return the distances of the pixels' centres from the event's, northward and eastward [pixels]."""
    north = np.arange(grid.height)[:, None] + 0.5 - event.row
    east = np.arange(grid.width)[None, :] + 0.5 - event.column
    return north, east


def _shape(event: Vortex | River, grid: Grid) -> Field:
    """Return the form of the anomaly, 1 at its centre, (height, width)."""
    north, east = _offsets(event, grid)
    if isinstance(event, Vortex):
        return np.asarray(np.exp(-(north**2 + east**2) / (2 * event.radius**2)))
    along = east * np.cos(event.angle_rad) + north * np.sin(event.angle_rad)
    across = north * np.cos(event.angle_rad) - east * np.sin(event.angle_rad)
    ends = np.clip((event.length / 2 - np.abs(along)) / event.width, 0, 1)
    return np.asarray(np.exp(-(across**2) / (2 * event.width**2)) * ends)


def _box(shape: Field, event: Vortex | River, kind: int) -> Box:
    """Return the smallest box around all pixels where the anomaly exceeds its threshold; empty if there are none."""
    if isinstance(event, Vortex):
        inside = shape * event.depth_pa > PRESSURE_EDGE_PA
    else:
        inside = shape * event.moisture_kg_per_m2 > MOISTURE_EDGE_KG_PER_M2
    rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
    if not rows.size:
        return (0, 0, 0, 0, kind)
    return (int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1, kind)


def _inside(box: Box, grid: Grid) -> bool:
    """Return whether a box stays clear of the border, which would cut the event off."""
    top, left, bottom, right, _ = box
    return 0 < top < bottom < grid.height and 0 < left < right < grid.width


def _overlap(one: Box, other: Box) -> float:
    """Return the common part of two boxes relative to the smaller one."""
    height = min(one[2], other[2]) - max(one[0], other[0])
    width = min(one[3], other[3]) - max(one[1], other[1])
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return max(height, 0) * max(width, 0) / min(areas)


def _add(event: Vortex | River, shape: Field, grid: Grid, fields: dict[str, Field]) -> None:
    north, east = _offsets(event, grid)
    hemisphere = 1 if event.row > grid.height / 2 else -1
    if isinstance(event, River):
        _add_moisture(fields, event.moisture_kg_per_m2 * shape)
        speed = 18 * shape
        _add_winds(fields, speed * np.cos(event.angle_rad), speed * np.sin(event.angle_rad))
        return
    kind = VORTICES[event.kind]
    depth_pa = event.depth_pa * shape
    for name in ("PSL", "PS"):
        fields[name] -= depth_pa
    fields["Z1000"] -= depth_pa / (AIR_KG_PER_M3 * GRAVITY_M_PER_S2)
    fields["T500"] += kind.core_k * depth_pa / 1000
    fields["T200"] += 0.7 * kind.core_k * depth_pa / 1000
    fields["Z200"] += 20 * kind.core_k * depth_pa / 1000
    _add_moisture(fields, kind.moisture_kg_per_m2 * depth_pa / 1000)
    # The wind of a Gaussian vortex is highest at one radius, where r/radius exp((1 - (r/radius)^2) / 2) = 1.
    speed = _GRADIENT_WIND * np.sqrt(event.depth_pa / AIR_KG_PER_M3) * shape * np.exp(0.5)
    _add_winds(fields, -hemisphere * speed * north / event.radius, hemisphere * speed * east / event.radius)


def _add_moisture(fields: dict[str, Field], added_kg_per_m2: Field) -> None:
    fields["TMQ"] += added_kg_per_m2
    fields["PRECT"] += 6e-9 * added_kg_per_m2
    fields["QREFHT"] += 1e-4 * added_kg_per_m2


def _add_winds(fields: dict[str, Field], east_m_per_s: Field, north_m_per_s: Field) -> None:
    for level, factor in (("850", 1.0), ("BOT", 0.8)):
        fields[f"U{level}"] += factor * east_m_per_s
        fields[f"V{level}"] += factor * north_m_per_s
