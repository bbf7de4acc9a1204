"""The generator is deterministic, keeps the official layout, and makes plausible fields with matching masks."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from unit.workloads.deepcam.data.deepcam_frames import module, settings

from hpcai.workloads.deepcam.data.climate import CHANNELS, LOOSE, STRICT, Grid, Vortex, background, classify, make_frame
from hpcai.workloads.deepcam.data.generator import generate_dataset
from hpcai.workloads.deepcam.data.statistics import read_statistics

GRID = Grid(64, 96)
PLAUSIBLE = {
    "TMQ": (0, 100), "U850": (-80, 80), "V850": (-80, 80), "UBOT": (-70, 70), "VBOT": (-70, 70), "QREFHT": (1e-4, 0.03),
    "PS": (92e3, 105e3), "PSL": (92e3, 105e3), "T200": (205, 240), "T500": (225, 285), "PRECT": (0, 1e-5),
    "TS": (260, 315), "TREFHT": (260, 315), "Z1000": (-900, 500), "Z200": (10.5e3, 13.5e3), "ZBOT": (50, 70),
}  # fmt: skip


@pytest.fixture(scope="module")
def frames() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    made = [make_frame(GRID, np.random.default_rng([5, number])) for number in range(60)]
    data, labels, loose = (np.stack(parts) for parts in zip(*made, strict=True))
    return data, labels, loose


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.h5"))}


def test_workers_do_not_change_a_byte(tmp_path: Path) -> None:
    facts = [generate_dataset(settings(), tmp_path / str(n), workers=n) for n in (1, 2)]
    first, second = (files(tmp_path / str(n)) for n in (1, 2))
    assert first == second
    assert facts[0] == facts[1] == {"version": 1, "seed": 1}
    assert list(first) == [
        "stats.h5",
        *(f"train/data-00000{number}.h5" for number in (1, 2, 3)),
        *(f"validation/data-00000{number}.h5" for number in (1, 2)),
    ]


def test_generated_files_pass_the_examination_and_the_statistics_are_theirs(tmp_path: Path) -> None:
    generate_dataset(settings(), tmp_path, workers=1)
    found = module().find(tmp_path)
    assert found is not None
    for path in (*found["train"], *found["validation"]):
        module().examine(tmp_path / path)
        with h5py.File(tmp_path / path) as file:
            assert {name: (values.dtype, values.shape) for name, values in file["climate"].items()} == {
                "data": (np.float32, (16, 32, 16)),
                "labels_0": (np.uint8, (16, 32)),
                "labels_1": (np.uint8, (16, 32)),
            }
    train = np.stack([h5py.File(tmp_path / path)["climate/data"][()] for path in found["train"]])
    stats = module().statistics(tmp_path, found)
    np.testing.assert_array_equal(stats["minval"], train.min((0, 1, 2)))
    np.testing.assert_array_equal(stats["maxval"], train.max((0, 1, 2)))
    assert read_statistics(tmp_path / "stats.h5").count == 3


def test_samples_splits_and_seeds_differ_and_a_longer_dataset_begins_with_a_shorter_one(tmp_path: Path) -> None:
    for name, changes in (("a", {}), ("b", {"seed": 2}), ("c", {"train_samples": 5})):
        generate_dataset(settings(**changes), tmp_path / name, workers=1)
    a, b, c = (files(tmp_path / name) for name in "abc")
    assert len({content for found in (a, b) for content in found.values()}) == 12
    assert all(c[name] == content for name, content in a.items() if name != "stats.h5")


def test_values_are_physical(frames: tuple[np.ndarray, ...]) -> None:
    for number, name in enumerate(CHANNELS):
        low, high = PLAUSIBLE[name]
        values = frames[0][..., number]
        assert low <= values.min() < values.max() <= high, name


def test_events_are_rare_and_some_frames_have_none(frames: tuple[np.ndarray, ...]) -> None:
    labels = frames[1]
    background_share, cyclones, rivers = (float((labels == number).mean()) for number in range(3))
    assert 0.95 < background_share < 0.98
    assert 0.003 < cyclones < 0.015
    assert rivers > 2 * cyclones
    without_cyclone = ~(labels == 1).any((1, 2))
    assert 5 <= without_cyclone.sum() <= 30
    assert (frames[2] > 0).sum() > 1.1 * (labels > 0).sum()


def test_masks_follow_from_the_fields(frames: tuple[np.ndarray, ...]) -> None:
    data, labels, loose = frames
    for frame, strict, other in zip(data[:5], labels, loose, strict=False):
        np.testing.assert_array_equal(classify(frame, GRID, STRICT), strict)
        np.testing.assert_array_equal(classify(frame, GRID, LOOSE), other)
    values = dict(zip(CHANNELS, np.moveaxis(data, -1, 0), strict=True))
    cyclone, river = labels == 1, labels == 2
    assert values["PSL"][cyclone].max() <= STRICT.cyclone_pa
    assert values["T200"][cyclone].min() >= STRICT.cyclone_t200_k
    wind = np.hypot(values["U850"], values["V850"])
    assert (values["TMQ"] * wind)[river].min() >= 0.999 * STRICT.river_transport_kg_per_m_s
    # No single channel decides: other pixels are as moist, as windy or as deep.
    assert (values["TMQ"][~river] > np.median(values["TMQ"][river])).any()
    assert (values["PSL"][labels == 0] < STRICT.cyclone_pa).any()


def test_background_winds_are_in_geostrophic_balance_and_cyclones_turn_to_the_left() -> None:
    weather = background(GRID, np.random.default_rng(3))
    north, east = GRID.slopes(weather.pressure_pa)
    along = weather.east_m_per_s * east + weather.north_m_per_s * north
    assert np.abs(along).max() < 1e-9
    calm = [np.zeros((64, 96)) for _ in range(6)]
    still = type(weather)(*calm)
    Vortex(30.0, 37.5, 3.0, 4000.0, 6.0, 15.0).add_to(still, GRID)
    row, column = 32, 48
    assert still.pressure_pa[row, column] == pytest.approx(-4000, rel=0.05)
    # On the northern hemisphere: northward wind to the east of the centre, westward wind to the north of it.
    assert still.north_m_per_s[row, column + 4] > 20
    assert still.north_m_per_s[row, column - 4] < -20
    assert still.east_m_per_s[row + 4, column] < -20
    speed = np.hypot(still.east_m_per_s, still.north_m_per_s)
    assert speed.max() == pytest.approx(3.45 * 40**0.644, rel=0.05)
