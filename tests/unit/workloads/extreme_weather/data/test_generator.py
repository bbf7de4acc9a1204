"""The generator is deterministic and valid, and its boxes follow from plausible fields."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcai.workloads.extreme_weather.data.climate import Grid, background, smooth_noise
from hpcai.workloads.extreme_weather.data.container import CHANNELS, UNUSED
from hpcai.workloads.extreme_weather.data.events import (
    DEPRESSION,
    EXTRATROPICAL,
    RIVER,
    TROPICAL,
    River,
    Vortex,
    _add,
    _box,
    _shape,
    add_events,
)
from hpcai.workloads.extreme_weather.data.generator import generate_dataset, make_frame, make_ground
from hpcai.workloads.extreme_weather.data.module import ExtremeWeatherDataModule
from hpcai.workloads.extreme_weather.settings import ExtremeWeatherData

GRID = Grid(64, 96)


def settings(**changes: Any) -> ExtremeWeatherData:
    values = {
        "dataset": "tiny",
        "source": "generate",
        "height": 64,
        "width": 96,
        "train_years": (1979, 1980),
        "validation_years": (1984,),
        "train_samples": 4,
        "validation_samples": 2,
    }
    return ExtremeWeatherData.model_validate({**values, **changes})


def test_workers_do_not_change_a_byte(tmp_path: Path) -> None:
    facts = []
    for workers in (1, 2):
        (tmp_path / str(workers)).mkdir()
        facts.append(generate_dataset(settings(), tmp_path / str(workers), workers))
    contents = [{path.name: path.read_bytes() for path in (tmp_path / n).iterdir()} for n in ("1", "2")]
    assert contents[0] == contents[1]
    assert sorted(contents[0]) == ["climo_1979.h5", "climo_1980.h5", "climo_1984.h5"]
    assert facts[0] == facts[1]


def test_the_module_accepts_what_it_generates(tmp_path: Path) -> None:
    module = ExtremeWeatherDataModule(settings())
    module.generate(tmp_path)
    found = module.find(tmp_path)
    assert found is not None
    assert [module.examine(tmp_path / name).records for split in found.values() for name in split] == [2, 2, 2]


def test_frames_years_and_seeds_differ() -> None:
    ground = make_ground(settings())
    frames = [
        make_frame(settings(seed=seed), ground, year, number)[0].tobytes()
        for seed, year, number in [(1, 1979, 0), (1, 1979, 1), (1, 1980, 0), (2, 1979, 0)]
    ]
    assert len(set(frames)) == 4


def test_numbers_of_events_and_all_classes_occur() -> None:
    ground = make_ground(settings())
    boxes = [make_frame(settings(), ground, 1979, number)[1] for number in range(60)]
    counts = [(rows[:, 4] != UNUSED).sum() for rows in boxes]
    assert set(counts) == {0, 1, 2, 3}
    labels = np.concatenate([rows[rows[:, 4] != UNUSED, 4] for rows in boxes])
    assert set(labels.tolist()) == {0, 1, 2, 3}


def test_values_are_those_of_the_earths_atmosphere() -> None:
    fields = dict(zip(CHANNELS, make_frame(settings(), make_ground(settings()), 1979, 0)[0], strict=True))
    assert 9.2e4 < fields["PSL"].mean() < 1.04e5
    assert (fields["PS"] <= fields["PSL"]).all()
    assert 200 < fields["T200"].mean() < fields["T500"].mean() < fields["TS"].mean() < 300
    assert fields["QREFHT"].min() > 0
    assert fields["TMQ"].mean() > 5
    assert fields["Z1000"].mean() < fields["Z200"].mean()


def vortex(kind: int, row: float, depth_pa: float, radius: float) -> Vortex:
    return Vortex(kind=kind, row=row, column=48.0, radius=radius, depth_pa=depth_pa)


def added(event: Vortex | River) -> dict[str, np.ndarray]:
    fields = {name: np.zeros((64, 96)) for name in CHANNELS}
    _add(event, _shape(event, GRID), GRID, fields)
    return fields


@pytest.mark.parametrize(("row", "sense"), [(46.0, 1), (18.0, -1)])
def test_cyclones_turn_with_the_earth(row: float, sense: int) -> None:
    fields = added(vortex(TROPICAL, row, 4000, 4))
    centre = int(row)
    # Anticlockwise in the north: northward wind to the east of the centre, westward wind to the north of it.
    assert np.sign(fields["V850"][centre, 52]) == sense
    assert np.sign(fields["V850"][centre, 43]) == -sense
    assert np.sign(fields["U850"][centre + 4, 48]) == -sense
    assert fields["PSL"].min() == pytest.approx(-4000, rel=0.05)
    assert fields["TMQ"].max() > 0
    # The highest wind is at one radius and near sqrt(depth / density).
    assert np.hypot(fields["U850"], fields["V850"]).max() == pytest.approx(0.8 * np.sqrt(4000 / 1.2), rel=0.05)


def test_boxes_hold_what_is_deeper_than_the_edge() -> None:
    event = vortex(TROPICAL, 40.0, 4000, 4)
    top, left, bottom, right, label = _box(_shape(event, GRID), event, TROPICAL)
    radius = 4 * np.sqrt(2 * np.log(4000 / 300))
    assert label == TROPICAL
    assert (top, bottom) == (round(40 - radius), round(40 + radius))
    assert (left, right) == (round(48 - radius), round(48 + radius))
    outside = np.ones((64, 96), bool)
    outside[top:bottom, left:right] = False
    assert (added(event)["PSL"][outside] >= -300).all()


def test_kinds_differ_in_size() -> None:
    sizes = {}
    for kind, depth_pa, radius in ((DEPRESSION, 850, 3.5), (TROPICAL, 3500, 3.5), (EXTRATROPICAL, 2000, 6.2)):
        event = vortex(kind, 32.0, depth_pa, radius)
        top, _, bottom, _, _ = _box(_shape(event, GRID), event, kind)
        sizes[kind] = bottom - top
    assert sizes[DEPRESSION] < sizes[TROPICAL] < sizes[EXTRATROPICAL]


def test_rivers_are_long_thin_and_moist() -> None:
    event = River(row=46.0, column=48.0, angle_rad=0.5, length=32.0, width=1.5, moisture_kg_per_m2=25.0)
    top, left, bottom, right, _ = _box(_shape(event, GRID), event, RIVER)
    moist = added(event)["TMQ"] > 8
    assert moist[top:bottom, left:right].sum() == moist.sum()
    assert moist.sum() < 0.35 * (bottom - top) * (right - left)
    assert right - left > 20


def test_events_stay_inside_and_apart() -> None:
    for number in range(40):
        random = np.random.default_rng(number)
        boxes = add_events(random, GRID, background(random, GRID, np.zeros((64, 96))), 3)
        for top, left, bottom, right, _ in boxes:
            assert 0 < top < bottom < 64
            assert 0 < left < right < 96


def test_noise_is_smooth_and_normalised() -> None:
    fields = smooth_noise(np.random.default_rng(1), GRID, 3, 0.09)
    np.testing.assert_allclose(fields.std(axis=(1, 2)), 1)
    np.testing.assert_allclose(fields.mean(axis=(1, 2)), 0, atol=1e-12)
    assert np.abs(np.diff(fields, axis=2)).max() < 0.5
