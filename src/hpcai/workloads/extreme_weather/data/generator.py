"""The generator: years of climate-like fields with events that a detector can learn, in the official container."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from hpcai.data.processes import in_processes
from hpcai.workloads.extreme_weather.data.climate import Field, Grid, background, mountains
from hpcai.workloads.extreme_weather.data.container import (
    BOX_FIELDS,
    CHANNELS,
    MAX_BOXES,
    UNUSED,
    Boxes,
    Images,
    YearShape,
    write_year,
)
from hpcai.workloads.extreme_weather.data.events import MOISTURE_EDGE_KG_PER_M2, PRESSURE_EDGE_PA, add_events
from hpcai.workloads.extreme_weather.settings import ExtremeWeatherData

GENERATOR_VERSION = 1
EMPTY_RATIO = 0.1
"""Fraction of frames without an event."""
MOST_EVENTS = 3


def generate_dataset(settings: ExtremeWeatherData, folder: Path, workers: int | None = None) -> dict[str, object]:
    """Write the files of all years into ``folder`` and return the facts of the generator for the manifest.

    Files depend on the settings alone, not on the number of workers.

    Parameters
    ----------
    settings
        Extents, years, numbers of frames and seed.
    folder
        Receives climo_YYYY.h5; the caller publishes it.
    workers
        Number of processes; defaults to the usable processors.
    """
    years = sorted((*settings.train_years, *settings.validation_years))
    for _ in in_processes(partial(_write_year, settings, folder), years, "years", workers):
        pass
    return {
        "version": GENERATOR_VERSION,
        "seed": settings.seed,
        "most_events": MOST_EVENTS,
        "empty_ratio": EMPTY_RATIO,
        "pressure_edge_pa": PRESSURE_EDGE_PA,
        "moisture_edge_kg_per_m2": MOISTURE_EDGE_KG_PER_M2,
    }


def make_frame(settings: ExtremeWeatherData, ground_m: Field, year: int, number: int) -> tuple[Images, Boxes]:
    """Return one frame: a field (16, height, width) in physical units, and its boxes (15, 5)."""
    grid = Grid(settings.height, settings.width)
    random = np.random.default_rng([settings.seed, year, number])
    fields = background(random, grid, ground_m)
    events = 0 if random.random() < EMPTY_RATIO else int(random.integers(1, MOST_EVENTS + 1))
    boxes = np.full((MAX_BOXES, BOX_FIELDS), UNUSED, np.int32)
    for row, box in enumerate(add_events(random, grid, fields, events)):
        boxes[row] = box
    return np.stack([fields[name] for name in CHANNELS]).astype(np.float32), boxes


def make_ground(settings: ExtremeWeatherData) -> Field:
    """Return the height of the ground, the same in all years, (height, width) [m]."""
    return mountains(np.random.default_rng([settings.seed]), Grid(settings.height, settings.width))


def _write_year(settings: ExtremeWeatherData, folder: Path, year: int) -> None:
    ground_m = make_ground(settings)
    shape = YearShape(settings.frames(year), settings.height, settings.width)
    boxes = np.full(shape.boxes, UNUSED, np.int32)

    def images() -> Iterator[Images]:
        for number in range(shape.frames):
            image, boxes[number] = make_frame(settings, ground_m, year, number)
            yield image

    write_year(folder / f"climo_{year}.h5", images(), boxes, shape)
